"""
The answers that are kept on this machine: how many there are, and throwing them out.
"""

from __future__ import annotations

from typing import Any, Protocol

from evalframe.registry.registry import Registry
from evalframe.runs.functions import ANSWERS


class AnswerFile(Protocol):
    """The file they are kept in."""

    def stats(self) -> dict[str, Any]:
        """What is kept."""
        ...

    def clear(self, *, older_than_s: float | None = None, model: str | None = None) -> int:
        """Throw answers out; how many."""
        ...


class Kept(Protocol):
    """The answers, as a run has them."""

    cache: AnswerFile

    def close(self) -> None:
        """Let go of the file."""
        ...


def kept_answers(folder: str | None) -> Kept:
    """
    The answers in a folder, by default the user's; the file is made where there is none.

    Raises:
        BadSetting: If it cannot be used.
    """
    kept: Kept = Registry().build(ANSWERS, folder=folder)
    return kept
