import asyncio
import threading
import time
from contextvars import ContextVar

import pytest

from evalframe import Completion, ask
from evalframe.core.steps import Call, asked, on_event_loop, on_thread


def on_loop(steps):
    return asyncio.run(on_event_loop(steps))


DRIVERS = [on_thread, on_loop]


def twice(first, second):
    one = yield Call(first)
    two = yield Call(second)
    return [one, two]


@pytest.mark.parametrize("drive", DRIVERS)
def test_each_step_gets_what_came_of_it_and_the_last_word_is_the_result(drive):
    assert drive(twice(lambda: 1, lambda: 2)) == [1, 2]


@pytest.mark.parametrize("drive", DRIVERS)
@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), StopIteration(3)], ids=repr)
def test_what_goes_wrong_is_raised_where_the_step_stands(drive, error):
    def fail():
        raise error

    seen = []

    def steps():
        try:
            yield Call(fail)
        except BaseException as caught:  # noqa: BLE001
            seen.append(type(caught))
            return (yield Call(lambda: "went on"))

    assert drive(steps()) == "went on"
    assert seen[0] in (type(error), RuntimeError)


@pytest.mark.parametrize("drive", DRIVERS)
def test_a_function_may_be_a_coroutine_function(drive):
    async def later():
        await asyncio.sleep(0)
        return threading.current_thread().name

    class Callable:
        async def __call__(self):
            return await later()

    names = drive(twice(later, Callable()))
    assert names[0] == names[1]


@pytest.mark.parametrize("drive", DRIVERS)
def test_context_variables_are_those_of_whoever_asks(drive):
    variable = ContextVar("variable", default="unset")

    def steps():
        return (yield Call(variable.get))

    async def main():
        variable.set("mine")
        return await on_event_loop(steps())

    if drive is on_thread:
        variable.set("mine")
        assert on_thread(steps()) == "mine"
    else:
        assert asyncio.run(main()) == "mine"


def test_what_blocks_does_not_hold_up_the_event_loop():
    order = []

    def blocking(prompt, **options):
        time.sleep(0.1)
        order.append("blocked")
        return Completion(["4"])

    async def main():
        answer = asyncio.ensure_future(ask(blocking, "2+2?"))
        await asyncio.sleep(0.01)
        order.append("meanwhile")
        return await answer

    assert asyncio.run(main()).get_completions() == ["4"]
    assert order == ["meanwhile", "blocked"]


def test_a_call_that_hangs_keeps_neither_the_loop_nor_the_process_alive():
    hanging = threading.Event()

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await on_event_loop(twice(lambda: hanging.wait(30), lambda: 2))

    began = time.monotonic()
    asyncio.run(main())
    hanging.set()
    assert time.monotonic() - began < 20


def test_options_reach_the_function_and_may_be_called_like_our_own_arguments():
    def function(prompt, **options):
        return Completion([f"{prompt} {options}"])

    assert on_thread(asked(function, "q", function=1, temperature=0)).completions == ["q {'function': 1, 'temperature': 0}"]
