"""How far a sample may go, and how far a run: what is paid for, what gets graded, what the log says, what can be taken up again."""

import asyncio
import json
import random
import threading
import time
from collections import Counter, defaultdict

import pytest
from loopback import Answer, ModelStub, refused, said
from number_rows import numbers

from evalframe import run_eval
from evalframe.cli.oaieval import main
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.core.completion import Completion
from evalframe.core.errors import BadSetting
from evalframe.core.grade import Grade
from evalframe.core.recorder import record_match, record_sampling
from evalframe.core.scope import before_call, current_scope
from evalframe.eval import Eval
from evalframe.logs.run_log import read_log
from evalframe.registry.registry import Registry
from evalframe.resilience.retry import RetryPolicy

MATCH = "evalframe.evals.basic:Match"
TOKENS = 12
"""Of one answer: ten in, two out."""
USD = 7
"""Of one answer, at the prices below."""
PRICES = "m: {input_usd: 500000, output_usd: 1000000}\nfree: {input_usd: 0, output_usd: 0}\n"
HOW = [{"sequential": True}, {"threads": 4}]
ORDER = list(range(10))
random.Random(123).shuffle(ORDER)


class Model:
    """Says the last word of what it is told, as a completion function of ours does it."""

    model = "m"

    def __init__(self):
        self.asked = []
        self._lock = threading.Lock()

    def __call__(self, prompt, **options):
        before_call(prompt)
        return self.answer(prompt)

    def answer(self, prompt):
        with self._lock:
            self.asked.append(current_scope().sample_id)
        text = prompt if isinstance(prompt, str) else prompt[0]["content"]
        word = text.split()[-1]
        record_sampling(prompt, word, model=self.model, usage={"input_tokens": 10, "output_tokens": 2})
        return Completion([word])

    @property
    def times(self):
        """How often it was asked for each sample."""
        return Counter(self.asked)


class OfOnesOwn(Model):
    """A completion function as a team writes it: it records its answers, and has never heard of limits."""

    def __call__(self, prompt, **options):
        return self.answer(prompt)


class Conversation(Eval):
    """Five turns, then right. Its prompts are 1, 3, 5, 7 and 9 messages long."""

    def eval_sample(self, sample, rng):
        messages = [{"role": "user", "content": sample["input"]}]
        for _ in range(5):
            (answer,) = self.completion_fn(prompt=messages).get_completions()
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Go on"}]
        record_match(True, picked="finished")
        return "finished"

    def run(self, recorder):
        results = self.eval_all_samples(recorder, self.get_samples())
        correct = [event.data["correct"] for event in recorder.get_events("match")]
        return {"accuracy": sum(correct) / len(correct) if correct else None, "n": len(correct), "results": results}


class AsyncConversation(Conversation):
    async def eval_sample(self, sample, rng):
        messages = [{"role": "user", "content": sample["input"]}]
        for _ in range(5):
            await asyncio.sleep(0)
            (answer,) = self.completion_fn(prompt=messages).get_completions()
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Go on"}]
        record_match(True, picked="finished")
        return "finished"


class PartlyRight(Conversation):
    """Right, if it had two turns at least."""

    def on_limit(self, sample, rng, limit):
        scope = current_scope()
        record_match(scope.turns >= 2, picked=scope.answer, expected=sample["ideal"], by=str(limit), drawn=rng.random())
        return f"{sample['ideal']} cut at {limit.kind}"


class Swallowing(Conversation):
    """Catches whatever is raised, and makes do with what it has."""

    def eval_sample(self, sample, rng):
        answers = []
        for _ in range(20):
            try:
                answers += self.completion_fn(prompt=sample["input"]).get_completions()
            except Exception:  # noqa: BLE001 - that is what is tried here
                continue
        record_match(bool(answers), picked=len(answers))
        return len(answers)


class InScopesOfItsOwn(Conversation):
    """Asks each turn in a scope of its own inside of the sample's."""

    def eval_sample(self, sample, rng):
        scope = current_scope()
        for turn in range(5):
            with scope.recorder.as_default_recorder(f"{scope.sample_id}.turn.{turn}"):
                self.completion_fn(prompt=sample["input"])
        record_match(True, picked="finished")


class BrokenOnLimit(Conversation):
    def on_limit(self, sample, rng, limit):
        raise KeyError("on_limit went wrong")


class FailsFirst(Conversation):
    """Its first attempt fails after one turn."""

    def eval_sample(self, sample, rng):
        if current_scope().attempt == 1:
            self.completion_fn(prompt=sample["input"])
            raise ConnectionError("the first attempt")
        return super().eval_sample(sample, rng)


@pytest.fixture
def asks(tmp_path, monkeypatch):
    """Runs an eval of so many rows in this process."""
    monkeypatch.chdir(tmp_path)

    def make(rows, cls, spec=None, args=None):
        folder = tmp_path / "R"
        for kind in ("evals", "data", "models"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
        entry = {"class": cls, "args": {"samples_jsonl": "s.jsonl", **(args or {})}, **(spec or {})}
        (folder / "evals" / "n.yaml").write_text(json.dumps({"n": {"id": "n.dev.v0"}, "n.dev.v0": entry}), encoding="utf-8")
        given = numbers(rows) if isinstance(rows, int) else rows
        (folder / "data" / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
        (folder / "models" / "m.yaml").write_text(PRICES, encoding="utf-8")
        return Registry([folder])

    def run(model, cls=Conversation, rows=3, *, spec=None, args=None, **settings):
        name = cls if isinstance(cls, str) else f"{__name__}:{cls.__name__}"
        return run_eval(model, "n", registry=make(rows, name, spec, args), **settings)

    run.registry = make
    return run


def limits_told(result):
    """What the log says of each sample that was cut."""
    ends = [event.data for event in read_log(result.log_path).events("sample")]
    assert all(("limit" in end) is (end["status"] == "limit") for end in ends)
    return [end["limit"] for end in ends if end["status"] == "limit"]


def assert_all_cut(result, rows, kind, most, used=None):
    """Every sample was cut by this limit; that is no error, and stands everywhere."""
    assert (result.status, result.exit_code, result.reason) == ("success", 0, "")
    counts = {"total": rows, "completed": 0, "error": 0, "limit": rows, "unscored": 0}
    assert result.counts.to_line() == counts
    assert json.loads(result.log_path.read_bytes().splitlines()[-1])["samples"] == counts
    told = limits_told(result)
    assert [(limit["type"], limit["limit"]) for limit in told] == [(kind, most)] * rows
    if used is not None:
        assert [limit["used"] for limit in told] == [pytest.approx(used)] * rows
    assert all(limit["used"] >= most for limit in told)


# ---------------------------------------------------------------------- a conversation, cut

CUTS = [  # setting, its value, turns that are paid for, what was used; None where the conversation comes to its end
    ("turn_limit", 1, 1, 1), ("turn_limit", 2, 2, 2), ("turn_limit", 4, 4, 4), ("turn_limit", 5, 5, None), ("turn_limit", 9, 5, None),
    ("message_limit", 1, 0, 1),  # no room for an answer
    ("message_limit", 2, 1, 3), ("message_limit", 3, 1, 3), ("message_limit", 4, 2, 5), ("message_limit", 9, 4, 9), ("message_limit", 10, 5, None),
    ("token_limit", 1, 1, 12), ("token_limit", 12, 1, 12), ("token_limit", 13, 2, 24), ("token_limit", 24, 2, 24), ("token_limit", 25, 3, 36),
    ("token_limit", 59, 5, 60),  # the last answer takes it past
    ("token_limit", 60, 5, None),  # just reached, and there is nothing more to ask
    ("cost_limit", 1, 1, 7), ("cost_limit", 7, 1, 7), ("cost_limit", 7.25, 2, 14), ("cost_limit", 14, 2, 14), ("cost_limit", 35, 5, None),
]  # fmt: skip


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("cls", [Conversation, AsyncConversation])
@pytest.mark.parametrize(("name", "most", "turns", "used"), CUTS)
def test_a_conversation_is_cut_and_what_was_paid_for_is_what_the_limit_allows(asks, cls, name, most, turns, used, how):
    model = Model()
    result = asks(model, cls, **{name: most}, **how)
    assert model.times == (Counter({f"n.dev.{number}": turns for number in range(3)}) if turns else Counter())
    if used is None:
        assert (result.status, result.counts.completed, result.counts.limit, result.report["accuracy"]) == ("success", 3, 0, 1.0)
        return
    kind = name.removesuffix("_limit")
    assert_all_cut(result, 3, kind, most, used)
    assert [(event.data["correct"], event.data["limit"]) for event in result.events("match")] == [(False, kind)] * 3
    assert (result.report["accuracy"], result.report["n"]) == (0.0, 3)
    assert (result.report["usage"]["m"]["calls"] if turns else 0) == 3 * turns


HELD = [("turn_limit", 2), ("token_limit", 24), ("cost_limit", 14)]


@pytest.mark.parametrize(("cls", "name", "most"), [
    *((cls, *held) for cls in (Conversation, AsyncConversation, Swallowing) for held in HELD),
    (Conversation, "message_limit", 4), (AsyncConversation, "message_limit", 4),  # the prompts of the other are of one message each
])  # fmt: skip
def test_a_completion_function_that_has_never_heard_of_limits_is_held_to_them(asks, cls, name, most):
    model = OfOnesOwn()
    result = asks(model, cls, **{name: most})
    assert model.times == Counter({f"n.dev.{number}": 2 for number in range(3)})
    assert result.counts.limit == 3


@pytest.mark.parametrize("how", HOW, ids=str)
def test_on_limit_grades_what_there_is(asks, how):
    result = asks(Model(), PartlyRight, turn_limit=2, **how)
    assert_all_cut(result, 3, "turn", 2, 2)
    verdicts = {event.sample_id: event.data for event in result.events("match")}
    assert result.report["accuracy"] == 1.0
    for number in range(3):
        verdict = verdicts[f"n.dev.{number}"]
        assert (verdict["correct"], verdict["picked"], verdict["expected"]) == (True, str(number), str(number))
        assert verdict["by"] == "turn_limit: 2 of 2 turns"
        assert verdict["drawn"] == random.Random(f"n.dev.{number}:20220722".encode()).random()
    assert asks(Model(), PartlyRight, turn_limit=1).report["accuracy"] == 0.0


def test_what_on_limit_returns_is_the_samples_result(asks):
    """Section 3: results come back without those of samples that ended in error; a limit is not an error."""
    result = asks(Model(), PartlyRight, turn_limit=2)
    wanted = [f"{number} cut at turn" for number in range(3)]
    assert {event.sample_id: event.data["result"] for event in result.events("sample")} == {
        f"n.dev.{number}": told for number, told in enumerate(wanted)
    }
    assert result.report["results"] == wanted


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize(("name", "most", "turns", "used"), [
    ("turn_limit", 3, 3, 3), ("token_limit", 30, 3, 36), ("cost_limit", 10, 2, 14), ("message_limit", 1, 0, 1),
])  # fmt: skip
def test_an_eval_that_catches_everything_pays_for_no_more_and_grades_by_itself(asks, name, most, turns, used, how):
    model = Model()
    result = asks(model, Swallowing, **{name: most}, **how)
    assert len(model.asked) == 3 * turns
    assert_all_cut(result, 3, name.removesuffix("_limit"), most, used)
    verdicts = [event.data for event in result.events("match")]
    assert [verdict["correct"] for verdict in verdicts] == [turns > 0] * 3  # its own, and no second one
    assert all("limit" not in verdict for verdict in verdicts)


@pytest.mark.parametrize(("name", "most", "turns"), [("turn_limit", 2, 2), ("token_limit", 24, 2), ("cost_limit", 14, 2)])
def test_what_is_asked_in_a_scope_inside_the_samples_is_the_samples(asks, name, most, turns):
    model = Model()
    result = asks(model, InScopesOfItsOwn, **{name: most})
    assert len(model.asked) == 3 * turns
    assert_all_cut(result, 3, name.removesuffix("_limit"), most)


def test_an_on_limit_that_fails_is_an_error(asks):
    result = asks(Model(), BrokenOnLimit, turn_limit=2)
    assert (result.status, result.counts.error, result.counts.limit) == ("error", 3, 0)
    assert "on_limit went wrong" in result.reason


def test_each_attempt_has_the_whole_of_its_limits(asks):
    model = Model()
    result = asks(model, FailsFirst, turn_limit=2, retry_on_error=1)
    assert model.times == Counter({f"n.dev.{number}": 1 + 2 for number in range(3)})
    assert_all_cut(result, 3, "turn", 2, 2)
    assert result.report["usage"]["m"]["calls"] == 9


def test_each_epoch_has_the_whole_of_its_limits(asks):
    model = Model()
    result = asks(model, Conversation, turn_limit=2, epochs=2)
    assert model.times == Counter({f"n.dev.{number}": 4 for number in range(3)})
    assert_all_cut(result, 6, "turn", 2, 2)


def test_some_samples_are_cut_and_others_are_not(asks):
    class Wordy(Model):
        def answer(self, prompt):
            completion = super().answer(prompt)
            if completion.completions == ["1"]:
                record_sampling("thinking", "...", model="m", usage={"input_tokens": 0, "output_tokens": 100})
            return completion

    model = Wordy()
    result = asks(model, Conversation, token_limit=60)
    assert (result.status, result.counts.completed, result.counts.limit, result.counts.ended) == ("success", 2, 1, 3)
    assert result.report["accuracy"] == pytest.approx(2 / 3)
    assert limits_told(result) == [{"type": "token", "limit": 60, "used": 112}]
    assert {event.sample_id: event.data["status"] for event in result.events("sample")} == {
        "n.dev.0": "completed", "n.dev.1": "limit", "n.dev.2": "completed",
    }  # fmt: skip


def test_a_sample_that_was_cut_is_not_asked_again_when_its_run_is_taken_up(asks):
    model = Model()
    first = asks(model, PartlyRight, turn_limit=2, sequential=True)
    lines = first.log_path.read_bytes().splitlines(keepends=True)
    ends = [place for place, line in enumerate(lines) if json.loads(line).get("type") == "sample"]
    first.log_path.write_bytes(b"".join(lines[: ends[1] + 1]))  # killed after the second
    model.asked.clear()
    result = asks(model, PartlyRight, turn_limit=2, sequential=True, resume=str(first.log_path))
    assert len(model.asked) == 2
    assert_all_cut(result, 3, "turn", 2, 2)
    assert result.reused == 2
    assert result.report == first.report


# ---------------------------------------------------------------------- one answer, graded


def graded(asks, model, rows=3, **more):
    return asks(model, MATCH, rows, **more)


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize(("name", "most", "used"), [("token_limit", 11, 12), ("token_limit", 1, 12), ("cost_limit", 6.9, 7)])
def test_an_answer_that_went_too_far_is_graded_all_the_same(asks, name, most, used, how):
    model = Model()
    result = graded(asks, model, **{name: most}, **how)
    assert len(model.asked) == 3
    assert_all_cut(result, 3, name.removesuffix("_limit"), most, used)
    assert (result.report["accuracy"], result.report["n"]) == (1.0, 3)
    assert [event.data["sampled"] for event in sorted(result.events("match"), key=lambda event: event.sample_id)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "limits", [{"token_limit": 12}, {"turn_limit": 1}, {"cost_limit": 7}, {"message_limit": 2}, {"time_limit": 60}], ids=str
)
def test_an_answer_that_stays_within_its_limits_is_not_cut(asks, limits):
    result = graded(asks, Model(), **limits)
    assert (result.counts.completed, result.counts.limit, result.report["accuracy"]) == (3, 0, 1.0)


def test_a_question_without_room_for_an_answer_is_not_asked_and_is_wrong(asks):
    model = Model()
    rows = [
        {"input": [{"role": "user", "content": f"{word} {number}"} for word in ("Be brief", "Say")], "ideal": str(number)}
        for number in range(3)
    ]
    result = graded(asks, model, rows, message_limit=2)
    assert model.asked == []
    assert_all_cut(result, 3, "message", 2, 2)
    assert (result.report["accuracy"], result.report["n"]) == (0.0, 3)
    assert [event.data["sampled"] for event in result.events("match")] == [""] * 3
    assert graded(asks, model, rows, message_limit=3).counts.limit == 0


class Judge:
    """Asks a model itself, dearly."""

    def __call__(self, completion, sample):
        for _ in range(3):
            before_call("Is it right?")
            record_sampling("Is it right?", "yes", model="m", usage={"input_tokens": 1000, "output_tokens": 1000})
        return Grade.correct(picked=completion)


@pytest.mark.parametrize(("limits", "cut"), [({"token_limit": 12, "turn_limit": 1, "cost_limit": 7}, 0), ({"token_limit": 11}, 3)], ids=str)
def test_no_limit_of_a_sample_cuts_its_grading(asks, limits, cut):
    result = asks(Model(), "evalframe.evals.graded:Graded", args={"grader": f"{__name__}:Judge"}, **limits)
    assert (result.status, result.counts.limit, result.report["accuracy"]) == ("success", cut, 1.0)
    assert (result.report["usage"]["m"]["calls"], result.report["judge_usage"]["m"]["calls"]) == (3, 9)


class FailsOnce:
    """A grader that fails on each sample's first attempt."""

    def __call__(self, completion, sample):
        if current_scope().attempt == 1:
            raise ZeroDivisionError("the first attempt")
        return Grade.correct(picked=completion)


@pytest.mark.parametrize("limits", [{"cost_limit": 7}, {"max_cost": 1000}, {"token_limit": 12}, {"turn_limit": 1}], ids=str)
def test_limits_do_not_mind_an_answer_that_is_graded_a_second_time(asks, limits):
    model = Model()
    result = asks(model, "evalframe.evals.graded:Graded", args={"grader": f"{__name__}:FailsOnce"}, retry_on_error=1, **limits)
    assert (result.status, dict(result.errors)) == ("success", {})
    assert (len(model.asked), result.counts.completed, result.report["accuracy"]) == (3, 3, 1.0)


# ---------------------------------------------------------------------- time


class Slow(Model):
    """Its second answer takes longer than the limit."""

    def answer(self, prompt):
        if current_scope().turns == 1:
            time.sleep(0.25)
        return super().answer(prompt)


@pytest.mark.parametrize("cls", [Conversation, AsyncConversation, Swallowing])
@pytest.mark.parametrize("name", ["time_limit", "working_limit"])
def test_a_sample_whose_time_is_over_asks_no_more(asks, cls, name):
    model = Slow()
    result = asks(model, cls, **{name: 0.2})
    assert max(model.times.values()) <= 2
    assert_all_cut(result, 3, name.removesuffix("_limit"), 0.2)


class Sleeping(AsyncConversation):
    async def eval_sample(self, sample, rng):
        self.completion_fn(prompt=sample["input"])
        await asyncio.sleep(3600)
        record_match(True)


class SleepingAndCatching(AsyncConversation):
    async def eval_sample(self, sample, rng):
        for _ in range(3):
            try:
                await asyncio.sleep(3600)
            except Exception:  # noqa: BLE001 - that is what is tried here
                continue
        record_match(True)


class OwnTimeout(AsyncConversation):
    async def eval_sample(self, sample, rng):
        await asyncio.wait_for(asyncio.sleep(3600), 0.01)


class Polite(Sleeping):
    def on_limit(self, sample, rng, limit):
        record_match(True, picked=current_scope().answer, by=limit.kind)


@pytest.mark.parametrize(("cls", "name", "accuracy", "how"), [
    (Sleeping, "time_limit", 0.0, HOW[0]), (Sleeping, "working_limit", 0.0, HOW[1]), (SleepingAndCatching, "time_limit", 0.0, HOW[1]),
    (Polite, "time_limit", 1.0, HOW[1]), (Polite, "working_limit", 1.0, HOW[1]),
])  # fmt: skip
def test_time_cuts_what_is_being_awaited(asks, cls, name, accuracy, how):
    result = asks(Model(), cls, **{name: 0.1}, **how)
    assert_all_cut(result, 3, name.removesuffix("_limit"), 0.1)
    assert (result.report["accuracy"], result.report["n"]) == (accuracy, 3)


@pytest.mark.parametrize("limits", [{}, {"time_limit": 600}, {"working_limit": 600}], ids=str)
def test_a_timeout_of_the_evals_own_is_an_error_and_no_limit(asks, limits):
    result = asks(Model(), OwnTimeout, **limits)
    assert (result.status, result.counts.error, result.counts.limit) == ("error", 3, 0)
    assert "TimeoutError" in result.reason


# ---------------------------------------------------------------------- over HTTP


def remote(stub, **more):
    policy = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.01)
    return OpenAIChatCompletionFn("m", base_url=stub.base_url, api_key="sk-test-0000", **{"retry_policy": policy, **more})


def spoken(body):
    return body["messages"][0]["content"].split()[-1]


def spelt(_number, body):
    return said(spoken(body), usage={"prompt_tokens": 10, "completion_tokens": 2})


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("cls", [Conversation, AsyncConversation, Swallowing])
@pytest.mark.parametrize(
    ("name", "most", "turns"), [("turn_limit", 2, 2), ("token_limit", 24, 2), ("cost_limit", 7, 1), ("turn_limit", 4, 4)]
)
def test_a_limit_of_n_turns_pays_for_n_requests(asks, cls, name, most, turns, how):
    with ModelStub(spelt) as stub:
        result = asks(remote(stub), cls, **{name: most}, **how)
        assert Counter(map(spoken, stub.bodies)) == Counter({str(number): turns for number in range(3)})
    assert_all_cut(result, 3, name.removesuffix("_limit"), most, {"turn_limit": turns, "token_limit": 24, "cost_limit": 7}[name])


def test_a_conversation_without_room_is_not_sent(asks):
    with ModelStub(spelt) as stub:
        result = asks(remote(stub), Conversation, message_limit=3)
        assert stub.count == 3
    assert_all_cut(result, 3, "message", 3, 3)


@pytest.mark.parametrize(("cls", "name"), [
    (MATCH, "time_limit"), (MATCH, "working_limit"), (Conversation, "time_limit"), (AsyncConversation, "working_limit"),
])  # fmt: skip
def test_a_call_that_hangs_is_cut_and_not_sent_again(asks, cls, name):
    hanging = Answer(body=said("0").body, delay_s=4)
    with ModelStub(lambda number, body: hanging) as stub:
        result = asks(remote(stub), cls, threads=3, **{name: 0.4})
        assert stub.count <= 3
        assert stub.count == 3 or cls is AsyncConversation  # there the call blocks all the others, whose time is over before theirs
        assert list(result.events("sampling")) == []  # nobody waited for the answer
    assert_all_cut(result, 3, name.removesuffix("_limit"), 0.4)
    assert (result.report["accuracy"], result.report["n"]) == (0.0, 3)


def test_what_was_answered_before_a_call_hung_is_graded(asks):
    turns = Counter()

    def answer(number, body):
        turns[spoken(body)] += 1
        return spelt(number, body) if turns[spoken(body)] <= 2 else Answer(body=spelt(number, body).body, delay_s=4)

    with ModelStub(answer) as stub:
        result = asks(remote(stub), PartlyRight, time_limit=1, threads=3)
        assert stub.count == 9
    assert_all_cut(result, 3, "time", 1)
    assert {event.sample_id: event.data["picked"] for event in result.events("match")} == {f"n.dev.{n}": str(n) for n in range(3)}
    assert result.report["accuracy"] == 1.0


def test_a_call_that_fails_again_and_again_is_cut_by_time_and_no_error(asks):
    with ModelStub(lambda number, body: refused(500)) as stub:
        result = asks(
            remote(stub, retry_policy=RetryPolicy(max_tries=10**6, first_wait_s=0.05, longest_wait_s=0.05)), MATCH, time_limit=0.3
        )
        count = stub.count
    assert count >= 2
    assert_all_cut(result, 3, "time", 0.3)
    assert result.report["accuracy"] == 0.0


def busy(times, retry_after):
    """A server that says 429 to each prompt so many times."""
    asked, lock = defaultdict(int), threading.Lock()

    def answer(number, body):
        with lock:
            asked[spoken(body)] += 1
            mine = asked[spoken(body)]
        return refused(429, headers={"Retry-After": retry_after}) if mine <= times else spelt(number, body)

    return answer


CON_08 = [{"input": [{"role": "user", "content": f"Say the number {number}"}], "ideal": str(number)} for number in (1, 2, 3)]


def test_waiting_for_a_rate_limit_is_not_working_time(asks):
    """CON-08, with a tenth of its seconds: 429 and Retry-After four times, then an answer."""
    with ModelStub(busy(4, "0.2")) as stub:
        result = asks(remote(stub), MATCH, CON_08, working_limit=0.6, threads=3)
        assert stub.count == 3 * 5
    assert (result.status, result.counts.completed, result.counts.limit, result.report["accuracy"]) == ("success", 3, 0, 1.0)
    for event in result.events("sample"):
        assert event.data["waiting_seconds"] >= 0.79
        assert event.data["seconds"] >= event.data["waiting_seconds"]
    assert json.loads(result.log_path.read_bytes().splitlines()[-1])["waiting_seconds"] >= 3 * 0.79


@pytest.mark.parametrize("retry_after", ["0.2", "60"])
def test_and_the_time_limit_counts_it(asks, retry_after):
    with ModelStub(busy(1000, retry_after)) as stub:
        result = asks(remote(stub), MATCH, CON_08, time_limit=0.5, threads=3)
        assert stub.count <= 3 * 3
    assert_all_cut(result, 3, "time", 0.5)
    assert all(0.1 < event.data["waiting_seconds"] < 30 for event in result.events("sample"))


# ---------------------------------------------------------------------- prices


@pytest.mark.parametrize("settings", [{"cost_limit": 1.0}, {"max_cost": 1.0}, {"cost_limit": 1.0, "max_cost": 5.0}], ids=str)
@pytest.mark.parametrize("kind", [MATCH, Conversation], ids=["graded", "own"])
def test_a_model_without_a_price_is_refused_up_front(asks, tmp_path, kind, settings):
    class Unpriced(Model):
        model = "nobody-knows-what-i-cost"

    class Nameless(Model):
        model = None

    for model, told in ((Unpriced(), "the model nobody-knows-what-i-cost has no price"), (Nameless(), "Nameless has no price")):
        with pytest.raises(BadSetting, match=told) as caught:
            asks(model, kind, **settings)
        assert caught.value.exit_code == 2
        assert any("models/" in step for step in caught.value.do)
        assert model.asked == []
    assert not (tmp_path / "evallogs").exists()


def test_the_command_refuses_it_with_exit_code_2(asks, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000")
    with ModelStub(spelt) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        asks.registry(3, MATCH)
        for flag in ("--cost_limit", "--max_cost"):
            assert main(["nobody-knows-what-i-cost", "n", "--registry_path", "R", flag, "1"]) == 2
            assert "has no price" in capsys.readouterr().err
        assert stub.count == 0
        assert not (tmp_path / "evallogs").exists()
        assert main(["m", "n", "--registry_path", "R", "--cost_limit", "1000", "--max_cost", "1000"]) == 0
        assert stub.count == 3
    capsys.readouterr()


def test_a_model_that_costs_nothing_is_never_too_dear(asks):
    class Free(Model):
        model = "free"

    result = asks(Free(), Conversation, cost_limit=0.000001, max_cost=0.000001)
    assert (result.status, result.counts.completed, result.report["usage"]["free"]["cost_usd"]) == ("success", 3, 0.0)


def test_the_bill_is_in_the_report(asks):
    assert asks(Model(), Conversation).report["usage"]["m"]["cost_usd"] == pytest.approx(3 * 5 * USD)


# ---------------------------------------------------------------------- what a whole run may spend

BUDGETS = [  # setting, value, samples that are asked
    ("max_total_tokens", 1, 1), ("max_total_tokens", 12, 1), ("max_total_tokens", 13, 2), ("max_total_tokens", 36, 3), ("max_total_tokens", 37, 4),
    ("max_cost", 1, 1), ("max_cost", 7, 1), ("max_cost", 7.25, 2), ("max_cost", 21, 3),
]  # fmt: skip


@pytest.mark.parametrize(("name", "most", "asked"), BUDGETS)
def test_past_what_a_run_may_spend_no_sample_is_begun(asks, name, most, asked):
    model = Model()
    result = graded(asks, model, 10, sequential=True, **{name: most})
    assert model.asked == [f"n.dev.{number}" for number in ORDER[:asked]]
    assert (result.status, result.exit_code) == ("cancelled", 1)
    assert f"{name} is reached" in result.reason
    assert f"stopped after {asked} of 10 samples" in result.reason
    assert result.counts.to_line() == {"total": 10, "completed": asked, "error": 0, "limit": 0, "unscored": 0}
    assert (result.report["accuracy"], result.report["n"]) == (1.0, asked)
    assert result.can_be_resumed
    log = read_log(result.log_path)
    assert (log.status, log.final_report, log.samples["completed"]) == ("cancelled", result.report, asked)


@pytest.mark.parametrize(("name", "most"), [("max_total_tokens", 36), ("max_cost", 21)])
def test_a_run_that_is_complete_when_its_budget_is_reached_is_a_success(asks, name, most):
    result = graded(asks, Model(), 3, sequential=True, **{name: most})
    assert (result.status, result.exit_code, result.counts.completed) == ("success", 0, 3)


@pytest.mark.parametrize("cls", [MATCH, Conversation, AsyncConversation])
def test_samples_under_way_are_finished_when_the_budget_is_reached(asks, cls):
    model = Model()
    result = asks(model, cls, 40, threads=4, max_total_tokens=120)
    assert result.status == "cancelled"
    assert result.counts.interrupted == 0
    turns = 1 if cls == MATCH else 5
    assert set(model.times.values()) == {turns}  # none was cut
    at_least = -(-120 // (TOKENS * turns))
    assert at_least <= result.counts.completed <= at_least + 3


@pytest.mark.parametrize(("name", "unit"), [("max_total_tokens", TOKENS), ("max_cost", USD)])
def test_a_run_goes_on_with_a_raised_budget_and_what_was_spent_before_counts(asks, name, unit):
    whole = graded(asks, Model(), 10, sequential=True)
    model = Model()

    def go_on(**settings):
        model.asked.clear()
        result = graded(asks, model, 10, sequential=True, **settings)
        return len(model.asked), result

    asked, first = go_on(**{name: 3 * unit})
    log = str(first.log_path)
    assert (asked, first.status) == (3, "cancelled")
    asked, same = go_on(**{name: 3 * unit}, resume=log)  # nothing is left of it
    assert (asked, same.status, same.exit_code, same.counts.completed, same.reused) == (0, "cancelled", 1, 3, 3)
    assert f"{name} is reached" in same.reason
    asked, raised = go_on(**{name: 7 * unit}, resume=log)  # seven in all, not seven more
    assert (asked, raised.status, raised.counts.completed, raised.reused) == (4, "cancelled", 7, 3)
    asked, last = go_on(**{name: 10 * unit}, resume=log)
    assert (asked, last.status, last.exit_code, last.counts.to_line()) == (3, "success", 0, whole.counts.to_line())
    assert last.report == whole.report
    assert read_log(log).settings[name] == 10 * unit


@pytest.mark.parametrize("name", ["max_total_tokens", "max_cost"])
def test_a_complete_run_that_has_spent_all_it_may_is_taken_up_as_a_success(asks, name):
    model = Model()
    settings = {"sequential": True, name: 3 * (TOKENS if name == "max_total_tokens" else USD)}
    first = graded(asks, model, 3, **settings)
    again = graded(asks, model, 3, **settings, resume=str(first.log_path))
    assert (len(model.asked), again.status, again.exit_code, again.report) == (3, "success", 0, first.report)


def test_a_run_goes_on_without_a_budget(asks):
    model = Model()
    first = graded(asks, model, 10, sequential=True, max_total_tokens=36)
    result = graded(asks, model, 10, sequential=True, resume=str(first.log_path))
    assert (len(model.asked), result.status, result.report["n"]) == (10, "success", 10)


def test_attempts_that_failed_are_paid_out_of_the_budget_too(asks):
    model = Model()
    result = asks(model, FailsFirst, 10, sequential=True, retry_on_error=1, max_total_tokens=4 * TOKENS, fail_on_error=False)
    assert len(model.asked) == 4
    assert result.status != "success"
    assert result.exit_code == 1


def test_the_budget_holds_over_epochs(asks):
    model = Model()
    result = graded(asks, model, 4, sequential=True, epochs=3, max_total_tokens=6 * TOKENS)
    assert (len(model.asked), result.status, result.counts.total, result.counts.completed) == (6, "cancelled", 12, 6)
    assert result.report["accuracy_by_epoch"] == [1.0, 1.0, None]


def test_a_budget_over_http_stops_the_requests(asks):
    with ModelStub(spelt) as stub:
        result = graded(asks, remote(stub), 10, sequential=True, max_cost=21)
        assert stub.count == 3
    assert (result.status, result.report["usage"]["m"]["cost_usd"]) == ("cancelled", pytest.approx(21))


# ---------------------------------------------------------------------- where the settings come from

GIVEN = {
    "message_limit": (8, 6), "turn_limit": (3, 2), "token_limit": (1000, 500), "time_limit": (60.0, 30.5), "working_limit": (50.0, 20.0),
    "cost_limit": (5.0, 2.5), "max_cost": (100.0, 50.0), "max_total_tokens": (100_000, 5_000),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_the_call_goes_over_the_spec_and_the_log_tells_what_held(asks, name):
    def held(**more):
        return read_log(graded(asks, Model(), **more).log_path).spec["run_config"][name]

    by_spec, by_call = GIVEN[name]
    assert held() is None
    assert held(spec={"run": {name: by_spec}}) == by_spec
    assert held(**{name: by_call}) == by_call
    assert held(spec={"run": {name: by_spec}}, **{name: by_call}) == by_call


@pytest.mark.parametrize("name", GIVEN)
def test_a_flag_sets_it(asks, capsys, name):
    asks.registry(2, MATCH, spec={"run": {name: GIVEN[name][0]}})
    command = ["scripted", "n", "--completion_args", "field=ideal", "--registry_path", "R", "--record_path", "log.jsonl"]
    assert main([*command, f"--{name}", str(GIVEN[name][1])]) == 0, capsys.readouterr().err
    assert read_log("log.jsonl").spec["run_config"][name] == GIVEN[name][1]


@pytest.mark.parametrize(("name", "value"), [
    ("turn_limit", 0), ("message_limit", -1), ("token_limit", 1.5), ("time_limit", 0), ("time_limit", "soon"), ("working_limit", float("inf")),
    ("cost_limit", -1), ("max_cost", 0), ("max_total_tokens", 0), ("max_total_tokens", True),
])  # fmt: skip
def test_a_limit_that_means_nothing_is_told_before_anything_is_asked(asks, name, value):
    model = Model()
    with pytest.raises(BadSetting, match=name):
        graded(asks, model, **{name: value})
    assert model.asked == []
