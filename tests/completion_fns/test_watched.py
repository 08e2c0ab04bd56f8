"""A completion function of somebody else, held to the limits of a sample without having heard of them."""

import copy
import pickle

import pytest

from evalframe.completion_fns.watched import WatchedCompletionFn
from evalframe.core.completion import Completion, CompletionResult, Usage
from evalframe.core.errors import BadReply
from evalframe.core.executor import Stop
from evalframe.core.limit import LimitReached
from evalframe.core.recorder import record_sampling
from evalframe.core.scope import SampleScope, before_call
from evalframe.core.specs import RunSpec
from evalframe.recorders.memory import MemoryRecorder
from evalframe.resilience.limits import Budget, Limits, SampleWatch


class Inner:
    """Says a word; records it by itself where it is told to."""

    model = "inner"

    def __init__(self, *, records=0, usage=None, texts=("word",), checks=False):
        self.records, self.usage, self.texts, self.checks, self.calls = records, usage, texts, checks, []

    def __call__(self, prompt, **options):
        if self.checks:
            before_call(prompt)
        self.calls.append((prompt, options))
        for _ in range(self.records):
            record_sampling(prompt, self.texts[0], model=self.model, usage={"input_tokens": 3, "output_tokens": 4})
        return Completion(list(self.texts), **({"usage": self.usage} if self.usage else {}))

    def cache_identity(self, options):
        return {"of": "inner"}

    def notices(self):
        return ["something to say"]


class Bare(CompletionResult):
    """A result that tells nothing but its texts."""

    def get_completions(self):
        return ["bare"]


@pytest.fixture
def in_sample():
    """Puts a sample with limits in scope, and gives its scope and its recorder."""
    recorder = MemoryRecorder(RunSpec(completion_fns=["inner"], eval_name="n.dev.v0", base_eval="n", split="dev", run_config={}))

    def begin(**limits):
        scope = SampleScope(recorder, "n.dev.0")
        scope.watch = SampleWatch(Limits(**limits), scope, Stop(), Budget())
        return scope

    begin.recorder = recorder
    return begin


def told(recorder):
    return [event.data for event in recorder.get_events("sampling")]


def test_the_answer_is_the_wrapped_ones_and_so_is_all_else():
    inner = Inner(texts=("a", "b"))
    watched = WatchedCompletionFn(inner)
    assert watched("hello", temperature=0.5).get_completions() == ["a", "b"]
    assert inner.calls == [("hello", {"temperature": 0.5})]
    assert (watched.model, watched.cache_identity({}), watched.notices()) == ("inner", {"of": "inner"}, ["something to say"])
    with pytest.raises(AttributeError):
        getattr(watched, "nothing of the kind")


def test_what_it_has_not_recorded_is_recorded_with_its_tokens(in_sample):
    scope = in_sample(turn=5)
    with in_sample.recorder.in_scope(scope):
        WatchedCompletionFn(Inner(usage=Usage(10, None, 2)))("hello")
    (event,) = told(in_sample.recorder)
    assert (event["prompt"], event["sampled"], event["model"]) == ("hello", "word", "inner")
    assert (event["usage"]["input_tokens"], event["usage"]["output_tokens"]) == (10, 2)
    assert (scope.turns, scope.usage["inner"].input_tokens, scope.answer) == (1, 10, "word")


def test_several_answers_are_recorded_as_several(in_sample):
    with in_sample.recorder.in_scope(in_sample(turn=5)):
        WatchedCompletionFn(Inner(texts=("a", "b")))("hello")
    assert told(in_sample.recorder)[0]["sampled"] == ["a", "b"]


def test_a_result_that_tells_no_tokens_is_recorded_without(in_sample):
    scope = in_sample(turn=5)
    with in_sample.recorder.in_scope(scope):
        WatchedCompletionFn(lambda prompt, **options: Bare())("hello")
    assert told(in_sample.recorder) == [{"prompt": "hello", "sampled": "bare", "model": None}]
    assert (scope.turns, scope.usage) == (1, {})


@pytest.mark.parametrize("usage", [{"input_tokens": 10, "output_tokens": 2}, {"prompt_tokens": 10, "completion_tokens": 2}])
def test_tokens_told_as_a_mapping_are_read_as_such(in_sample, usage):
    class Mapped(Bare):
        pass

    Mapped.usage, Mapped.model = usage, "named"
    scope = in_sample(token=1000)
    with in_sample.recorder.in_scope(scope):
        WatchedCompletionFn(lambda prompt, **options: Mapped())("hello")
    assert (scope.usage["named"].input_tokens, scope.usage["named"].output_tokens) == (10, 2)


def test_what_it_has_recorded_itself_is_not_recorded_twice(in_sample):
    scope = in_sample(turn=5)
    with in_sample.recorder.in_scope(scope):
        WatchedCompletionFn(Inner(records=2, usage=Usage(10, None, 2)))("hello")
    assert (len(told(in_sample.recorder)), scope.turns, scope.usage["inner"].input_tokens) == (2, 2, 6)


@pytest.mark.parametrize("records", [0, 1])
@pytest.mark.parametrize("checks", [False, True])
def test_a_call_that_a_limit_has_no_room_for_is_not_made(in_sample, records, checks):
    inner = Inner(records=records, checks=checks)
    with in_sample.recorder.in_scope(in_sample(turn=2)):
        for _ in range(2):
            WatchedCompletionFn(inner)("hello")
        with pytest.raises(LimitReached) as caught:
            WatchedCompletionFn(inner)("hello")
    assert (caught.value.limit.kind, len(inner.calls)) == ("turn", 2)


@pytest.mark.parametrize("records", [0, 1])
def test_an_answer_that_takes_the_sample_past_a_limit_is_in_the_log(in_sample, records):
    inner = Inner(records=records, usage=Usage(3, None, 4))
    with in_sample.recorder.in_scope(in_sample(token=6)), pytest.raises(LimitReached) as caught:
        WatchedCompletionFn(inner)("hello")
    assert caught.value.limit.kind == "token"
    assert [event["sampled"] for event in told(in_sample.recorder)] == ["word"]


def test_a_conversation_without_room_for_its_answer_is_not_sent(in_sample):
    inner = Inner()
    chat = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    with in_sample.recorder.in_scope(in_sample(message=2)), pytest.raises(LimitReached):
        WatchedCompletionFn(inner)(chat)
    assert inner.calls == []


def test_outside_of_a_sample_it_only_asks():
    assert WatchedCompletionFn(Inner())("hello").get_completions() == ["word"]


def test_an_error_is_the_wrapped_ones(in_sample):
    def dead(prompt, **options):
        raise ConnectionError("dead")

    with in_sample.recorder.in_scope(in_sample(turn=5)), pytest.raises(ConnectionError, match="dead"):
        WatchedCompletionFn(dead)("hello")
    assert told(in_sample.recorder) == []


@pytest.mark.parametrize("result", [None, "text", 5])
def test_a_result_that_is_none_is_told_in_words(in_sample, result):
    with in_sample.recorder.in_scope(in_sample(turn=5)), pytest.raises(BadReply, match="not a result with get_completions"):
        WatchedCompletionFn(lambda prompt, **options: result)("hello")


def test_a_scope_inside_of_the_samples_is_the_samples(in_sample):
    inner, recorder = Inner(), in_sample.recorder
    with recorder.in_scope(in_sample(turn=2)):
        for _ in range(2):
            with recorder.as_default_recorder("part"):
                WatchedCompletionFn(inner)("hello")
        with recorder.as_default_recorder("part"), pytest.raises(LimitReached):
            WatchedCompletionFn(inner)("hello")
    assert len(inner.calls) == 2


def test_wrapped_twice_it_counts_once(in_sample):
    scope = in_sample(turn=5)
    with in_sample.recorder.in_scope(scope):
        WatchedCompletionFn(WatchedCompletionFn(Inner()))("hello")
    assert (len(told(in_sample.recorder)), scope.turns) == (1, 1)


def test_it_can_be_copied_and_pickled():
    watched = WatchedCompletionFn(Inner(usage=Usage(1, None, 1)))
    for twin in (copy.copy(watched), copy.deepcopy(watched), pickle.loads(pickle.dumps(watched))):
        assert twin("hello").get_completions() == ["word"]
        assert twin.model == "inner"
