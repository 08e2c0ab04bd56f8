import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from loopback import Answer, ModelStub, chat, refused, said

from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.core.executor import Stop
from evalframe.core.limit import LimitReached, RunStopped
from evalframe.core.scope import SampleScope
from evalframe.core.specs import RunSpec
from evalframe.recorders.memory import MemoryRecorder
from evalframe.resilience.limits import Budget, Limits, SampleWatch
from evalframe.resilience.rates import Limiters
from evalframe.resilience.retry import RetryPolicy


class Crowd:
    """Counts the requests that are being answered."""

    def __init__(self):
        self.under_way, self.seen, self._lock = 0, [], threading.Lock()

    def __call__(self, answer):
        with self._lock:
            self.under_way += 1
            self.seen.append(self.under_way)
        time.sleep(0.02)
        with self._lock:
            self.under_way -= 1
        return answer


def model(stub, **more):
    return OpenAIChatCompletionFn("m", base_url=stub.base_url, limiters=Limiters(), **more)


@pytest.fixture
def in_scope():
    recorder = MemoryRecorder(RunSpec(["fn"], "a.dev.v0", "a", "dev"))

    def make(stop=None, **limits):
        scope = SampleScope(recorder, "a.dev.0")
        scope.watch = SampleWatch(Limits(**limits), scope, stop or Stop(), Budget())
        return recorder.in_scope(scope)

    return make


def test_an_outage_with_a_huge_hint_neither_freezes_nor_narrows_for_good():
    over_at, crowd = [None], Crowd()

    def answer(number, body):
        over_at[0] = over_at[0] or time.monotonic() + 0.5
        return refused(429, headers={"Retry-After": "3600"}) if time.monotonic() < over_at[0] else crowd(said("1"))

    with ModelStub(answer) as stub, ThreadPoolExecutor(10) as pool:
        tested = model(stub, max_retry_after_s=0.2, max_retries=20)
        assert [result.completions for result in pool.map(lambda _: tested("q"), range(150))] == [["1"]] * 150
    assert max(crowd.seen[-60:]) >= 6  # of ten; it had fallen to one
    assert "asked" in tested.notices()[0]
    assert "for fewer calls at once" in tested.notices()[0]


def test_no_slot_is_held_while_a_call_waits():
    def answer(number, body):
        slow = body["messages"][0]["content"] == "slow"
        return refused(429, headers={"Retry-After": "0.3"}) if slow and number == 1 else said("1")

    with ModelStub(answer) as stub, ThreadPoolExecutor(2) as pool:
        tested = model(stub)
        slow = pool.submit(tested, "slow")
        while not stub.count:
            time.sleep(0.005)
        assert tested("quick").completions == ["1"]
        assert slow.result().completions == ["1"]


def test_two_functions_of_one_account_share_a_limiter_and_two_accounts_do_not():
    limiters = Limiters()
    with ModelStub(lambda number, body: said("1")) as stub:
        tested, judge, other = (
            OpenAIChatCompletionFn(name, base_url=stub.base_url, api_key=key, limiters=limiters)
            for name, key in (("m", "k1"), ("judge", "k1"), ("m", "k2"))
        )
        assert tested.lane.limiter is judge.lane.limiter is not other.lane.limiter


def test_a_run_without_complaints_has_nothing_to_tell():
    with ModelStub(lambda number, body: said("1")) as stub:
        tested = model(stub)
        tested("q")
        assert tested.notices() == []


def test_a_call_in_flight_ends_with_the_time_limit_of_its_sample(in_scope):
    with ModelStub(lambda number, body: Answer(body=chat({"role": "assistant", "content": "1"}), delay_s=5)) as stub:
        began = time.monotonic()
        with in_scope(time_s=0.3), pytest.raises(LimitReached, match="time_limit"):
            model(stub)("q")
        assert time.monotonic() - began < 4
        assert stub.count == 1


def test_a_back_off_ends_with_the_time_limit_and_is_no_work(in_scope):
    with ModelStub(lambda number, body: refused(429, headers={"Retry-After": "60"})) as stub:
        with in_scope(time_s=0.3) as scope, pytest.raises(LimitReached, match="time_limit"):
            model(stub)("q")
        assert scope.waiting_s > 0.2
        assert stub.count == 1


def test_waiting_is_not_working(in_scope):
    with ModelStub(lambda number, body: said("1") if number > 3 else refused(429, headers={"Retry-After": "0.3"})) as stub:
        with in_scope(working_s=0.5) as scope:
            assert model(stub)("q").completions == ["1"]
        assert scope.waiting_s > 0.8


def test_a_back_off_ends_when_the_run_is_stopped(in_scope):
    stop = Stop()
    threading.Timer(0.2, lambda: stop.request(grace_s=30)).start()
    with ModelStub(lambda number, body: refused(429, headers={"Retry-After": "60"})) as stub:
        with in_scope(stop), pytest.raises(RunStopped):
            model(stub)("q")
        assert stub.count == 1


def test_a_sample_that_may_not_ask_any_more_sends_nothing(in_scope):
    with ModelStub(lambda number, body: said("1")) as stub:
        tested = model(stub)
        with in_scope(turn=2):
            tested("q")
            tested("q")
            with pytest.raises(LimitReached, match="turn_limit: 2 of 2"):
                tested("q")
        assert stub.count == 2


def test_who_waits_for_an_outage_to_pass_comes_back_when_others_are_answered():
    down = [True]

    def answer(number, body):
        return refused(500) if down[0] else said("1")

    with ModelStub(answer) as stub:
        tested = model(stub, retry_policy=RetryPolicy(first_wait_s=30.0, longest_wait_s=30.0))  # by itself it would wait half a minute
        with ThreadPoolExecutor(2) as pool:
            began = time.monotonic()
            waiting = pool.submit(tested, "q")
            while not stub.count:
                time.sleep(0.01)
            time.sleep(0.2)
            down[0] = False
            assert pool.submit(tested, "q").result().completions == ["1"]
            assert waiting.result().completions == ["1"]
            assert time.monotonic() - began < 15


def test_a_wait_that_the_endpoint_has_asked_for_is_kept_whole():
    with ModelStub(lambda number, body: refused(503, headers={"retry-after": "2"}) if number == 1 else said("1")) as stub:
        tested = model(stub)
        with ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(tested, "q")
            while not stub.count:
                time.sleep(0.01)
            began = time.monotonic()
            waiting.result()
            assert time.monotonic() - began > 1.5
