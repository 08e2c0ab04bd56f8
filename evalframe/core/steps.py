"""
Waiting is written once: whoever has to wait for something writes a generator, and who runs it decides how the waiting is done.

Such a generator yields steps, receives what came of each, and returns its result; what goes wrong with a step is raised where it was
yielded. A step can be waited for in both ways there are: `wait` holds up the thread, `awaited` lets the event loop do something else. The
two drivers stand here and are a few lines each.

    asked            what a completion function does, in steps (completion_fns/remote.py, completion_fns/cached.py)
      ├─ on_thread      runs them on the thread that calls
      └─ on_event_loop  runs them as a part of a task
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from evalframe.core.completion import CompletionFn, CompletionResult
from evalframe.core.prompts import Prompt

T = TypeVar("T")


class Step(Protocol):
    """Something that has to be waited for."""

    def wait(self) -> Any:
        """What came of it, when it is there; holds up this thread."""
        ...

    async def awaited(self) -> Any:
        """The same, while the event loop does something else."""
        ...


Steps: TypeAlias = Generator[Step, Any, T]


@dataclass(frozen=True, slots=True)
class Call:
    """
    A function of somebody else, which may hold up its thread for as long as it likes, or be a coroutine function.

    Args:
        function: Called without arguments.
    """

    function: Callable[[], Any]

    def wait(self) -> Any:
        """What it returns; an awaitable is waited for."""
        result = self.function()
        if not inspect.isawaitable(result):
            return result
        import asyncio  # only now, since it takes long to import

        async def finished() -> Any:
            return await result

        return asyncio.run(finished())

    async def awaited(self) -> Any:
        """What it returns, from a thread beside the event loop; a coroutine function is awaited here."""
        result = self.function() if is_async(self.function) else await beside(self.function)
        return await result if inspect.isawaitable(result) else result


async def beside(function: Callable[[], Any]) -> Any:
    """What a function returns, called on a thread of its own beside the event loop; one that hangs keeps no process alive."""
    import asyncio

    loop, context = asyncio.get_running_loop(), copy_context()
    future = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)

    def run() -> None:
        value = error = None
        try:
            value = context.run(function)
        except BaseException as raised:  # noqa: BLE001 - handed on to the task that waits
            error = raised
        with suppress(RuntimeError):  # the loop is closed by now, and nobody waits
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="evalframe-beside", daemon=True).start()
    return await future


def on_thread(steps: Steps[T]) -> T:
    """Run steps on this thread, and return what they come to."""
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.send(value) if error is None else steps.throw(error)
        except StopIteration as end:
            return cast("T", end.value)
        value = error = None
        try:
            value = step.wait()
        except BaseException as raised:  # noqa: BLE001 - handed on to where the step was yielded
            error = raised


async def on_event_loop(steps: Steps[T]) -> T:
    """Run steps as a part of the task that awaits this, and return what they come to."""
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.send(value) if error is None else steps.throw(error)
        except StopIteration as end:
            return cast("T", end.value)
        value = error = None
        try:
            value = await step.awaited()
        except BaseException as raised:  # noqa: BLE001 - handed on to where the step was yielded
            error = raised


def asked(function: CompletionFn, prompt: Prompt, /, **options: Any) -> Steps[CompletionResult]:
    """
    Ask any completion function, in steps: ours say theirs by `answer_in_steps(prompt, options)`; any other is one call.

    Args:
        function: Who is asked.
        prompt: What.
        options: For this one call, such as `temperature`.
    """
    in_steps = getattr(function, "answer_in_steps", None)
    if callable(in_steps):
        answer: CompletionResult = yield from in_steps(prompt, options)
        return answer
    return cast("CompletionResult", (yield Call(partial(function, prompt=prompt, **options))))


async def ask(function: CompletionFn, prompt: Prompt, /, **options: Any) -> CompletionResult:
    """
    Ask any completion function from `async def eval_sample`, without holding up the others.

    Models over HTTP are asked on the event loop itself (extra `async`); what would hold it up is called on a thread beside it.

    Args:
        function: Who is asked: mostly `self.completion_fn`.
        prompt: What.
        options: For this one call, such as `temperature`.

    Raises:
        CompletionFnError: As the function does where it is called.
    """
    return await on_event_loop(asked(function, prompt, **options))


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    inner = function.func if isinstance(function, partial) else function
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004
