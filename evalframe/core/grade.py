"""
A grade: the verdict on one answer. "No verdict" is a grade of its own kind, never a 0.0 nor a NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Grade:
    """
    The verdict on one answer.

    Args:
        score: In [0, 1], or None where there is no verdict.
        picked: What the grader took for the answer; None where it took nothing.
        reason: Why there is no verdict.
        metrics: Further numbers by name, such as {"f1_score": 0.5}.
        details: Whatever else the log should hold of the verdict.
    """

    score: float | None
    picked: Any = None
    reason: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_correct(self) -> bool:
        """Whether the answer got full credit."""
        return self.score is not None and self.score >= 1.0

    @property
    def is_scored(self) -> bool:
        """Whether there is a verdict."""
        return self.score is not None

    @classmethod
    def correct(cls, *, picked: Any = None, metrics: Mapping[str, float] | None = None, **details: Any) -> Grade:
        """Full credit."""
        return cls(1.0, picked, None, metrics or {}, details)

    @classmethod
    def incorrect(cls, *, picked: Any = None, metrics: Mapping[str, float] | None = None, **details: Any) -> Grade:
        """No credit."""
        return cls(0.0, picked, None, metrics or {}, details)

    @classmethod
    def unscored(cls, *, reason: str, **details: Any) -> Grade:
        """No verdict, and why."""
        return cls(None, None, reason, {}, details)
