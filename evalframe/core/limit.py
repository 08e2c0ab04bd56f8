"""
A limit cuts a sample: it is no error, and what there is by then gets graded.

Whoever asks a model calls `before_call`, so that a sample past its limit pays for nothing more, and waits through `wait`, so that no
back-off outlasts a limit or a run that is being stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from evalframe.core.completion import Usage

Kind = Literal["message", "turn", "token", "time", "working", "cost"]
UNITS: dict[str, str] = {"message": "messages", "turn": "turns", "token": "tokens", "time": "s", "working": "s of work", "cost": "USD"}


@dataclass(frozen=True, slots=True)
class Limit:
    """
    A limit that a sample has reached.

    Args:
        kind: Which one.
        most: What was allowed, in messages, turns, tokens, seconds or US dollars.
        used: What was used when it was found out.
    """

    kind: Kind
    most: float
    used: float

    def __str__(self) -> str:
        return f"{self.kind}_limit: {self.used:g} of {self.most:g} {UNITS[self.kind]}"

    def to_dict(self) -> dict[str, Any]:
        """As the log spells it."""
        return {"type": self.kind, "limit": self.most, "used": round(self.used, 6)}


class LimitReached(Exception):
    """
    Ends the asking of a sample. Not an error: the loop takes it, and has what there is graded.

    Args:
        limit: Which one was reached.
    """

    def __init__(self, limit: Limit) -> None:
        super().__init__(str(limit))
        self.limit = limit


class RunStopped(BaseException):
    """
    Ends a sample that was only waiting when the run was stopped: nothing is lost, since nothing was being paid for.

    No `Exception`, so that an eval that catches those does not keep a stopped run alive.
    """


class Watch(Protocol):
    """What watches over one attempt at a sample."""

    def before_call(self, messages: int) -> None:
        """
        A model is about to be asked with so many messages.

        Raises:
            LimitReached: If nothing more may be paid for.
        """
        ...

    def after_call(self, model: str, usage: Usage) -> None:
        """
        A model has answered, which is in the log by now.

        Raises:
            LimitReached: If that took the sample past a limit.
        """
        ...

    def left_s(self) -> float | None:
        """Seconds that a call may still take; None for no end."""
        ...

    def wait(self, seconds: float) -> None:
        """
        Wait.

        Raises:
            LimitReached: If the sample's time is over before that.
            RunStopped: If the run is stopped before that.
        """
        ...

    async def awaited(self, seconds: float) -> None:
        """Wait as a task of an event loop; else as `wait`."""
        ...

    def lift(self) -> None:
        """From here on nothing is limited: what there is gets graded."""
        ...

    def late(self) -> LimitReached | None:
        """The time limit that is over, if one is."""
        ...
