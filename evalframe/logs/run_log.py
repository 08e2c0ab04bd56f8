"""
A log, read back: its spec, its events, its samples, its report.

Covers: logs of runs that were killed (a torn last line is left out), that were resumed, and logs of openai/evals, which have no `sample`
events and so count whole. Lines are read as they are asked for; memory holds only what came to nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from evalframe.core.errors import BadLog
from evalframe.core.event import Event
from evalframe.core.recorder import ALWAYS_COUNTED
from evalframe.storage import json_text

Key = tuple[str | None, int]


@dataclass
class Overview:
    """What one pass over a log tells: its single lines, and how each sample ended."""

    spec: dict[str, Any] | None = None
    final: dict[str, Any] | None = None
    ends: dict[Key, tuple[int, str]] = field(default_factory=dict)
    torn: int = 0


class RunLog:
    """
    A log file.

    Args:
        path: The file.

    Raises:
        BadLog: If it cannot be read, or does not begin like a log.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        if self._overview.spec is None:
            raise BadLog(f"{self.path} is not a log of evalframe: its first line holds no spec.")

    @property
    def spec(self) -> dict[str, Any]:
        """The run: the log's first line."""
        assert self._overview.spec is not None
        return self._overview.spec

    @property
    def final_report(self) -> dict[str, Any] | None:
        """The last report, or None where the run did not come to one."""
        return self._overview.final.get("final_report") if self._overview.final else None

    @property
    def status(self) -> str:
        """How the run ended: "success", "error", "cancelled"; "unfinished" where no report was written."""
        if self._overview.final is None:
            return "unfinished"
        return str(self._overview.final.get("status", "success"))

    @property
    def samples(self) -> dict[str, Any] | None:
        """How many samples ended how, as the final report tells; None where it does not."""
        return self._overview.final.get("samples") if self._overview.final else None

    @property
    def torn_lines(self) -> int:
        """Lines that are no JSON: at most the last, unless a crashed run was taken up again."""
        return self._overview.torn

    def events(self, type: str | None = None, *, all_attempts: bool = False) -> Iterator[Event]:
        """
        The events that count, in the order of recording.

        Args:
            type: Only those of this type.
            all_attempts: Also those of attempts that came to nothing.
        """
        for line in self.lines():
            if isinstance(line.get("type"), str) and (type is None or line["type"] == type):
                event = Event.from_line(line)
                if all_attempts or self._counts(event):
                    yield event

    def lines(self) -> Iterator[dict[str, Any]]:
        """Every line that can be read, as it stands."""
        return (line for line in self._raw_lines() if line is not None)

    def _raw_lines(self) -> Iterator[dict[str, Any] | None]:
        """Every line that is not blank; None for one that cannot be read."""
        try:
            with self.path.open("rb") as file:
                for raw in file:
                    if raw.strip():
                        yield readable(raw)
        except OSError as error:
            raise BadLog(f"cannot read the log {self.path}: {error.strerror or error}.") from error

    def _counts(self, event: Event) -> bool:
        ends = self._overview.ends
        if not ends or event.type in ALWAYS_COUNTED:
            return True
        last = ends.get((event.sample_id, event.epoch))
        return last is not None and last[0] == event.attempt and last[1] not in ("error", "interrupted")

    @cached_property
    def _overview(self) -> Overview:
        overview = Overview()
        for line in self._raw_lines():
            if line is None:
                overview.torn += 1
            elif "final_report" in line:
                overview.final = line
            elif "spec" in line and overview.spec is None:
                overview.spec = line["spec"]
            elif line.get("type") == "sample":
                event = Event.from_line(line)
                overview.ends[event.sample_id, event.epoch] = (event.attempt, str(event.data.get("status")))
        return overview


def readable(raw: bytes) -> dict[str, Any] | None:
    """A line of a log as a mapping; None for a torn one."""
    try:
        line = json_text.loads(raw)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    return line if isinstance(line, dict) else None


def read_log(path: str | Path) -> RunLog:
    """Read a log."""
    return RunLog(path)
