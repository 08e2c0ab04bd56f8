"""A log, asked again: `replay/<log>` gives each question the answer that it got, and nobody is asked."""

import json
import threading
from pathlib import Path

import pytest
from number_rows import numbers

from evalframe.completion_fns.replay import ReplayCompletionFn
from evalframe.core.completion import Completion
from evalframe.core.errors import BadArguments, CallFailed, EvalframeError
from evalframe.core.recorder import record_match, record_sampling
from evalframe.eval import Eval
from evalframe.logs.run_log import read_log
from evalframe.registry.registry import Registry
from evalframe.runs.run import run_eval

ROWS = 6
BASIC = "evalframe.evals.basic"


class Model:
    """Says "It is N."; or what the plan says for N, where it may be an exception."""

    model = "m"
    asked: list = []
    plan: dict = {}
    extra: dict = {}

    def __call__(self, prompt, **options):
        text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        number = int(text.split()[-1])
        Model.asked.append(number)
        answer = Model.plan.get(number, f"It is {number}.")
        answer = answer() if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        record_sampling(prompt, answer, model=self.model, usage={"input_tokens": 10, "output_tokens": 2}, **self.extra)
        return Completion(answer if isinstance(answer, list) else [answer])


class Same(Eval):
    """Puts one question to everyone, as often as it is told."""

    def __init__(self, *args, times=1, text="Say the number 1", **kwargs):
        super().__init__(*args, **kwargs)
        self.times, self.text = times, text

    def eval_sample(self, sample, rng):
        said = [self.completion_fn(self.text).get_completions()[0] for _ in range(self.times)]
        record_match(True, picked=said)

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        return {"n": len(recorder.get_events("match"))}


class Fails(Same):
    """As `Same`, and its own code raises after the answers."""

    def eval_sample(self, sample, rng):
        super().eval_sample(sample, rng)
        raise ZeroDivisionError


class Desk:
    """A folder with a registry, and runs of its evals in this process."""

    def __init__(self, folder):
        self.folder, self.registry = folder, folder / "R"
        for kind in ("evals", "data"):
            (self.registry / kind).mkdir(parents=True)
        self.rows(numbers(ROWS))
        self.eval("n")
        self.eval("wide", f"{BASIC}:Includes")

    def eval(self, name, cls=f"{BASIC}:Match", **args):
        entry = {"class": cls, "args": {"samples_jsonl": "s.jsonl", **args}}
        (self.registry / "evals" / f"{name}.yaml").write_text(
            json.dumps({name: {"id": f"{name}.dev.v0"}, f"{name}.dev.v0": entry}), encoding="utf-8"
        )

    def rows(self, rows):
        (self.registry / "data" / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def __call__(self, what="n", who=None, **settings):
        Model.asked.clear()
        registry = Registry()
        registry.add_registry_paths([self.registry])
        return run_eval(Model() if who is None else who, what, registry=registry, **{"sequential": True, **settings})

    def replayed(self, log, what, **settings):
        result = self(what, f"replay/{log}", **settings)
        assert Model.asked == []
        return result


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in (("asked", []), ("plan", {}), ("extra", {})):
        monkeypatch.setattr(Model, name, value)
    return Desk(tmp_path)


def said(result, kind="sampled"):
    return {(event.sample_id.rpartition(".")[2], event.epoch): event.data[kind] for event in result.events("sampling")}


# ---------------------------------------------------------------------- as the completion function of a run


@pytest.mark.parametrize("how", [{"sequential": True}, {"sequential": False, "threads": 8}], ids=["one by one", "threads"])
def test_a_log_answers_another_eval_as_its_model_did(desk, how):
    source = desk("n")
    result = desk.replayed(source.log_path, "wide", **how)
    assert (source.report["accuracy"], result.report["accuracy"], result.status) == (0.0, 1.0, "success")
    assert said(result) == said(source)
    assert result.report["usage"]["m"]["calls"] == 0
    assert result.report["usage"]["m"]["input_tokens"] is None
    assert "verdicts_changed" not in result.report  # this is a run like any other, and no regrading


@pytest.mark.parametrize("path", ["evallogs/x.jsonl", "./evallogs/x.jsonl", "~/x.jsonl", "ABSOLUTE", "evallogs/with space, and ü.jsonl"])
def test_the_log_is_named_by_any_path(desk, path):
    source = desk("n")
    target = Path(path).expanduser() if path != "ABSOLUTE" else desk.folder / "x.jsonl"
    target.parent.mkdir(exist_ok=True)
    source.log_path.rename(target)
    who = f"replay/{target if path == 'ABSOLUTE' else path}"
    result = desk("wide", [ReplayCompletionFn(path)] if "," in path else who)  # a comma parts names
    assert (result.status, result.report["accuracy"]) == ("success", 1.0)


def test_a_log_that_is_not_there_is_told_before_anything_is_asked(desk):
    for path in ("missing.jsonl", "R"):
        with pytest.raises(BadArguments, match=r"there is no log .* to replay") as caught:
            desk.replayed(path, "n")
        assert caught.value.exit_code == 2
        assert any("replay/PATH" in advice for advice in caught.value.do)
    with pytest.raises(EvalframeError):
        desk("n", "replay/")
    assert not Path("evallogs").exists()


def test_options_of_the_model_are_taken_and_not_heeded(desk):
    source = desk("n")
    desk.eval("warm", f"{BASIC}:Includes", temperature=1.0, max_tokens=3)
    result = desk.replayed(source.log_path, "warm", completion_args="temperature=0,stop=x")
    assert (result.status, result.report["accuracy"]) == ("success", 1.0)


def test_a_question_that_was_not_asked_has_an_answer_that_says_so(desk):
    source = desk("n")
    rows = numbers(ROWS)
    rows[2]["input"] = "Now say the number 2"
    desk.rows(rows)
    result = desk.replayed(source.log_path, "wide")
    assert (result.status, result.exit_code, result.counts.error, result.report["n"]) == ("error", 1, 1, ROWS - 1)
    (message,) = result.errors
    assert f"CallFailed: {source.log_path} holds no answer to this prompt." in message
    assert "the eval, the data and the seed that it was made with" in message


def test_more_samples_and_more_epochs_than_the_log_has_are_errors(desk):
    source = desk("n", max_samples=4)
    result = desk.replayed(source.log_path, "wide")
    assert (result.counts.completed, result.counts.error) == (4, 2)
    result = desk.replayed(source.log_path, "wide", max_samples=4, epochs=2)
    assert (result.counts.completed, result.counts.error) == (4, 4)
    assert {event.epoch for event in result.events("sample") if event.data["status"] == "error"} == {2}


def test_a_sample_that_had_failed_fails_with_the_error_of_the_log(desk):
    Model.plan = {3: ConnectionError("the line was dead")}
    source = desk("n")
    result = desk.replayed(source.log_path, "n")
    (message,) = result.errors
    assert "its sample ended there in error (ConnectionError: the line was dead)" in message


def test_the_answers_of_a_sample_that_failed_afterwards_are_there(desk):
    desk.eval("fails", f"{__name__}:Fails", times=2)
    desk.eval("same", f"{__name__}:Same", times=2)
    draws = iter(range(100))
    Model.plan = {1: lambda: f"draw {next(draws)}"}
    source = desk("fails")
    assert source.counts.error == ROWS
    result = desk.replayed(source.log_path, "same")
    assert (result.status, result.counts.completed) == ("success", ROWS)
    assert sorted(answer for event in result.events("match") for answer in event.data["picked"]) == sorted(
        f"draw {n}" for n in range(2 * ROWS)
    )


def test_an_attempt_that_was_tried_again_gives_its_place_to_the_one_that_counts(desk):
    draws = iter([ConnectionError("dead"), "2", "never"])
    Model.plan = {2: lambda: next(draws)}
    source = desk("n", retry_on_error=1)
    result = desk.replayed(source.log_path, "n")
    assert said(result)["2", 1] == "2"
    assert result.report == {**source.report, "usage": result.report["usage"]}


# ---------------------------------------------------------------------- which answer


def test_who_was_asked_the_same_gets_the_answer_of_his_own(desk):
    desk.eval("same", f"{__name__}:Same")
    draws = iter(range(100))
    Model.plan = {1: lambda: f"draw {next(draws)}"}
    source = desk("same", epochs=2)
    assert len(set(said(source).values())) == 2 * ROWS
    assert said(desk.replayed(source.log_path, "same", epochs=2, sequential=False, threads=5)) == said(source)


def test_who_was_not_asked_gets_the_answer_of_the_first_who_was(desk):
    desk.eval("same", f"{__name__}:Same", text="Say the number 4")
    source = desk("n")
    assert set(said(desk.replayed(source.log_path, "same")).values()) == {"It is 4."}


def test_several_answers_come_in_their_order_and_no_more_than_there_are(desk):
    desk.eval("same", f"{__name__}:Same", times=3)
    desk.eval("greedy", f"{__name__}:Same", times=4)
    draws = iter(range(100))
    Model.plan = {1: lambda: f"draw {next(draws)}"}
    source = desk("same")
    picked = {event.sample_id.rpartition(".")[2]: event.data["picked"] for event in source.events("match")}
    result = desk.replayed(source.log_path, "same")
    assert {event.sample_id.rpartition(".")[2]: event.data["picked"] for event in result.events("match")} == picked
    result = desk.replayed(source.log_path, "greedy")
    assert (result.counts.error, "holds no answer to this prompt" in result.reason) == (ROWS, True)


def test_an_attempt_that_is_made_again_begins_with_the_first_answer(desk):
    class Shaky(Same):
        failed: set = set()

        def eval_sample(self, sample, rng):
            super().eval_sample(sample, rng)
            if sample["ideal"] not in self.failed:
                self.failed.add(sample["ideal"])
                raise ZeroDivisionError

    desk.eval("same", f"{__name__}:Same", times=2)
    draws = iter(range(100))
    Model.plan = {1: lambda: f"draw {next(draws)}"}
    source = desk("same")
    globals()["Shaky"] = Shaky
    desk.eval("shaky", f"{__name__}:Shaky", times=2)
    result = desk.replayed(source.log_path, "shaky", retry_on_error=1)
    assert result.status == "success"
    assert sorted(map(str, (event.data["picked"] for event in result.events("match")))) == sorted(
        map(str, (event.data["picked"] for event in source.events("match")))
    )


def test_text_and_one_message_of_the_same_text_are_told_apart_as_the_log_has_them(desk):
    desk.eval("chat", f"{__name__}:Same", text=[{"role": "user", "content": "Say the number 1"}])
    desk.eval("order", f"{__name__}:Same", text=[{"content": "Say the number 1", "role": "user"}])
    source = desk("chat")
    assert desk.replayed(source.log_path, "order").status == "success"
    desk.eval("other", f"{__name__}:Same", text=[{"role": "system", "content": "Say the number 1"}])
    assert desk.replayed(source.log_path, "other").counts.error == (
        ROWS if source.events("sampling")[0].data["prompt"][0]["role"] != "system" else 0
    )


def test_any_text_is_found_again(desk):
    texts = ["\ud800 3", "ü \u2028 \x00 3", '"}{\\ 3', "x" * 200_000 + " 3"]
    desk.rows([{"input": text, "ideal": "3"} for text in texts])
    source = desk("wide")
    result = desk.replayed(source.log_path, "wide")
    assert (source.status, result.status, result.report["accuracy"]) == ("success", "success", 1.0)


# ---------------------------------------------------------------------- what comes with an answer


def test_what_stood_beside_the_answer_stands_beside_it_again(desk):
    Model.extra = {
        "finish_reason": "length",
        "reasoning": "hm",
        "tool_calls": [{"name": "f"}],
        "refusal": "no",
        "answered_by": "m-2",
        "secretly": 1,
    }
    source = desk("n")
    for event in desk.replayed(source.log_path, "n").events("sampling"):
        told = event.data
        assert {name: told.get(name) for name in Model.extra} == {**Model.extra, "secretly": None}
        assert told["model"] == "m"
        assert told["usage"]["calls"] == 0
        assert isinstance(told["replayed_from"], int)


def test_several_answers_to_one_question_are_as_many_again(desk):
    Model.plan, Model.extra = {2: ["a", "b", "c"], 3: [""]}, {}
    source = desk("n")
    result = desk.replayed(source.log_path, "n")
    assert said(result) == said(source)
    assert sum(event.sample_id.endswith(".2") for event in result.events("match")) == 3


def test_an_answer_counts_as_a_turn_and_spends_nothing(desk):
    desk.eval("same", f"{__name__}:Same", times=3)
    source = desk("same")
    result = desk.replayed(source.log_path, "same", turn_limit=2)
    assert (result.counts.limit, len(result.events("sampling"))) == (ROWS, 2 * ROWS)
    result = desk.replayed(source.log_path, "same", token_limit=1, max_total_tokens=1)
    assert (result.status, result.counts.completed) == ("success", ROWS)


def test_a_log_of_two_models_tells_which_of_them_said_what(desk):
    class Other(Model):
        model = "other"

    class Two(Same):
        def eval_sample(self, sample, rng):
            said = [function(sample["input"]).get_completions()[0] for function in self.completion_fns]
            record_match(True, picked=said)

    globals()["Two"] = Two
    desk.eval("two", f"{__name__}:Two")
    draws = iter(range(1000))
    Model.plan = {number: lambda: f"draw {next(draws)}" for number in range(ROWS)}
    source = desk("two", [Model(), Other()])
    result = desk("two", [f"replay/{source.log_path}", f"replay/{source.log_path}"])
    assert [(event.data["model"], event.data["sampled"]) for event in result.events("sampling")] == [
        (event.data["model"], event.data["sampled"]) for event in source.events("sampling")
    ]


# ---------------------------------------------------------------------- by hand


def test_it_can_be_asked_by_hand(desk):
    source = desk("n")
    replay = ReplayCompletionFn(str(source.log_path), temperature=0)
    completion = replay("Say the number 3", max_tokens=5)
    assert (completion.get_completions(), completion.usage.calls, completion.model) == (["It is 3."], 0, "m")
    assert replay("Say the number 3").get_completions() == ["It is 3."]
    with pytest.raises(CallFailed, match="holds no answer to this prompt"):
        replay("Say the number 99")


def test_threads_that_ask_at_once_read_the_log_once(desk):
    source = desk("n")
    replay = ReplayCompletionFn(str(source.log_path))
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(replay("Say the number 3").completions[0])) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["It is 3."] * 20


def test_making_one_reads_nothing(desk):
    Path("huge.jsonl").write_bytes(b"\xff" * 1000)
    ReplayCompletionFn("huge.jsonl")


def test_a_file_that_is_no_log_holds_no_answer(desk):
    Path("none.jsonl").write_bytes(b'garbage\n{"type": "sampling"}\n{"type": "sampling", "data": 5}\n\xff\n[1]\n')
    result = desk.replayed("none.jsonl", "n")
    assert (result.status, result.counts.error) == ("error", ROWS)
    assert "none.jsonl" in result.reason


def test_a_log_that_goes_away_under_way_is_told(desk):
    source = desk("n")
    replay = ReplayCompletionFn(str(source.log_path))
    source.log_path.unlink()
    with pytest.raises(BadArguments, match="cannot read the log"):
        replay("Say the number 3")


# ---------------------------------------------------------------------- other people's logs


@pytest.mark.parametrize(("sampled", "texts"), [
    ("It is 0.", ["It is 0."]), (["It is 0."], ["It is 0."]), (["a", "b"], ["a", "b"]), (None, [""]), ("", [""]), ([None, 5], ["None", "5"]), (7, ["7"]),
], ids=str)  # fmt: skip
def test_a_log_of_openai_evals_answers_too(desk, sampled, texts):
    prompt = [{"role": "user", "content": "Say the number 0"}]
    spec = {
        "spec": {
            "completion_fns": ["gpt-4"],
            "eval_name": "n.dev.v0",
            "base_eval": "n",
            "split": "dev",
            "run_config": {},
            "run_id": "r",
            "created_by": "",
            "created_at": "",
        }
    }
    line = {
        "run_id": "r",
        "event_id": 0,
        "sample_id": "n.dev.0",
        "type": "sampling",
        "data": {"prompt": prompt, "sampled": sampled},
        "created_by": "",
        "created_at": "2023-01-01 12:00:00+00:00",
    }
    Path("old.jsonl").write_text(json.dumps(spec) + "\n" + json.dumps(line) + "\n" + '{"final_report": {"acc', encoding="utf-8")
    assert ReplayCompletionFn("old.jsonl")(prompt).get_completions() == texts


def test_a_prompt_that_is_none_is_passed_over(desk):
    spec = {"spec": {"base_eval": "n", "split": "dev"}}
    events = [
        {
            "run_id": "r",
            "event_id": n,
            "sample_id": "n.dev.0",
            "type": "sampling",
            "data": {"prompt": prompt, "sampled": "x"},
            "created_by": "",
            "created_at": "",
        }
        for n, prompt in enumerate([None, 5, [], [5], {"role": "user"}, [{"content": "no role"}], "good"])
    ]
    Path("odd.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [spec, *events]), encoding="utf-8")
    assert ReplayCompletionFn("odd.jsonl")("good").get_completions() == ["x"]


def test_a_run_over_a_replay_can_be_taken_up(desk):
    source = desk("n")
    first = desk.replayed(source.log_path, "wide", max_samples=2)
    result = desk.replayed(source.log_path, "wide", resume=str(first.log_path), max_samples=ROWS)
    assert (result.status, result.reused, result.report["accuracy"]) == ("success", 2, 1.0)
    assert read_log(result.log_path).spec["completion_fns"] == [f"replay/{source.log_path}"]
