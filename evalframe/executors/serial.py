"""
One item after the other, on the thread that asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from evalframe.core.executor import Stop


@dataclass(frozen=True)
class SerialExecutor:
    """Run items in the order they come; for debugging, and for models that take one question at a time."""

    def map(self, work: Callable[[Any], Any], items: Iterable[Any], stop: Stop) -> Iterator[Any]:
        """See `Executor`. What is under way cannot be left behind here: the deadline is looked at between items."""
        for item in items:
            if stop.requested:
                break
            yield work(item)
