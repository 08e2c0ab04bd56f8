"""
An executor runs the same work on many items, several at once, and hands back outcomes as they come.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

NOTHING = object()
"""Stands for "no item left"."""
LATER = object()
"""Stands for "no item now, but perhaps one that comes back"."""

SLICE_S = 0.05
"""How often a wait looks up whether the run is being stopped."""


class Source(Protocol):
    """Where an executor takes its items from; several workers may ask at once."""

    def take(self) -> Any:
        """The next item, or `NOTHING`, or `LATER`."""
        ...


class Stop:
    """
    Says that no further item may be begun, and how long what is under way may still take.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._deadline: float | None = None
        self._is_pressing = False

    def request(self, *, grace_s: float) -> None:
        """Begin nothing more, and wait `grace_s` seconds for what is under way (infinity: without end). An earlier deadline stays."""
        deadline = self._clock() + grace_s
        if self._deadline is None or deadline < self._deadline:
            self._deadline = deadline
        if grace_s < math.inf:
            self._is_pressing = True  # a plain flag: this runs in signal handlers, where no lock may be taken

    def wait(self, seconds: float) -> bool:
        """Wait so long for a stop that leaves what is under way not all the time it needs; whether there is one."""
        ends = time.monotonic() + seconds
        while not self._is_pressing and (left_s := ends - time.monotonic()) > 0:
            time.sleep(min(left_s, SLICE_S))
        return self._is_pressing

    async def awaited(self, seconds: float) -> bool:
        """The same for a task of an event loop."""
        import asyncio  # only now, since it takes long to import

        ends = time.monotonic() + seconds
        while not self._is_pressing and (left_s := ends - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, SLICE_S))
        return self._is_pressing

    @property
    def requested(self) -> bool:
        """Whether no further item may be begun."""
        return self._deadline is not None

    @property
    def overdue(self) -> bool:
        """Whether the wait for what is under way is over, too."""
        return self._deadline is not None and self._clock() >= self._deadline


class Executor(Protocol):
    """How work is spread: one at a time, on threads, on an event loop, over machines."""

    def map(self, work: Callable[[Any], Any], items: Source, stop: Stop) -> Iterator[Any]:
        """
        Yield `work(item)` for each item, in the order of completion; where `work` is a coroutine function, what it returns.

        An item is taken from `items` only when a worker is free for it. `work` handles its own errors; what it raises all the same is
        raised here. Once `stop` is requested no further item is taken; once it is overdue the rest is left behind and the iterator ends.
        """
        ...
