import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from evalframe.completion_fns.dummy import DummyCompletionFn
from evalframe.completion_fns.echo import EchoCompletionFn
from evalframe.completion_fns.scripted import ScriptedCompletionFn
from evalframe.core.completion import CompletionFn
from evalframe.core.errors import BadArguments, BadRows, MissingData, NotData, ScriptExhausted

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "2+2?"}]}]


@pytest.mark.parametrize(
    ("function", "prompt", "reply"),
    [
        (DummyCompletionFn(), "2+2?", "This is a dummy response."),
        (DummyCompletionFn(reply="4"), CHAT, "4"),
        (EchoCompletionFn(), "2+2?", "2+2?"),
        (EchoCompletionFn(), CHAT, "2+2?"),
        (EchoCompletionFn(), [{"role": "system", "content": "only me"}], "only me"),
        (ScriptedCompletionFn(["4"]), CHAT, "4"),
    ],
)
def test_what_has_no_model_answers_all_the_same(function, prompt, reply):
    assert isinstance(function, CompletionFn)
    assert function(prompt=prompt, temperature=0.0, max_tokens=5).get_completions() == [reply]


@pytest.mark.parametrize(
    ("function", "name"), [(DummyCompletionFn("4"), "dummy"), (EchoCompletionFn(), "echo"), (ScriptedCompletionFn(["4"]), "scripted")]
)
def test_an_answer_is_recorded_without_a_claim_on_its_usage(function, name, scope, sampling):
    function("4", temperature=0.5)
    assert sampling() == [{"prompt": "4", "sampled": "4", "model": name, "options": {"temperature": 0.5}}]
    assert scope.usage == {}


def test_a_script_is_read_in_order_until_nothing_is_left():
    model = ScriptedCompletionFn(["a", "b"])
    assert [model("x").get_completions(), model("x").get_completions()] == [["a"], ["b"]]
    with pytest.raises(ScriptExhausted, match=r"All 2 replies have been given. Add replies, or begin anew with cycle=true."):
        model("x")
    assert model.calls == 3


def test_a_script_that_cycles_begins_anew():
    model = ScriptedCompletionFn(["a", "b"], cycle=True)
    assert [model("x").get_completions()[0] for _ in range(5)] == ["a", "b", "a", "b", "a"]


def test_ten_threads_get_each_reply_once():
    model = ScriptedCompletionFn([str(number) for number in range(500)])
    with ThreadPoolExecutor(10) as threads:
        said = list(threads.map(lambda _: model("x").get_completions()[0], range(500)))
    assert sorted(said, key=int) == [str(number) for number in range(500)]


def test_a_file_answers_by_prompt_where_it_names_one(tmp_path):
    path = tmp_path / "replies.jsonl"
    rows = ["first", {"reply": "second\u2028line"}, {"prompt": "2+2?", "reply": "4"}, {"prompt": CHAT, "reply": "four"}]
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n\n".join(json.dumps(row, ensure_ascii=False).encode() for row in rows))
    model = ScriptedCompletionFn(replies_path=str(path))
    asked = ["other", CHAT, "2+2?", "another"]
    assert [model(prompt).get_completions()[0] for prompt in asked] == ["first", "4", "four", "second\u2028line"]
    with pytest.raises(ScriptExhausted, match=r"All 2 replies of .*replies.jsonl to '2\+2\?' have been given"):
        model("2+2?")


def test_a_prompt_that_a_file_does_not_hold_is_told_with_the_closest(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text('{"prompt": "Capital of France?", "reply": "Paris"}', encoding="utf-8")
    with pytest.raises(ScriptExhausted, match=r"has no reply to 'Capital of Frances\?'. Closest: 'Capital of France\?'"):
        ScriptedCompletionFn(replies_path=path)("Capital of Frances?")


def test_all_bad_lines_of_a_file_are_told_before_anything_is_asked(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_bytes(b'"good"\n{"reply": \n{"replay": "x"}\n3\n\n{"prompt": 1, "reply": "x"}\n"\xff"\n')
    with pytest.raises(BadRows) as caught:
        ScriptedCompletionFn(replies_path=path)
    lines = str(caught.value).splitlines()
    for number, told in [
        (2, "is not JSON"),
        (3, 'has no text under "reply" (it has: replay)'),
        (4, "is int"),
        (6, '"prompt"'),
        (7, "utf-8"),
    ]:
        assert any(f"{path}:{number}" in line and told in line for line in lines)


@pytest.mark.parametrize(
    ("content", "error"),
    [(None, MissingData), (b"", BadRows), (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", NotData)],
)
def test_a_file_without_replies_is_refused(tmp_path, content, error):
    path = tmp_path / "replies.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error):
        ScriptedCompletionFn(replies_path=path)


@pytest.mark.parametrize(("field", "reply"), [("ideal", "4"), ("number", "4"), ("input", "2+2?")])
def test_a_field_of_the_sample_is_the_answer(scope, field, reply):
    assert ScriptedCompletionFn(field=field)("anything").get_completions() == [reply]


def test_a_field_that_the_sample_lacks_is_told_with_what_it_has(scope):
    with pytest.raises(ScriptExhausted, match=r'no reply in "answer" \(it has: input, ideal, number\)'):
        ScriptedCompletionFn(field="answer")("anything")


def test_a_field_needs_a_sample_in_scope():
    with pytest.raises(ScriptExhausted, match="no sample is in scope"):
        ScriptedCompletionFn(field="ideal")("anything")


@pytest.mark.parametrize("arguments", [{}, {"replies": ["a"], "field": "ideal"}, {"replies": "text"}, {"replies": []}, {"replies": [1]}])
def test_a_script_has_one_source_of_texts(arguments):
    with pytest.raises(BadArguments):
        ScriptedCompletionFn(**arguments)
