"""
Scores of samples that were asked several times.

A sample's scores are reduced to one first, and only then is the mean taken over samples; so the standard error is that of samples, and
does not shrink because a model that always says the same was asked again. All sums are exact before they are rounded (`math.fsum`), so
that a run that was taken up again reports what an undisturbed one does, to the last bit.
"""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Sequence
from typing import Any

from evalframe.core.reducer import Reducer
from evalframe.metrics.basic import around, mean, standard_error, wilson_interval

MISSING = math.nan
RIGHT = 1.0


def reduced(reducer: Reducer, scores: Sequence[float]) -> float | None:
    """
    One score of several.

    Args:
        reducer: How.
        scores: Shape (n,), one an epoch that has a verdict, each in [0, 1]; one of 1 is right.

    Returns:
        None of no scores, or of fewer than the reducer's k.

    Source: M. Chen et al., Evaluating Large Language Models Trained on Code (2021), for pass_at_k; S. Yao et al., tau-bench (2024), for
    pass_k.
    """
    n, k = len(scores), reducer.k or 1
    if n < k:
        return None
    right = sum(score >= RIGHT for score in scores)
    if reducer.kind == "mean":
        return mean(scores)
    if reducer.kind == "median":
        return float(statistics.median(scores))
    if reducer.kind == "mode":
        return min(statistics.multimode(scores))  # of several the lowest: a tie gives no credit
    if reducer.kind == "max":
        return max(scores)
    if reducer.kind == "at_least_k":
        return float(right >= k)
    if reducer.kind == "pass_at_k":
        return 1.0 - math.comb(n - right, k) / math.comb(n, k)
    return math.comb(right, k) / math.comb(n, k)


class RepeatedScores:
    """
    Scores by sample and epoch. Eight bytes a score, and some two hundred a sample.

    Args:
        epochs: How often each sample was asked.
    """

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._scores: dict[str | None, array[float]] = {}
        self._several: dict[tuple[str | None, int], list[float]] = {}

    def add(self, sample_id: str | None, epoch: int, score: float) -> None:
        """Take one more; of several in one epoch, as of several answers to one call, the mean counts."""
        row = self._scores.get(sample_id)
        if row is None:
            row = self._scores[sample_id] = array("d", [MISSING]) * self._epochs
        if not math.isnan(row[epoch - 1]):
            several = self._several.setdefault((sample_id, epoch), [row[epoch - 1]])
            several.append(score)
            score = math.fsum(several) / len(several)
        row[epoch - 1] = score

    def over_samples(self, reducer: Reducer) -> list[float]:
        """The reduced score of each sample that has one."""
        values = (reduced(reducer, [score for score in row if not math.isnan(score)]) for row in self._scores.values())
        return [value for value in values if value is not None]

    def by_epoch(self) -> list[float | None]:
        """The mean over samples of each epoch; None where one has no verdict."""
        rows = self._scores.values()
        return [mean([row[epoch] for row in rows if not math.isnan(row[epoch])]) for epoch in range(self._epochs)]

    def accuracy_report(self, reducers: Sequence[Reducer]) -> dict[str, Any]:
        """
        The accuracy, and what it rests on.

        Returns:
            accuracy (the mean over samples of the mean over their epochs), boostrap_std, accuracy_stderr, accuracy_ci95, n (samples),
            epochs, accuracy_by_epoch, accuracy_range ([lowest, highest] of them); and accuracy_<name> with _stderr, _ci95 and _n for
            each reducer but the mean. None where there is no such number.
        """
        values = self.over_samples(Reducer("mean"))
        epochs = self.by_epoch()
        known = [value for value in epochs if value is not None]
        report: dict[str, Any] = {
            "accuracy": mean(values),
            "boostrap_std": half_sample_error(values),
            "accuracy_stderr": standard_error(values),
            "accuracy_ci95": interval(values),
            "n": len(values),
            "epochs": self._epochs,
            "accuracy_by_epoch": epochs,
            "accuracy_range": [min(known), max(known)] if known else None,
        }
        for reducer in reducers:
            if reducer.kind != "mean":
                values, name = self.over_samples(reducer), f"accuracy_{reducer.name}"
                report |= {
                    name: mean(values),
                    f"{name}_stderr": standard_error(values),
                    f"{name}_ci95": interval(values),
                    f"{name}_n": len(values),
                }
        return report

    def report(self, name: str) -> dict[str, Any]:
        """The mean of a number by its name, its standard error and interval, and how many samples it rests on; and that of each epoch."""
        values = self.over_samples(Reducer("mean"))
        error = standard_error(values)
        centre = mean(values)
        return {
            name: centre,
            f"{name}_stderr": error,
            f"{name}_ci95": list(around(centre, error, len(values), 0.95)) if error is not None and centre is not None else None,
            f"{name}_n": len(values),
            **({f"{name}_by_epoch": self.by_epoch()} if self._epochs > 1 else {}),
        }


def interval(values: Sequence[float]) -> list[float] | None:
    """A 95 % interval of the mean of scores in [0, 1]: Wilson's where all are 0 or 1, else Student's, cut to what they can be."""
    if all(value in (0.0, 1.0) for value in values):
        exact = wilson_interval(int(math.fsum(values)), len(values))
        return list(exact) if exact else None
    error, centre = standard_error(values), mean(values)
    if error is None or centre is None:
        return None
    low, high = around(centre, error, len(values), 0.95)
    return [max(0.0, low), min(1.0, high)]


def half_sample_error(values: Sequence[float]) -> float | None:
    """As `half_sample_std`, of scores that may lie between 0 and 1; None if n < 2."""
    n = len(values)
    error = standard_error(values)
    if error is None:
        return None
    half = n // 2
    return math.sqrt(error**2 * n / half * (1 - half / n))
