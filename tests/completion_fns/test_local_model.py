import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from evalframe.core.errors import BadArguments, MissingExtra, ModelUnavailable, RequestRefused

pytest.importorskip("xllamacpp", reason='needs pip install "evalframe[local]"')

from evalframe.completion_fns.local import Answer, LocalCompletionFn, clean

QUESTIONS = [f"What is the capital of {country}? Answer with one word." for country in ("France", "Italy", "Spain", "Japan", "Egypt")]


def test_the_missing_library_is_told_before_anything_is_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtra, match=r'the model local/smollm2 needs "xllamacpp". Install it: pip install "evalframe\[local\]"'):
        LocalCompletionFn()


def test_a_model_that_is_not_there_is_told_before_anything_is_asked(tmp_path):
    with pytest.raises(ModelUnavailable, match=r'no local model "smollm3": it is neither smollm2 nor a file that can be read'):
        LocalCompletionFn("smollm3")
    pointer = tmp_path / "model.gguf"
    pointer.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ModelUnavailable, match="is not a GGUF file"):
        LocalCompletionFn(str(pointer))


def test_a_file_that_is_broken_is_told_each_time_it_is_asked(tmp_path):
    broken = tmp_path / "model.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 100)
    model = LocalCompletionFn(str(broken))
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match=r"model.gguf cannot be loaded"):
            model("2+2?")


def test_an_option_that_it_does_not_take_is_refused_by_name():
    with pytest.raises(BadArguments, match=r'local/smollm2 takes no option "temprature" \(closest: temperature\)'):
        LocalCompletionFn()("2+2?", temprature=1)
    with pytest.raises(RequestRefused, match="A prompt is text or a list of chat messages"):
        LocalCompletionFn()(["2+2?"])


def test_an_answer_grows_from_its_pieces():
    answer = Answer()
    deltas = [{"role": "assistant", "content": None}, {"reasoning_content": "hm"}, {"content": "4"}, {"content": "2"}, {}]
    for delta in deltas:
        answer.add({"choices": [{"delta": delta, "finish_reason": None if delta else "stop"}]})
    answer.add({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    assert (answer.text, answer.reasoning, answer.finish_reason, answer.usage.output_tokens) == ("42", "hm", "stop", 2)


def test_texts_are_made_fit_for_the_library():
    assert clean([{"content": "a\ud800b\U0001f600", "n": 1}]) == [{"content": "a\ufffdb\U0001f600", "n": 1}]


@pytest.mark.slow
@pytest.mark.model
class TestTheRealModel:
    def test_ten_threads_get_the_same_answers_as_one(self, sampling):
        model = LocalCompletionFn()
        alone = [model(prompt=question, max_tokens=12) for question in QUESTIONS]
        with ThreadPoolExecutor(10) as threads:
            together = list(threads.map(lambda question: model(question, max_tokens=12), QUESTIONS[::-1] * 2))
        assert [answer.completions for answer in together] == [answer.completions for answer in alone[::-1] * 2]
        assert "Paris" in alone[0].completions[0]
        assert alone[0].usage.input_tokens > 10
        assert sampling()[0]["model"] == "smollm2"
        assert sampling()[0]["options"] == {"temperature": 0.0, "max_tokens": 12, "seed": 0}

    def test_options_have_their_effect(self):
        model = LocalCompletionFn()
        assert model(QUESTIONS[0], max_tokens=1).finish_reason == "length"
        assert model(QUESTIONS[0], max_tokens=1).usage.output_tokens == 1
        assert "Paris" not in model(QUESTIONS[0], stop=["Paris"]).completions[0]
        drawn = [model("Tell me a story.", temperature=1.5, seed=seed, max_tokens=10).completions for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]

    def test_odd_prompts_are_answered_or_refused(self):
        model = LocalCompletionFn()
        assert model("lone \ud800 and \0", max_tokens=2).usage.output_tokens == 2
        with pytest.raises(RequestRefused, match=r"exceeds the available context size .* Shorten the prompt, or raise context_tokens"):
            model("word " * 6000)
        with pytest.raises(RequestRefused, match="image input is not supported"):
            model([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}])
        assert model("2+2?", max_tokens=2).usage.output_tokens == 2

    def test_no_thread_of_python_is_left(self):
        LocalCompletionFn()("2+2?", max_tokens=1)
        assert all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())

    @pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)"])
    def test_a_process_that_ends_in_the_middle_of_an_answer_ends_well(self, ending):
        code = (
            "import threading, time\n"
            "from evalframe.completion_fns.local import LocalCompletionFn\n"
            "model = LocalCompletionFn()\n"
            "model('2+2?', max_tokens=1)\n"
            "asked = threading.Event()\n"
            "def ask():\n"
            "    asked.set()\n"
            "    model('Tell a long story.', max_tokens=3000)\n"
            "for _ in range(3): threading.Thread(target=ask, daemon=True).start()\n"
            "asked.wait()\n"
            "time.sleep(0.5)\n"
            f"{ending}\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", timeout=60)
        assert (done.returncode, done.stdout) == (0, "")
        assert "Fatal" not in done.stderr
        assert "Segmentation" not in done.stderr
