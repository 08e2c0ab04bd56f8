import time

import pytest

from evalframe.core.completion import Usage
from evalframe.core.errors import Unpriced
from evalframe.core.executor import Stop
from evalframe.core.limit import LimitReached, RunStopped
from evalframe.core.price import Price
from evalframe.core.scope import SampleScope
from evalframe.core.specs import RunSpec
from evalframe.recorders.memory import MemoryRecorder
from evalframe.resilience.limits import Budget, Limits, SampleWatch, cost_of, tokens_of

PRICES = {"m": Price(input_usd=1.0, output_usd=10.0)}.get


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watched(clock):
    def make(budget=None, stop=None, **limits):
        scope = SampleScope(MemoryRecorder(RunSpec(["fn"], "a.dev.v0", "a", "dev")), "a.dev.0")
        scope.watch = SampleWatch(Limits(**limits), scope, stop or Stop(), budget or Budget(prices=PRICES), clock=clock)
        return scope

    return make


def answered(scope, tokens=10):
    """A call that is paid for."""
    scope.watch.before_call(1)
    scope.turns += 1
    spent = Usage(input_tokens=tokens, output_tokens=0)
    scope.spend("m", spent)
    scope.watch.after_call("m", spent)


def calls_until_cut(scope, most=10, **more):
    try:
        for _ in range(most):
            answered(scope, **more)
    except LimitReached as reached:
        return scope.turns, reached.limit.kind
    return most, None


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_a_limit_of_n_turns_pays_for_n_turns(watched, turns):
    assert calls_until_cut(watched(turn=turns)) == (turns, "turn")


@pytest.mark.parametrize(
    ("limit", "calls"),
    [
        (9, 1),  # the first answer took it past: it is paid, and is the last
        (10, 1),  # reached: one more call would pass it
        (11, 2),
        (20, 2),
        (21, 3),
    ],
)
def test_a_limit_of_tokens_pays_for_no_call_past_it(watched, limit, calls):
    assert calls_until_cut(watched(token=limit)) == (calls, "token")


@pytest.mark.parametrize(("limit", "calls"), [(9e-6, 1), (10e-6, 1), (15e-6, 2), (1.0, 10)])
def test_a_limit_of_cost_likewise(watched, limit, calls):
    assert calls_until_cut(watched(cost_usd=limit))[0] == calls


@pytest.mark.parametrize(("most", "messages", "is_asked"), [(3, 1, True), (3, 2, True), (3, 3, False), (1, 1, False)])
def test_a_conversation_without_room_for_an_answer_is_not_asked_on(watched, most, messages, is_asked):
    scope = watched(message=most)
    if is_asked:
        scope.watch.before_call(messages)
    else:
        with pytest.raises(LimitReached, match=f"message_limit: {messages} of {most}"):
            scope.watch.before_call(messages)


def test_no_limits_cut_nothing(watched):
    scope = watched()
    assert calls_until_cut(scope) == (10, None)
    assert scope.watch.left_s() is None


def test_waiting_is_time_and_not_work(watched, clock):
    scope = watched(time_s=100, working_s=10)
    clock.now, scope.waiting_s = 50, 45
    assert scope.watch.left_s() == 5
    scope.watch.before_call(1)
    clock.now = 56
    with pytest.raises(LimitReached, match="working_limit"):
        scope.watch.before_call(1)
    scope.waiting_s = 95
    clock.now = 101
    with pytest.raises(LimitReached):
        scope.watch.before_call(1)
    assert scope.watch.reached.kind == "working"  # the first one that was reached


def test_a_wait_ends_with_the_time_limit(watched):
    scope = watched(time_s=0.05)
    scope.watch._clock = time.monotonic
    scope.watch._began = time.monotonic()
    with pytest.raises(LimitReached, match="time_limit"):
        scope.watch.wait(30)
    assert 0.04 < scope.waiting_s < 10


def test_a_wait_ends_with_the_run(watched):
    stop = Stop()
    stop.request(grace_s=1)
    with pytest.raises(RunStopped):
        watched(stop=stop).watch.wait(30)


def test_what_is_graded_is_not_limited(watched, clock):
    scope = watched(turn=1, time_s=1)
    answered(scope)
    scope.watch.lift()
    clock.now = 1000
    answered(scope)
    assert scope.watch.reached is None


def test_a_model_without_a_price_is_told_where_a_limit_on_cost_needs_one(watched):
    with pytest.raises(Unpriced, match='"other" has no price'):
        cost_of({"other": Usage(input_tokens=1, output_tokens=1)}, PRICES)


def test_a_budget_adds_up_what_all_samples_spend(watched):
    budget = Budget(max_cost=30e-6, max_total_tokens=1000, prices=PRICES)
    for _ in range(2):
        answered(watched(budget))
    assert budget.used_up() is None
    answered(watched(budget))
    assert "max_cost is reached" in budget.used_up()
    assert Budget(max_total_tokens=5).used_up() is None


def test_unknown_tokens_count_as_none():
    assert tokens_of({"m": Usage(unknown=1), "n": Usage(input_tokens=1, output_tokens=2)}) == 3
