import pytest

from evalframe.core.completion import Completion, CompletionFn, CompletionResult, Usage
from evalframe.core.errors import BadSample, EvalframeError, Faults, MissingExtra, UnknownName, closest, described
from evalframe.core.grade import Grade
from evalframe.core.messages import text_of
from evalframe.core.prompts import as_messages, as_text, is_chat, is_prompt, last_text
from evalframe.core.sample import Sample
from evalframe.core.specs import RunSpec, new_run_id

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url"}]}]


def test_a_message_says_what_and_what_to_do():
    assert str(EvalframeError("It broke.", do="Mend it.")) == "It broke. Mend it."
    assert str(EvalframeError("It broke.", do=["Look.", "Mend."])) == "It broke.\n  1. Look.\n  2. Mend."
    assert str(MissingExtra.named("reading hf://x", library="datasets", extra="hf")) == (
        'reading hf://x needs "datasets". Install it: pip install "evalframe[hf]"'
    )


def test_faults_tell_all_of_them_flat():
    faults = Faults([BadSample("a"), Faults([UnknownName("b"), UnknownName("c")])])
    assert described(faults) == "BadSample: a\nUnknownName: b\nUnknownName: c"
    assert len(faults.errors) == 3


def every_error(cls=EvalframeError):
    for child in cls.__subclasses__():
        yield child
        yield from every_error(child)


def test_every_error_is_one_of_five_kinds_or_usage_and_stands_in_the_tree():
    import evalframe.core.errors as module

    for cls in every_error():
        assert cls.kind in ("registry", "yaml", "completion_fn", "data", "metric", "usage")
        if cls.__module__ == module.__name__:
            assert f"── {cls.__name__} " in module.__doc__, cls
            assert cls.__doc__


@pytest.mark.parametrize(
    ("name", "best"), [("test-mach", "test-match"), ("TEST-MATCH", "test-match"), ("match", "test-match"), ("zzz", None)]
)
def test_the_closest_names_are_found(name, best):
    found = closest(name, ["test-match", "other", "thing"])
    assert (found[0] if found else None) == best


@pytest.mark.parametrize(("content", "text"), [
    ("x", "x"), (None, ""), ([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}], "a\nb"), (7, ""),
])  # fmt: skip
def test_the_text_of_a_message_is_its_text_parts(content, text):
    assert text_of(content) == text


def test_a_prompt_is_text_or_messages():
    assert is_prompt("x")
    assert is_prompt(CHAT)
    assert not is_prompt([])
    assert not is_prompt([{"content": "no role"}])
    assert not is_prompt(None)
    assert not is_chat("x")
    assert as_messages("x") == [{"role": "user", "content": "x"}]
    assert as_messages(CHAT) == CHAT
    assert as_messages(CHAT) is not CHAT
    assert as_text(CHAT) == "Be brief.\nUser: Hi\nAssistant:"
    assert as_text(CHAT[:1]) == "Be brief."
    named = [{"role": "system", "name": "example_user", "content": "2+2?"}, {"role": "system", "name": "example_assistant", "content": "4"}]
    assert as_text([*named, {"role": "user", "name": "ada", "content": "3+3?"}]) == "User: 2+2?\nAssistant: 4\nAda: 3+3?\nAssistant:"
    assert last_text(CHAT) == "Hi"
    assert last_text("x") == "x"
    assert last_text([{"role": "system", "content": "only"}]) == "only"


@pytest.mark.parametrize(("ideal", "ideals"), [(None, []), ("a", ["a"]), (["a", "b"], ["a", "b"]), (5, [5]), ([], [])])
def test_ideals_are_always_a_list(ideal, ideals):
    assert Sample(input="", ideal=ideal).ideals == ideals


def test_a_row_is_read_by_its_own_names():
    row = {"question": "q", "answer": "a", "level": 3}
    sample = Sample.from_row(row, {"input": "question", "ideal": "answer"})
    assert (sample.input, sample.ideal, dict(sample.metadata)) == ("q", "a", {"level": 3})
    with pytest.raises(KeyError):
        Sample.from_row(row)


def test_no_verdict_is_a_grade_of_its_own():
    assert Grade.unscored(reason="why").score is None
    assert not Grade.unscored(reason="why").is_scored
    assert Grade.correct(picked="x").is_correct
    assert not Grade.incorrect().is_correct
    assert Grade.incorrect(rule="r").details == {"rule": "r"}


@pytest.mark.parametrize(("raw", "expected"), [
    ({"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 5}},
     (11, 4, 7, 5, 0)),
    ({"input_tokens": 1, "output_tokens": 2}, (1, None, 2, None, 0)),
    (None, (None, None, None, None, 1)), ({}, (None, None, None, None, 1)), ("odd", (None, None, None, None, 1)),
    ({"prompt_tokens": "12", "completion_tokens": None}, (None, None, None, None, 1)),
    ({"prompt_tokens": True, "completion_tokens": -4}, (None, None, None, None, 1)),
    ({"prompt_tokens": 3, "completion_tokens": {"odd": 1}}, (3, None, None, None, 0)),
])  # fmt: skip
def test_usage_is_read_however_it_is_spelt(raw, expected):
    usage = Usage.from_dict(raw)
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens, usage.unknown) == expected


def test_a_sum_of_usage_says_how_much_of_it_is_unknown():
    total = Usage(input_tokens=1, output_tokens=2) + Usage(unknown=1) + Usage(input_tokens=3)
    assert (total.input_tokens, total.output_tokens, total.cached_tokens, total.calls, total.unknown) == (4, 2, None, 3, 1)
    assert Usage.from_dict(total.to_dict()) == total


def test_any_callable_is_a_completion_fn_and_ours_is_a_result():
    assert isinstance(lambda prompt, **options: None, CompletionFn)
    assert isinstance(Completion(["x"]), CompletionResult)
    assert Completion(["x"], finish_reasons=["stop"]).finish_reason == "stop"
    assert Completion([""]).finish_reason is None


def test_run_ids_are_unique_and_begin_with_the_time():
    from datetime import UTC, datetime

    now = datetime(2026, 12, 1, 10, 11, 12, tzinfo=UTC)
    assert new_run_id(now, "abcdef") == "20261201-101112_abcdef"
    assert new_run_id(now) != new_run_id(now)
    assert RunSpec(["f"], "a.b", "a", "b").to_line()["completion_fns"] == ["f"]
