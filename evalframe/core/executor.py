"""
An executor runs the same work on many items, several at once, and hands back outcomes as they come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol


class Stop:
    """
    Says that no further item may be begun, and how long what is under way may still take.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._deadline: float | None = None

    def request(self, *, grace_s: float) -> None:
        """Begin nothing more, and wait `grace_s` seconds at most for what is under way. An earlier deadline stays."""
        deadline = self._clock() + grace_s
        if self._deadline is None or deadline < self._deadline:
            self._deadline = deadline

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

    def map(self, work: Callable[[Any], Any], items: Iterable[Any], stop: Stop) -> Iterator[Any]:
        """
        Yield `work(item)` for each item, in the order of completion; where `work` is a coroutine function, what it returns.

        An item is taken from `items` only when a worker is free for it. `work` handles its own errors; what it raises all the same is
        raised here. Once `stop` is requested no further item is taken; once it is overdue the rest is left behind and the iterator ends.
        """
        ...
