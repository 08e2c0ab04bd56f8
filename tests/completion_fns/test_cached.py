import asyncio
import copy
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from loopback import USAGE, Answer, ModelStub, chat, refused, said

from evalframe import ask
from evalframe.completion_fns.cached import CachedCompletionFn
from evalframe.completion_fns.dummy import DummyCompletionFn
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.completion_fns.remote import RemoteCompletion
from evalframe.core.completion import Completion, CompletionResult, Usage
from evalframe.core.errors import BadArguments, BadSetting, CallFailed, RequestRefused
from evalframe.core.limit import Limit, LimitReached
from evalframe.core.recorder import record_sampling_if_in_scope
from evalframe.core.scope import SampleScope
from evalframe.core.specs import RunSpec
from evalframe.recorders.memory import MemoryRecorder
from evalframe.resilience.retry import RetryPolicy
from evalframe.storage.cache import AnswerCache

USER = [{"role": "user", "content": "Capital of France?"}]
TOOL_CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}


class Counting:
    """Answers with what it is given, or with how often it was asked."""

    model = "counting"

    def __init__(self, answer=None):
        self.answer = answer
        self.calls = 0
        self._lock = threading.Lock()

    def __call__(self, prompt, **options):
        with self._lock:
            self.calls += 1
            number = self.calls
        answer = self.answer(number) if callable(self.answer) else self.answer
        if isinstance(answer, BaseException):
            raise answer
        completion = Completion([f"answer {number}"], Usage(5, None, 2), ["stop"]) if answer is None else answer
        record_sampling_if_in_scope(prompt, completion.get_completions(), model=self.model, usage=Usage(5, None, 2).to_dict())
        return completion

    def cache_identity(self, options):
        return {"provider": "counting", "model": self.model, "options": dict(options)}


@pytest.fixture
def cache(tmp_path):
    with AnswerCache(tmp_path / "answers") as opened:
        yield opened


@pytest.fixture
def model(cache):
    return CachedCompletionFn(Counting(), cache)


def numbered():
    """A stub whose every answer is another one."""
    return ModelStub(lambda number, body: said(f"answer {number}"))


def remote(stub, cache, model="m-1", **arguments):
    policy = RetryPolicy(max_tries=1)
    return CachedCompletionFn(OpenAIChatCompletionFn(model, **{"base_url": stub.base_url, "retry_policy": policy, **arguments}), cache)


def texts(completion):
    return completion.get_completions()


# ---------------------------------------------------------------- what is the same, and what is not


def test_the_same_question_is_asked_once(cache):
    with numbered() as stub:
        first = remote(stub, cache, temperature=0.5)
        answers = [first(USER), first(USER), remote(stub, cache, temperature=0.5)(USER)]
        assert stub.count == 1
        assert answers[0] == answers[1] == answers[2]
        assert (first.hits, first.misses) == (1, 1)


def test_text_is_the_same_as_one_message_of_the_user(cache):
    with numbered() as stub:
        model = remote(stub, cache)
        assert model(USER[0]["content"]) == model(USER)
        assert stub.count == 1


def test_the_key_of_the_account_and_how_patient_one_is_make_no_other_question(cache):
    with numbered() as stub:
        remote(stub, cache, api_key="sk-one-000000")(USER)
        remote(stub, cache, api_key="sk-two-000000", timeout_s=9, max_connections=3)(USER)
        assert stub.count == 1
    assert b"sk-" not in cache.path.read_bytes() + cache.path.with_name(cache.path.name + "-wal").read_bytes()


SCHEMA = {"type": "object", "properties": {"why": {}, "answer": {}}}
TURNED = {"type": "object", "properties": {"answer": {}, "why": {}}}


@pytest.mark.parametrize(
    ("arguments", "prompt", "options"),
    [
        ({"model": "m-2"}, USER, {}),
        ({"base_url": "other path"}, USER, {}),
        ({"base_url": "other query"}, USER, {}),
        ({"temperature": 1}, USER, {}),
        ({"extra_options": {"top_k": 1}}, USER, {}),
        ({"extra_headers": {"x-route": "b"}}, USER, {}),
        ({}, USER, {"temperature": 1}),
        ({}, USER, {"max_tokens": 5}),
        ({}, USER, {"n": 2}),
        ({}, USER, {"seed": 1}),
        ({}, USER, {"tools": [{"type": "function", "function": {"name": "look_up"}}]}),
        ({}, USER, {"response_format": SCHEMA}),
        ({}, [{"role": "user", "content": "Capital of Norway?"}], {}),
        ({}, [{"role": "user", "content": "Capital of France? "}], {}),
        ({}, [{"role": "system", "content": "Capital of France?"}], {}),
        ({}, [*USER, {"role": "assistant", "content": "?"}], {}),
        ({}, [{**USER[0], "name": "Ann"}], {}),
        ({}, [{"role": "user", "content": [{"type": "text", "text": "Capital of France?"}]}], {}),
    ],
)
def test_whatever_else_an_answer_depends_on_makes_another_question(cache, arguments, prompt, options):
    with ModelStub(lambda number, body: said(*[f"answer {number}"] * body.get("n", 1))) as stub:
        addresses = {"other path": stub.base_url + "/b", "other query": stub.base_url + "?b=1"}
        if "base_url" in arguments:
            arguments = {"base_url": addresses[arguments["base_url"]]}
        plain, other = remote(stub, cache), remote(stub, cache, **arguments)
        plain(USER)
        assert texts(other(prompt, **options))[0] == "answer 2"
        assert texts(other(prompt, **options))[0] == "answer 2"
        assert texts(plain(USER)) == ["answer 1"]
        assert stub.count == 2


def test_the_order_of_a_schemas_properties_matters_and_that_of_options_does_not(cache):
    with numbered() as stub:
        model = remote(stub, cache)
        answers = [model(USER, response_format=schema) for schema in (SCHEMA, TURNED, SCHEMA)]
        assert (answers[0] == answers[2], answers[0] == answers[1]) == (True, False)
        model(USER, temperature=1, seed=2)
        model(USER, seed=2, temperature=1)
        assert stub.count == 3


def test_two_models_that_share_a_cache_keep_their_own_answers(cache):  # RES-07
    capital = {"a": "Paris", "b": "Lyon"}
    with ModelStub(lambda number, body: said(capital[body["model"]])) as stub:
        for _ in range(2):
            assert [texts(remote(stub, cache, name)(USER)) for name in "ab"] == [["Paris"], ["Lyon"]]
        assert stub.count == 2
        remote(stub, cache, "a", temperature=1)(USER)
        assert stub.count == 3


def test_two_classes_that_tell_the_same_of_themselves_are_two(cache):
    class Other(Counting):
        pass

    CachedCompletionFn(Counting(), cache)("q")
    other = CachedCompletionFn(Other(), cache)
    other("q")
    assert other.misses == 1


def test_what_a_function_tells_of_itself_may_come_in_any_order_and_leave_out_the_calls_options(cache):
    class Forgetful(Counting):
        order = 1

        def cache_identity(self, options):
            return dict([("model", "m"), ("provider", "p"), ("options", {"a": 1})][:: self.order])

    model = CachedCompletionFn(Forgetful(), cache)
    model("q")
    model.inner.order = -1
    assert texts(model("q")) == ["answer 1"]
    assert texts(model("q", temperature=1)) == ["answer 2"]


# ---------------------------------------------------------------- epochs, draws, attempts


def asked(recorder, model, *, sample_id="base.dev.0", epoch=1, attempt=1, times=1, prompt=USER):
    """The answers that a sample gets to so many equal questions."""
    with recorder.in_scope(SampleScope(recorder, sample_id, epoch, attempt)):
        return [texts(model(prompt))[0] for _ in range(times)]


def run():
    """A recorder of a run of its own."""
    return MemoryRecorder(RunSpec(["fn"], "base.dev.v1", "base", "dev"))


def test_no_epoch_gets_the_answer_of_another(model):
    recorder = run()
    answers = [asked(recorder, model, epoch=epoch) for epoch in (1, 2, 3)]
    assert answers == [["answer 1"], ["answer 2"], ["answer 3"]]
    assert [asked(run(), model, epoch=epoch) for epoch in (3, 2, 1)] == [["answer 3"], ["answer 2"], ["answer 1"]]


def test_a_question_asked_again_within_an_attempt_is_another_draw(model):
    assert asked(run(), model, times=3) == ["answer 1", "answer 2", "answer 3"]
    assert asked(run(), model, times=4) == ["answer 1", "answer 2", "answer 3", "answer 4"]
    assert model.inner.calls == 4


def test_a_second_draw_never_is_the_answer_of_another_epoch(model):
    recorder = run()
    answers = [answer for epoch in (1, 2, 3) for answer in asked(recorder, model, epoch=epoch, times=3)]
    assert len(set(answers)) == 9


def test_a_second_attempt_gets_the_answers_of_the_first(model):
    recorder = run()
    first = asked(recorder, model, times=2)
    assert asked(recorder, model, attempt=2, times=3) == [*first, "answer 3"]


def test_two_functions_for_one_model_draw_one_after_the_other(cache):  # as the model that is tested and its judge may be
    inner, recorder = Counting(), run()
    with recorder.in_scope(SampleScope(recorder, "base.dev.0")):
        answers = [texts(CachedCompletionFn(inner, cache)(USER)) for _ in range(2)]
    assert answers == [["answer 1"], ["answer 2"]]


def test_draws_at_once_are_different_ones(model):
    recorder = run()

    scope = SampleScope(recorder, "base.dev.0")

    def draw(_):
        with recorder.in_scope(scope):
            return texts(model(USER))[0]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(draw, range(40)))
    assert len(set(answers)) == 40
    assert set(asked(run(), model, times=40)) == set(answers)
    assert (model.hits, model.misses) == (40, 40)


def test_without_a_sample_in_scope_the_answer_is_that_of_the_first_epoch(model):
    assert [texts(model(USER)) for _ in range(2)] == [["answer 1"]] * 2
    assert asked(run(), model) == ["answer 1"]


# ---------------------------------------------------------------- only good replies


def test_a_call_that_failed_is_asked_again_and_the_others_are_not(cache):  # RES-09
    down = [True]

    def answer(number, body):
        digit = body["messages"][0]["content"][-1]
        return refused(500) if digit == "2" and down[0] else said(digit)

    questions = [f"Say the number {digit}" for digit in "1234"]
    with ModelStub(answer) as stub:
        first = remote(stub, cache)
        for question in questions:
            if question.endswith("2"):
                with pytest.raises(CallFailed):
                    first(question)
            else:
                first(question)
        before, down[0] = stub.count, False
        again = remote(stub, cache)
        assert [texts(again(question))[0] for question in questions] == list("1234")
        assert stub.count - before == 1
        assert (again.hits, again.misses) == (3, 1)


BLANK = {"role": "assistant", "content": ""}
WHOLE = {"role": "assistant", "content": "Paris"}


@pytest.mark.parametrize(
    ("body", "is_kept"),
    [
        (chat(WHOLE), True),
        (chat(WHOLE, usage=...), True),
        (chat(WHOLE, finish_reason=None), True),  # some servers do not say
        (chat(WHOLE, finish_reason="eos"), True),
        (chat({**WHOLE, "reasoning_content": "hm"}), True),
        (chat({**BLANK, "tool_calls": [TOOL_CALL]}, finish_reason="tool_calls"), True),
        (chat(WHOLE, WHOLE), True),
        (chat(WHOLE, finish_reason="length"), False),
        (chat(WHOLE, finish_reason="content_filter"), False),
        (chat(WHOLE, finish_reason="MAX_TOKENS"), False),
        (chat(WHOLE, finish_reason="error"), False),
        (chat(BLANK), False),
        (chat({**BLANK, "content": " \n"}), False),
        (chat({**BLANK, "content": None, "refusal": "No."}), False),
        (chat({**BLANK, "reasoning_content": "hm"}), False),
        (chat(None), False),
        (chat(WHOLE, BLANK), False),  # one of two that is empty
        (chat(WHOLE, id=float("nan")), False),  # JSON would not give it back as it is
    ],
)
def test_only_a_good_answer_is_kept(cache, body, is_kept):
    with ModelStub(lambda number, _: Answer(body=body)) as stub:
        model = remote(stub, cache)
        answers = [model(USER), model(USER)]
        assert stub.count == (1 if is_kept else 2)
        assert answers[0].completions == answers[1].completions


class Own(CompletionResult):
    def get_completions(self):
        return ["mine"]


class Special(Completion):
    pass


@pytest.mark.parametrize(
    "result",
    [
        Own(),
        Special(["x"]),
        Completion([]),
        Completion([None]),
        Completion(["x"], raw=object()),
        Completion(["x", "y"], finish_reasons=["stop", "length"]),
    ],
    ids=["own", "special", "none", "null", "raw", "one cut"],
)
def test_a_result_that_would_not_come_back_as_it_was_is_not_kept(cache, result):
    model = CachedCompletionFn(Counting(result), cache)
    assert model("q") is result
    assert model("q") is result
    assert (model.hits, model.misses) == (0, 2)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"kind": "Completion"},
        {"kind": "Elsewhere", "fields": {}},
        {"kind": "Completion", "fields": {"completions": ["x"]}},
        {"kind": "Completion", "fields": {"completions": ["x"], "usage": {"odd": 1}}},
        {"kind": "Completion", "fields": {"completions": [1], "usage": {}}},
        {"kind": "Completion", "fields": {"completions": "x", "usage": {}, "odd": 1}},
        {"kind": ["Completion"], "fields": {"completions": ["x"], "usage": {}}},
        {"kind": "Completion", "fields": {"completions": ["x"], "usage": {}, "finish_reasons": None}},
        {"kind": "Completion", "fields": {"completions": ["x"], "usage": {}, "finish_reasons": ["length"]}},
    ],
)
def test_what_cannot_be_read_as_an_answer_is_asked_for_and_mended(cache, model, value):
    model("q")
    with closing(sqlite3.connect(cache.path)) as file:
        key = file.execute("SELECT key FROM answers").fetchone()[0]
    cache.put(key, value)
    assert [texts(model("q")) for _ in range(2)] == [["answer 2"]] * 2


# ---------------------------------------------------------------- who can be cached


def test_a_function_that_does_not_say_what_its_answers_depend_on_is_asked_each_time(cache):
    model = CachedCompletionFn(DummyCompletionFn("hello"), cache)
    assert [texts(model("q")) for _ in range(2)] == [["hello"]] * 2
    assert (model.can_keep, model.hits, model.misses) == (False, 0, 0)
    asked_often = CachedCompletionFn(lambda prompt, **options: Completion([prompt]), cache)
    assert texts(asked_often("q", temperature=1)) == ["q"]


@pytest.mark.parametrize("options", [{"tools": [object()]}, {"temperature": float("nan")}, {"stop": {"a"}}, {"metadata": {1: 2}}])
def test_options_that_json_cannot_spell_are_asked_each_time(model, options):
    model("q", **options)
    model("q", **options)
    assert (model.inner.calls, model.hits, model.misses) == (2, 0, 0)


def test_a_fault_of_the_question_is_told_as_without_a_cache(cache):
    with numbered() as stub:
        model = remote(stub, cache)
        with pytest.raises(RequestRefused, match="A prompt is text or a list"):
            model([])
        with pytest.raises(BadArguments, match="no option"):
            model(USER, temprature=1)
        assert stub.count == 0


def test_everything_else_is_the_wrapped_functions(cache):
    with numbered() as stub:
        model = remote(stub, cache, timeout_s=7)
        assert (model.model, model.base_url, model.timeout_s, model.can_keep) == ("m-1", stub.base_url, 7.0, True)
        with pytest.raises(AttributeError, match="elsewhere"):
            model.elsewhere  # noqa: B018
        assert repr(model).startswith("CachedCompletionFn(OpenAIChatCompletionFn(model='m-1'")


def test_it_can_be_copied(model):
    assert copy.copy(model).inner is model.inner
    assert not hasattr(CachedCompletionFn.__new__(CachedCompletionFn), "model")


def test_one_wrapped_twice_answers_as_one(cache, model):
    twice = CachedCompletionFn(model, cache)
    assert [texts(twice("q")) for _ in range(2)] == [["answer 1"]] * 2
    assert model.inner.calls == 1


# ---------------------------------------------------------------- what a hit gives and records


def full_answer():
    message = {**WHOLE, "reasoning_content": "hm", "tool_calls": [TOOL_CALL], "refusal": "well"}
    return Answer(body=chat(message, {"content": "Päris \U0001f600", "role": "assistant"}))


def test_a_hit_gives_an_equal_completion_that_is_nobody_elses(cache):
    with ModelStub(lambda number, body: full_answer()) as stub:
        model = remote(stub, cache)
        asked_for, first, second = (model(USER, n=2) for _ in range(3))
    assert asked_for == first == second
    assert isinstance(first, RemoteCompletion)
    assert (first.completions, first.finish_reason, first.reasoning) == (["Paris", "Päris \U0001f600"], "stop", ["hm", None])
    assert (first.usage, first.model, first.tool_calls) == (Usage(11, None, 7), "stub-1", [[TOOL_CALL], None])
    assert first.raw["usage"] == USAGE
    first.completions.append("changed")
    assert model(USER, n=2) == second


@pytest.mark.parametrize("usage", [Usage(), Usage(unknown=1), Usage(1, 2, 3, 4, calls=2), Usage(calls=0)])
def test_usage_comes_back_as_it_was(cache, usage):
    model = CachedCompletionFn(Counting(Completion(["x"], usage)), cache)
    assert model("q").usage == model("q").usage == usage
    assert model.hits == 1


def test_a_hit_is_recorded_like_a_call_with_nothing_spent(cache, recorder):
    with ModelStub(lambda number, body: full_answer()) as stub:
        for attempt in (1, 2):
            with recorder.in_scope(SampleScope(recorder, "base.dev.0", attempt=attempt)) as scope:
                remote(stub, cache, temperature=1)(USER, n=2)
    called, hit = (event.data for event in recorder.events if event.type == "sampling")
    told = {"cached", "cached_usage", "usage"}
    assert {name: value for name, value in hit.items() if name not in told} == {
        name: value for name, value in called.items() if name not in told
    }
    assert (hit["cached"], hit["cached_usage"]) == (True, called["usage"])
    assert scope.usage == {"m-1": Usage(calls=0)}
    assert (scope.turns, scope.answer) == (1, ["Paris", "Päris \U0001f600"])


def test_the_sums_of_a_sample_hold_what_is_paid_now(cache, scope):
    with numbered() as stub:
        model = remote(stub, cache)
        for prompt in ("a", "b"):
            model(prompt)
        remote(stub, cache)("c")
        scope.attempt, scope.usage, scope.turns, scope.memo = 2, {}, 0, {}
        for prompt in ("a", "b", "c", "d"):
            model(prompt)
    assert scope.usage == {"m-1": Usage(11, None, 7)}  # "d", once
    assert scope.turns == 4


class NoRoom:
    """A watch over a sample that may ask no more."""

    def before_call(self, messages):
        raise LimitReached(Limit("turn", 1, 1))


def test_a_sample_at_its_limit_gets_no_answer_out_of_the_cache_either(model):
    recorder = run()
    asked(recorder, model)
    with recorder.in_scope(SampleScope(recorder, "base.dev.1", watch=NoRoom())), pytest.raises(LimitReached):
        model(USER)
    assert model.hits == 0


# ---------------------------------------------------------------- a cache that fails, and many at once


def test_an_answer_that_cannot_be_kept_is_given_all_the_same_and_told_once(tmp_path):
    recorder = run()
    with AnswerCache(tmp_path, busy_timeout_s=0.02) as cache:
        model = CachedCompletionFn(Counting(), cache)
        asked(recorder, model, prompt="kept")
        with closing(sqlite3.connect(cache.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert asked(recorder, model, sample_id="base.dev.1", prompt="a") == ["answer 2"]
            assert asked(recorder, model, sample_id="base.dev.1", prompt="b") == ["answer 3"]
            assert asked(recorder, model, sample_id="base.dev.1", prompt="kept") == ["answer 1"]
        told = [event.data for event in recorder.events if event.type == "error"]
        assert [data["msg"] for data in told] == ["an answer could not be kept in the cache"]
        assert "database is locked" in told[0]["message"]
        assert isinstance(model.fault, BadSetting)
        assert [texts(model("a")) for _ in range(2)] == [["answer 4"]] * 2


def test_a_cache_that_cannot_be_read_any_more_pays_for_nothing(cache, model):
    model("q")
    cache.close()
    with pytest.raises(BadSetting, match="cannot use the cache"):
        model("q")
    assert model.inner.calls == 1


def test_threads_that_ask_the_same_at_once_all_get_an_answer(cache):
    with numbered() as stub:
        model = remote(stub, cache)
        start = threading.Barrier(16)

        def ask(_):
            start.wait()
            return [texts(model(f"question {number}"))[0] for number in range(10)]

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(ask, range(16)))
        assert all(answer.startswith("answer ") for each in answers for answer in each)
        assert model.hits + model.misses == 160
        assert stub.count == model.misses
        before = stub.count
        assert ask_alone(model) == ask_alone(model)
        assert stub.count == before


def ask_alone(model):
    return [texts(model(f"question {number}"))[0] for number in range(10)]


PROCESS = """
import sys
sys.path[:0] = sys.argv[3:]
from test_cached import OpenAIChatCompletionFn
from evalframe import ask
from evalframe.completion_fns.cached import CachedCompletionFn
from evalframe.storage.cache import AnswerCache
with AnswerCache(sys.argv[1]) as cache:
    model = CachedCompletionFn(OpenAIChatCompletionFn("m-1", base_url=sys.argv[2]), cache)
    for number in range(40):
        assert model(f"question {number}").completions == [f"question {number}!"]
    print(model.hits, model.misses)
"""


def test_processes_that_share_a_cache_share_their_answers(cache, tmp_path):
    with ModelStub(lambda number, body: said(body["messages"][0]["content"] + "!")) as stub:
        here = [path for path in sys.path if path.rstrip("/").endswith(("tests", "tests/completion_fns"))]
        command = [sys.executable, "-c", PROCESS, str(tmp_path / "answers"), stub.base_url, *here]
        two = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") for _ in range(2)]
        outcomes = [(process.communicate(timeout=60), process.returncode) for process in two]
        assert [code for _, code in outcomes] == [0, 0], outcomes
        hits, misses = (sum(column) for column in zip(*(map(int, out.split()) for (out, _), _ in outcomes), strict=True))
        assert (hits + misses, stub.count) == (80, misses)
        model = remote(stub, cache)
        assert all(texts(model(f"question {number}")) == [f"question {number}!"] for number in range(40))
        assert stub.count == misses


# ---------------------------------------------------------------- equal questions at once


def test_equal_questions_at_once_are_asked_once(cache):
    def slowly(number):
        time.sleep(0.2)
        return None if number == 1 else CallFailed("asked twice.")

    counting = Counting(slowly)
    model = CachedCompletionFn(counting, cache)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: texts(model("q")), range(8)))
    assert answers == [["answer 1"]] * 8
    assert (counting.calls, model.hits, model.misses) == (1, 7, 1)


def test_a_first_one_that_fails_leaves_the_question_to_the_next(cache):
    def slowly(number):
        time.sleep(0.05)
        return CallFailed("not now.") if number == 1 else None

    counting = Counting(slowly)
    model = CachedCompletionFn(counting, cache)

    def ask(_):
        try:
            return texts(model("q"))
        except CallFailed:
            return "failed"

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    assert sorted(map(str, answers)) == ["['answer 2']"] * 3 + ["failed"]
    assert counting.calls == 2


def test_tasks_of_an_event_loop_share_an_answer_too(cache):
    counting = Counting(lambda number: time.sleep(0.1))
    model = CachedCompletionFn(counting, cache)

    async def crowd():
        return await asyncio.gather(*(ask(model, "q") for _ in range(6)))

    assert [texts(answer) for answer in asyncio.run(crowd())] == [["answer 1"]] * 6
    assert counting.calls == 1
