import asyncio
import threading
import time

import pytest

from evalframe.core.executor import Stop
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
    assert sorted(executor.map(work, range(100), Stop())) == [square(number) for number in range(100)]


@pytest.mark.parametrize(("executor", "work"), EXECUTORS, ids=IDS)
def test_no_items_give_no_outcomes(executor, work):
    assert list(executor.map(work, [], Stop())) == []


@pytest.mark.parametrize(("executor", "work"), SLOW, ids=IDS)
def test_no_item_is_taken_after_a_stop(executor, work):
    stop, taken = Stop(), []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    for _ in executor.map(work, items(), stop):
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
    for outcome in executor.map(hang if isinstance(executor, ThreadExecutor) else hang_asleep, range(2), stop):
        outcomes.append(outcome)
        stop.request(grace_s=0.1)
    release.set()
    assert outcomes == [0]


@pytest.mark.parametrize("executor", [SerialExecutor(), ThreadExecutor(2)], ids=["serial", "threads"])
def test_what_work_raises_is_raised_where_outcomes_are_waited_for(executor):
    def fail(number):
        raise ZeroDivisionError(number)

    with pytest.raises(ZeroDivisionError):
        list(executor.map(fail, range(5), Stop()))


def test_an_item_is_taken_only_when_a_worker_is_free():
    taken, release = [], threading.Event()

    def items():
        for number in range(50):
            taken.append(number)
            yield number

    def wait(number):
        release.wait(10)
        return number

    outcomes = ThreadExecutor(3).map(wait, items(), Stop())
    while len(taken) < 3:
        time.sleep(0.001)
    assert taken == [0, 1, 2]
    release.set()
    assert len(list(outcomes)) == 50


def test_workers_are_daemons():
    kinds = []
    list(ThreadExecutor(2).map(lambda _: kinds.append(threading.current_thread().daemon), range(4), Stop()))
    assert kinds == [True] * 4


def test_an_event_loop_may_run_already_where_coroutines_are_asked_for():
    async def notebook():
        return sorted(CoroutineExecutor(3).map(square_later, range(5), Stop()))

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
