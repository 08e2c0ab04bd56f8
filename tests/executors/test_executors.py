import asyncio
import threading
import time

import pytest

from evalframe.core.executor import LATER, NOTHING, Stop
from evalframe.executors.backlog import Backlog
from evalframe.executors.coroutines import CoroutineExecutor
from evalframe.executors.serial import SerialExecutor
from evalframe.executors.threads import ThreadExecutor


def square(number):
    return number * number


def slow(number):
    time.sleep(0.002)
    return number


async def slow_later(number):
    await asyncio.sleep(0.002)
    return number


async def square_later(number):
    await asyncio.sleep(0)
    return number * number


EXECUTORS = [(SerialExecutor(), square), (ThreadExecutor(4), square), (CoroutineExecutor(4), square_later)]
SLOW = [(SerialExecutor(), slow), (ThreadExecutor(4), slow), (CoroutineExecutor(4), slow_later)]
IDS = ["serial", "threads", "coroutines"]


@pytest.mark.parametrize(("executor", "work"), EXECUTORS, ids=IDS)
def test_every_item_is_worked_on_once(executor, work):
    assert sorted(executor.map(work, Backlog(range(100)), Stop())) == [square(number) for number in range(100)]


@pytest.mark.parametrize(("executor", "work"), EXECUTORS, ids=IDS)
def test_no_items_give_no_outcomes(executor, work):
    assert list(executor.map(work, Backlog([]), Stop())) == []


@pytest.mark.parametrize(("executor", "work"), SLOW, ids=IDS)
def test_no_item_is_taken_after_a_stop(executor, work):
    stop, taken = Stop(), []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    for _ in executor.map(work, Backlog(items()), stop):
        stop.request(grace_s=5)
    assert len(taken) < 1000


@pytest.mark.parametrize("executor", [ThreadExecutor(2), CoroutineExecutor(2)], ids=["threads", "coroutines"])
def test_what_hangs_is_left_behind_when_the_grace_is_over(executor):
    release, stop = threading.Event(), Stop()

    def hang(number):
        if number:
            release.wait(30)
        return number

    async def hang_asleep(number):
        if number:
            await asyncio.sleep(30)
        return number

    outcomes = []
    for outcome in executor.map(hang if isinstance(executor, ThreadExecutor) else hang_asleep, Backlog(range(2)), stop):
        outcomes.append(outcome)
        stop.request(grace_s=0.1)
    release.set()
    assert outcomes == [0]


@pytest.mark.parametrize("executor", [SerialExecutor(), ThreadExecutor(2)], ids=["serial", "threads"])
def test_what_work_raises_is_raised_where_outcomes_are_waited_for(executor):
    def fail(number):
        raise ZeroDivisionError(number)

    with pytest.raises(ZeroDivisionError):
        list(executor.map(fail, Backlog(range(5)), Stop()))


def test_an_item_is_taken_only_when_a_worker_is_free():
    taken, release = [], threading.Event()

    def items():
        for number in range(50):
            taken.append(number)
            yield number

    def wait(number):
        release.wait(10)
        return number

    outcomes = ThreadExecutor(3).map(wait, Backlog(items()), Stop())
    while len(taken) < 3:
        time.sleep(0.001)
    assert taken == [0, 1, 2]
    release.set()
    assert len(list(outcomes)) == 50


def test_workers_are_daemons():
    kinds = []
    list(ThreadExecutor(2).map(lambda _: kinds.append(threading.current_thread().daemon), Backlog(range(4)), Stop()))
    assert kinds == [True] * 4


def test_an_event_loop_may_run_already_where_coroutines_are_asked_for():
    async def notebook():
        return sorted(CoroutineExecutor(3).map(square_later, Backlog(range(5)), Stop()))

    assert asyncio.run(notebook()) == [0, 1, 4, 9, 16]


def test_an_earlier_deadline_stays():
    now = [0.0]
    stop = Stop(clock=lambda: now[0])
    assert not stop.requested
    stop.request(grace_s=2)
    stop.request(grace_s=50)
    assert stop.requested
    assert not stop.overdue
    now[0] = 2.0
    assert stop.overdue


@pytest.mark.parametrize("kind", [SerialExecutor, lambda: ThreadExecutor(4), lambda: CoroutineExecutor(4)], ids=IDS)
def test_what_is_given_back_comes_after_all_the_others(kind):
    executor, seen = kind(), []
    backlog = Backlog(range(20), may_return=True)

    def once_more(number):
        seen.append(number)
        if number < 3:
            backlog.give_back(number + 100)
        backlog.done()
        return number

    async def once_more_later(number):
        await asyncio.sleep(0.001)
        return once_more(number)

    outcomes = list(executor.map(once_more_later if isinstance(executor, CoroutineExecutor) else once_more, backlog, Stop()))
    assert sorted(outcomes) == [*range(20), 100, 101, 102]
    assert set(seen[-3:]) == {100, 101, 102}
    assert backlog.left() == []


def test_a_backlog_says_later_while_something_may_come_back():
    backlog = Backlog(["a"], may_return=True)
    assert backlog.take() == "a"
    assert backlog.take() is LATER
    backlog.give_back("a")
    backlog.done()
    assert backlog.take() == "a"
    backlog.done()
    assert backlog.take() is NOTHING


def test_a_backlog_of_which_nothing_comes_back_never_says_later():
    backlog = Backlog(["a"])
    assert backlog.take() == "a"
    assert backlog.take() is NOTHING


def test_several_maps_share_the_workers_and_the_earlier_goes_first():
    executor, at_once, most, order, lock = ThreadExecutor(3), [0], [0], [], threading.Lock()

    def work(item):
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
            order.append(item[0])
        time.sleep(0.005)
        with lock:
            at_once[0] -= 1
        return item

    maps = [executor.map(work, Backlog([(name, number) for number in range(20)]), Stop()) for name in "ab"]
    outcomes = [list(one) for one in maps]
    assert [{name for name, _ in outcome} for outcome in outcomes] == [{"a"}, {"b"}]
    assert [len(outcome) for outcome in outcomes] == [20, 20]
    assert most[0] == 3
    assert order.index("b") >= 18  # the second map begins where the first has no item left


def test_a_map_that_hangs_does_not_keep_the_workers_from_the_others():
    executor, release, stop = ThreadExecutor(2), threading.Event(), Stop()
    hanging = executor.map(lambda _: release.wait(30), Backlog(range(2)), stop)
    other = executor.map(square, Backlog(range(10)), Stop())
    stop.request(grace_s=0.05)
    assert list(hanging) == []
    assert sorted(other) == [square(number) for number in range(10)]
    release.set()


def test_coroutines_on_shared_threads_run_on_one_event_loop():
    executor, loops = ThreadExecutor(3), set()

    async def work(number):
        loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0.001)
        return number

    assert sorted(executor.map(work, Backlog(range(30)), Stop())) == list(range(30))
    assert len(loops) == 1


def test_a_wait_ends_when_a_stop_leaves_no_time_and_not_when_it_leaves_all():
    stop = Stop()
    stop.request(grace_s=float("inf"))
    assert stop.requested
    assert not stop.overdue
    assert not stop.wait(0.001)
    stop.request(grace_s=1)
    assert stop.wait(10)
