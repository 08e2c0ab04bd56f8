"""
What earlier processes have recorded of a run that is taken up again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evalframe.core.completion import Usage


@dataclass(frozen=True, slots=True)
class Ended:
    """
    How the last attempt at a sample ended, as the log of an earlier process tells.

    Args:
        attempt: Which try it was, from 1.
        status: "completed", "error", "limit" or "interrupted".
        input_sha256: Of the row that was asked; its first 16 characters.
        is_unscored: Whether no verdict could be given.
        outcome: What became of the last answer; None where there was none.
        data: Reads the `sample` event's data.
    """

    attempt: int
    status: str
    input_sha256: str
    is_unscored: bool
    outcome: str | None
    data: Callable[[], Mapping[str, Any]]


@dataclass(slots=True)
class Earlier:
    """
    What earlier processes have spent on a run that is taken up again.

    Args:
        usage: Tokens by model, of all attempts; of the tested ones.
        judge_usage: Tokens by model, of those that graded.
        seconds, waiting_s: Of all attempts together.
        ended: Samples and epochs whose last attempt counts.
        data: Of each of these processes, the SHA-256 of every data file that it read.
    """

    usage: dict[str, Usage] = field(default_factory=dict)
    judge_usage: dict[str, Usage] = field(default_factory=dict)
    seconds: float = 0.0
    waiting_s: float = 0.0
    ended: int = 0
    data: list[frozenset[str]] = field(default_factory=list)

    def all_read(self, sha256: object) -> bool:
        """Whether every one of them read the data file with this hash."""
        return bool(self.data) and all(sha256 in files for files in self.data)
