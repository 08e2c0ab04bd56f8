"""
One item after the other, on the thread that asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from evalframe.core.executor import LATER, NOTHING, Source, Stop


@dataclass(frozen=True)
class SerialExecutor:
    """Run items in the order they come; for debugging, and for models that take one question at a time."""

    def map(self, work: Callable[[Any], Any], items: Source, stop: Stop) -> Iterator[Any]:
        """See `Executor`. What is under way cannot be left behind here: the deadline is looked at between items."""
        while not stop.requested and (item := items.take()) is not NOTHING:
            if item is not LATER:  # with one worker nothing is under way that could come back
                yield work(item)
