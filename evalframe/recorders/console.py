"""
Show each event on a line of the terminal, for `--dry-run-logging`.

Covers: texts of a model that would move the cursor, change colours or turn the writing around (such characters are spelt out); terminals
that do not know a character.
Does not cover: reading events back; use it beside a recorder that keeps them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from evalframe.core.event import Event
from evalframe.core.recorder import Recorder
from evalframe.core.secrets import Secrets
from evalframe.core.specs import RunSpec
from evalframe.storage import json_text

LONGEST = 200
"""Characters of a line."""


class ConsoleRecorder(Recorder):
    """
    Show events.

    Args:
        run_spec: The run.
        stream: Where to.
        secrets: What must not be shown.
    """

    def __init__(self, run_spec: RunSpec, stream: TextIO, *, secrets: Secrets | None = None) -> None:
        super().__init__(run_spec)
        self._stream = stream
        self._secrets = secrets or Secrets()
        self._lock = threading.Lock()

    def write(self, event: Event) -> None:
        self._show(f"{event.type:<9} {event.sample_id or '-'} {told(event)}")

    def write_line(self, line: Mapping[str, Any]) -> None:
        kind = next(iter(line), "line")
        self._show(f"{kind} {as_json(line.get(kind))}")

    def get_events(self, type: str) -> Sequence[Event]:
        return []

    def flush(self) -> None:
        self._stream.flush()

    def _show(self, text: str) -> None:
        line = visible(self._secrets.mask(text), getattr(self._stream, "encoding", None) or "utf-8")
        if len(line) > LONGEST:
            line = line[: LONGEST - 3] + "..."
        with self._lock:
            self._stream.write(line + "\n")


def told(event: Event) -> str:
    """What an event comes to: the verdict, the answer, else its data."""
    data = event.data
    if not isinstance(data, Mapping):
        return as_json(data)
    if event.type == "match":
        verdict = "correct" if data.get("correct") else "incorrect"
        return f"{verdict} picked={as_json(data.get('picked'))} expected={as_json(data.get('expected'))}"
    if event.type == "sampling":
        return as_json(data.get("sampled"))
    if event.type == "sample":
        error = data.get("error")
        return (
            f"{data.get('status')} {error.get('type')}: {error.get('message')}" if isinstance(error, Mapping) else str(data.get("status"))
        )
    return as_json(data)


def as_json(value: Any) -> str:
    """A value as JSON."""
    return json_text.dumps(value).decode("utf-8")


def visible(text: str, encoding: str) -> str:
    """The text with every character that cannot be seen, or that `encoding` does not know, spelt out."""
    spelt = text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return spelt.encode(encoding, "backslashreplace").decode(encoding)
