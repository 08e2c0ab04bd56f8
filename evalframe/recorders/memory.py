"""
Keep events in memory: for tests, for notebooks, for `--dry-run`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from evalframe.core.attempts import Attempts
from evalframe.core.event import Event
from evalframe.core.recorder import Recorder
from evalframe.core.scope import SampleScope
from evalframe.core.specs import RunSpec
from evalframe.storage import json_text


class MemoryRecorder(Recorder):
    """
    Keep everything, as JSON would give it back.

    Args:
        run_spec: The run.

    Attributes:
        events: All events, in the order of recording.
        lines: Lines that are no events, such as the final report.
    """

    def __init__(self, run_spec: RunSpec) -> None:
        super().__init__(run_spec)
        self.events: list[Event] = []
        self.lines: list[dict[str, Any]] = []
        self._attempts = Attempts()
        self._lock = threading.Lock()

    def write(self, event: Event) -> None:
        event.data = json_text.loads(json_text.dumps(event.data))
        with self._lock:
            self.events.append(event)

    def write_line(self, line: Mapping[str, Any]) -> None:
        self.lines.append(json_text.loads(json_text.dumps(line)))

    def begin(self, scope: SampleScope) -> None:
        with self._lock:
            self._attempts.begin(scope.sample_id, scope.epoch, scope.attempt)

    def end(self, scope: SampleScope, data: Mapping[str, Any]) -> None:
        super().end(scope, data)
        with self._lock:
            self._attempts.end(scope.sample_id, scope.epoch, scope.attempt, data)

    def get_events(self, type: str) -> Sequence[Event]:
        with self._lock:
            return [event for event in self.events if event.type == type and self._attempts.count(event)]
