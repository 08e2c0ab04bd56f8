"""
Which events count: those outside of attempts, and those of each sample's last ended attempt that did not end in error.
"""

from __future__ import annotations

from evalframe.core.event import Event
from evalframe.core.recorder import ALWAYS_COUNTED, SampleScope

WITHOUT_RESULT = frozenset({"error", "interrupted"})
"""Ends of an attempt whose events do not count."""

Attempt = tuple[str | None, int, int]


class Attempts:
    """Remembers only what is out of the ordinary: attempts under way, and those that came to nothing."""

    def __init__(self) -> None:
        self._open: set[Attempt] = set()
        self._void: set[Attempt] = set()

    def begin(self, scope: SampleScope) -> None:
        """An attempt begins."""
        self._open.add((scope.sample_id, scope.epoch, scope.attempt))

    def end(self, scope: SampleScope, status: str) -> None:
        """An attempt ends."""
        attempt = (scope.sample_id, scope.epoch, scope.attempt)
        self._open.discard(attempt)
        if status in WITHOUT_RESULT:
            self._void.add(attempt)

    @property
    def all_count(self) -> bool:
        """Whether every event counts, so that none needs to be looked at."""
        return not self._open and not self._void

    def count(self, event: Event) -> bool:
        """Whether this event counts."""
        attempt = (event.sample_id, event.epoch, event.attempt)
        return event.type in ALWAYS_COUNTED or (attempt not in self._open and attempt not in self._void)
