"""
An event: one line of the log. Its seven keys are the mould's; epoch and attempt stand in the line when they are not the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Event:
    """
    Something that was recorded.

    Args:
        run_id: The run it belongs to.
        event_id: Its number in the order of recording, from 0.
        sample_id: The sample in scope; None for what belongs to no sample.
        type: "match", "sampling", "metrics", "sample", ...
        data: What was recorded.
        created_by: Who ran the eval (`--user`).
        created_at: When, ISO 8601 in UTC.
        epoch: Which repetition of the sample, from 1.
        attempt: Which try at it, from 1.
    """

    run_id: str
    event_id: int
    sample_id: str | None
    type: str
    data: Any
    created_by: str
    created_at: str
    epoch: int = 1
    attempt: int = 1

    def to_line(self, *, show_epoch: bool = False) -> dict[str, Any]:
        """The event as the log spells it."""
        line: dict[str, Any] = {
            "run_id": self.run_id,
            "event_id": self.event_id,
            "sample_id": self.sample_id,
            "type": self.type,
            "data": self.data,
            "created_by": self.created_by,
            "created_at": self.created_at,
        }
        if show_epoch or self.epoch != 1:
            line["epoch"] = self.epoch
        if self.attempt != 1:
            line["attempt"] = self.attempt
        return line

    @classmethod
    def from_line(cls, line: dict[str, Any]) -> Event:
        """Read back what `to_line` wrote; keys that older logs lack become their defaults."""
        return cls(
            line.get("run_id", ""),
            line.get("event_id", -1),
            line.get("sample_id"),
            line["type"],
            line.get("data"),
            line.get("created_by", ""),
            line.get("created_at", ""),
            line.get("epoch") or 1,
            line.get("attempt") or 1,
        )
