"""
The queue between workers and the thread that waits for them.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

from evalframe.core.executor import Stop

POLL_S = 0.2
"""How often a wait for outcomes looks up whether it is to stop; a signal handler runs in between."""


class Outcomes:
    """What workers hand over: outcomes, and at last that they have ended, and of what."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def put(self, outcome: Any) -> None:
        """Hand over an outcome."""
        self._queue.put((False, outcome))

    def ended(self, failure: BaseException | None = None) -> None:
        """Say that this worker has ended; `failure` is raised where outcomes are waited for."""
        self._queue.put((True, failure))

    def drain(self, workers: int, stop: Stop) -> Iterator[Any]:
        """Yield outcomes until all `workers` have ended, or `stop` is overdue."""
        while workers:
            try:
                has_ended, value = self._queue.get(timeout=POLL_S)
            except queue.Empty:
                if stop.overdue:
                    return
                continue
            if not has_ended:
                yield value
                continue
            workers -= 1
            if value is not None:
                raise value
