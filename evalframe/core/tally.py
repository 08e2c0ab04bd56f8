"""
What a run comes to, added up as samples end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from evalframe.core.attempt import Attempt
from evalframe.core.completion import Usage, add_usage
from evalframe.core.earlier import Earlier, Ended

DURATION = re.compile(r"\b\d+(\.\d+)? s\b")
DISTINCT_ERRORS = 100
"""Messages of errors that are counted apart; the rest is counted together."""


@dataclass
class SampleCounts:
    """
    What became of the samples; with epochs each repetition counts.

    Args:
        total: How many there are to be asked.
        completed: Ended well.
        error: Ended in error, after all attempts.
        limit: Cut by a limit.
        interrupted: Begun and left behind.
        unscored: Among those that ended well or were cut: without any verdict, where verdicts were due.
    """

    total: int = 0
    completed: int = 0
    error: int = 0
    limit: int = 0
    interrupted: int = 0
    unscored: int = 0

    @property
    def ended(self) -> int:
        """Samples that are done with."""
        return self.completed + self.error + self.limit

    def to_line(self) -> dict[str, int]:
        """As the final report spells it."""
        line = {name: getattr(self, name) for name in ("total", "completed", "error", "limit", "unscored")}
        return {**line, "interrupted": self.interrupted} if self.interrupted else line


@dataclass
class Tally:
    """
    What a run comes to.

    Args:
        counts: What became of the samples.
        usage: Tokens by model, of all attempts; of the tested ones.
        judge_usage: Tokens by model, of those that graded.
        outcomes: What became of the last answer to each sample that ended well or was cut, and how often each.
        errors: Messages of errors, their durations left out, and how often each.
        examples: The first of each, as it was.
        seconds, waiting_s: Of all attempts together.
        reused: Samples that an earlier process has asked.
        retried: Attempts that were given up for another.
    """

    counts: SampleCounts = field(default_factory=SampleCounts)
    usage: dict[str, Usage] = field(default_factory=dict)
    judge_usage: dict[str, Usage] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    waiting_s: float = 0.0
    reused: int = 0
    retried: int = 0

    def add(self, attempt: Attempt) -> None:
        """Book the end of an attempt."""
        scope = attempt.scope
        self._spend(scope.usage, scope.judge_usage, attempt.seconds, scope.waiting_s)
        if not attempt.is_final:
            self.retried += 1
            return
        self._count(attempt.status, unscored=attempt.is_unscored, outcome=scope.outcome)
        if attempt.error is not None:
            self.add_error(attempt.message)

    def add_earlier(self, earlier: Earlier) -> None:
        """Book what earlier processes have spent."""
        self._spend(earlier.usage, earlier.judge_usage, earlier.seconds, earlier.waiting_s)

    def reuse(self, ended: Ended) -> None:
        """Book a sample that an earlier process has asked."""
        self.reused += 1
        self._count(ended.status, unscored=ended.is_unscored, outcome=ended.outcome)

    def fail(self, message: str) -> None:
        """Book that a sample which was to be tried again is not."""
        self.retried -= 1
        self._count("error")
        self.add_error(message)

    def add_error(self, message: str) -> None:
        """Count an error by its kind."""
        kind = DURATION.sub("… s", message)  # else no two failures would be alike
        kind = kind if kind in self.errors or len(self.errors) < DISTINCT_ERRORS else "other errors"
        self.errors[kind] += 1
        self.examples.setdefault(kind, message)

    def _count(self, status: str, *, unscored: bool = False, outcome: str | None = None) -> None:
        setattr(self.counts, status, getattr(self.counts, status) + 1)
        self.counts.unscored += unscored
        if outcome is not None and status in ("completed", "limit"):
            self.outcomes[outcome] += 1

    def _spend(self, usage: Mapping[str, Usage], judge_usage: Mapping[str, Usage], seconds: float, waiting_s: float) -> None:
        add_usage(self.usage, usage)
        add_usage(self.judge_usage, judge_usage)
        self.seconds += seconds
        self.waiting_s += waiting_s
