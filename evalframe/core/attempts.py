"""
Which events count: those outside of attempts, and those of each sample's last ended attempt, unless it came to nothing.

The one rule for whoever records, reads a log, or takes a run up again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalframe.core.event import Event

TELL_OF_FAILURE = frozenset({"sample", "error"})
"""Types of events that count although the attempt came to nothing: they tell what became of it."""

Key = tuple[str | None, int]
"""A sample's id and its epoch."""


def has_verdict(end: Mapping[str, Any]) -> bool:
    """Whether the events of an attempt that ended so count; a failure that is scored as wrong has its verdict, too."""
    return end.get("status") not in ("error", "interrupted") or bool(end.get("scored_as_wrong"))


class Attempts:
    """
    Remembers only what is out of the ordinary: attempts under way, samples whose last attempt is not their first, and those that came
    to nothing.
    """

    def __init__(self) -> None:
        self._open: set[tuple[str | None, int, int]] = set()
        self._odd: dict[Key, tuple[int, bool]] = {}

    def begin(self, sample_id: str | None, epoch: int, attempt: int) -> None:
        """An attempt begins: from here on what was there before it counts no more."""
        self._open.add((sample_id, epoch, attempt))

    def end(self, sample_id: str | None, epoch: int, attempt: int, data: Mapping[str, Any]) -> None:
        """An attempt ends; `data` is that of its `sample` event."""
        self._open.discard((sample_id, epoch, attempt))
        counts = has_verdict(data)
        if attempt != 1 or not counts:
            self._odd[sample_id, epoch] = (attempt, counts)
        else:
            self._odd.pop((sample_id, epoch), None)

    def leave_out(self, sample_id: str | None, epoch: int) -> None:
        """Nothing of a sample counts, until a later attempt ends: it is not asked any more, or was asked something else."""
        self._odd[sample_id, epoch] = (0, False)

    @property
    def all_count(self) -> bool:
        """Whether every event counts, so that none needs to be looked at."""
        return not self._open and not self._odd

    def count(self, event: Event) -> bool:
        """Whether this event counts."""
        if (event.sample_id, event.epoch, event.attempt) in self._open:
            return False
        last, counts = self._odd.get((event.sample_id, event.epoch), (1, True))
        return event.attempt == last and (counts or event.type in TELL_OF_FAILURE)
