import math

import pytest

from evalframe.resilience.rates import FULL_S, MOST_POINTS, QUIET_S, Limiters, RateLimiter


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def limiter(clock):
    return RateLimiter(clock)


def enter(limiter, calls):
    """How many of so many callers get a slot."""
    return sum(limiter.enter() == 0 for _ in range(calls))


def leave(limiter, calls, **what):
    for _ in range(calls):
        limiter.leave(**{"sent_at": limiter.now(), "complains": False, **what})


def test_without_complaints_there_is_no_limit(limiter):
    assert enter(limiter, 500) == 500
    assert limiter.limit == math.inf


def test_a_burst_of_complaints_halves_the_calls_once(limiter, clock):
    sent_at = clock.now
    enter(limiter, 10)
    clock.now += 1
    leave(limiter, 10, sent_at=sent_at, complains=True)
    assert limiter.limit == 5
    assert enter(limiter, 10) == 5
    assert limiter.told.times == 10


def test_complaints_of_calls_sent_since_halve_again_and_one_always_stays(limiter, clock):
    for most in (5, 2, 1, 1, 1):
        clock.now += 1
        sent_at = clock.now
        under_way = enter(limiter, 10)
        clock.now += 1
        leave(limiter, under_way, sent_at=sent_at, complains=True)
        assert int(limiter.limit) == most


def test_good_replies_give_a_slot_back_for_each_round_of_them(limiter, clock):
    enter(limiter, 8)
    leave(limiter, 8, complains=True)
    rounds = []
    while limiter.limit < math.inf:
        clock.now += 0.1
        rounds.append(enter(limiter, 8))
        leave(limiter, rounds[-1], is_good=True)
    assert rounds == sorted(rounds)
    assert rounds[0] == 4
    assert rounds[1:] == [5, 7]  # some two more each time, and then as many as there ever were
    assert enter(limiter, 8) == 8


def test_nobody_is_sent_while_the_endpoint_wants_none(limiter, clock):
    enter(limiter, 2)
    leave(limiter, 1, complains=True, hint_s=30)
    leave(limiter, 1, is_good=True)
    assert limiter.enter() == pytest.approx(30)
    clock.now += 29
    assert limiter.enter() == pytest.approx(1)
    clock.now += 1
    assert limiter.enter() == 0


def test_who_tries_again_has_waited_already(limiter):
    enter(limiter, 2)
    leave(limiter, 2, complains=True, hint_s=30)
    assert limiter.enter() == pytest.approx(30)
    assert limiter.enter(has_waited=True) == 0


def test_who_finds_no_slot_is_told_when_to_ask_again(limiter):
    enter(limiter, 2)
    leave(limiter, 1, complains=True)
    assert limiter.enter() == FULL_S


def test_a_quiet_time_lifts_the_limit_however_few_calls_there_are(limiter, clock):
    enter(limiter, 10)
    leave(limiter, 10, complains=True)
    clock.now += QUIET_S + 1
    assert enter(limiter, 10) == 10


@pytest.mark.parametrize("hint_s", [30, 89, 120])
def test_a_pause_however_long_is_no_quiet_time(limiter, clock, hint_s):
    enter(limiter, 10)
    leave(limiter, 10, complains=True, hint_s=hint_s)
    clock.now += hint_s + 1
    assert enter(limiter, 10) == 5
    clock.now += QUIET_S
    assert enter(limiter, 10) == 10


def test_what_a_run_is_told_begins_with_it(limiter):
    enter(limiter, 2)
    leave(limiter, 1, complains=True)
    before = limiter.told
    leave(limiter, 1, complains=True)
    limiter.waited(2.5)
    assert limiter.told.since(before).times == 1
    assert limiter.told.since(before).waited_s == 2.5


def test_an_account_at_an_endpoint_has_one_limiter():
    limiters = Limiters()
    assert limiters.of("http://a/v1", "key") is limiters.of("http://a/v1", "key")
    assert limiters.of("http://a/v1", "key") is not limiters.of("http://a/v1", "other")
    assert limiters.of("http://a/v1", "key") is not limiters.of("http://b/v1", "key")
    assert "key" not in repr(vars(limiters))


def test_the_history_tells_each_step_of_the_limit(limiter, clock):
    enter(limiter, 8)
    leave(limiter, 8, complains=True)
    clock.now += 2
    limiter.waited(1.5)
    enter(limiter, 4)
    leave(limiter, 4, is_good=True)
    clock.now += QUIET_S + 1
    limiter.enter()
    assert limiter.history() == [[0, 4, 8, 1.5], [2, 5, 8, 1.5], [pytest.approx(63), None, 8, 1.5]]


def test_a_long_history_is_thinned_and_keeps_its_ends(limiter, clock):
    for _ in range(500):
        clock.now += 1
        sent_at = clock.now
        under_way = enter(limiter, 9)
        clock.now += 1
        leave(limiter, under_way, sent_at=sent_at, complains=True)
        clock.now += QUIET_S + 1
        limiter.enter()
        leave(limiter, 1)
    history = limiter.history()
    assert 50 < len(history) <= MOST_POINTS
    assert (history[0][0], history[-1][2]) == (0, limiter.told.times)
