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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from evalframe.core.errors import MetricError
from evalframe.core.reducer import Reducer
from evalframe.metrics.basic import mean, mean_interval, standard_error, wilson_interval

MEAN = Reducer("mean")
MISSING = math.nan
RIGHT = 1.0


def reduced(reducer: Reducer, scores: Sequence[float]) -> float | None:
    """
    One score of several.

    Args:
        reducer: How.
        scores: Shape (n,), one an epoch that has a verdict; one of at least 1 is right.

    Returns:
        In the unit of `scores`, or a share in [0, 1] where the reducer counts right ones; None of no scores, or of fewer than its k.
        Of several modes the lowest: a tie gives no credit.

    Source: M. Chen et al., Evaluating Large Language Models Trained on Code (2021), for pass_at_k; S. Yao et al., tau-bench (2024), for
    pass_k.
    """
    n, k = len(scores), reducer.k or 1
    if n < k:
        return None
    if reducer.kind == "mean":
        return mean(scores)
    if reducer.kind == "median":
        return float(statistics.median(scores))
    if reducer.kind == "mode":
        return min(statistics.multimode(scores))
    if reducer.kind == "max":
        return max(scores)
    right = sum(score >= RIGHT for score in scores)
    if reducer.kind == "at_least_k":
        return float(right >= k)
    if reducer.kind == "pass_at_k":
        draws = math.comb(n, k)
        return (draws - math.comb(n - right, k)) / draws
    return math.comb(right, k) / math.comb(n, k)


class RepeatedScores:
    """
    Scores by sample and epoch, that come one by one in any order; sixteen bytes each, and some hundred a sample.

    Args:
        epochs: How often each sample was asked.
    """

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._numbers: dict[str | None, int] = {}
        self._places = array("Q")  # sample number * epochs + epoch - 1
        self._scores = array("d")

    def add(self, sample_id: str | None, epoch: int, score: float) -> None:
        """
        Take one more; of several in one epoch, as of several answers to one call, the mean counts.

        What is not finite is left out: a log holds null in its place, and a run that is taken up again would not see it.

        Raises:
            MetricError: If there is no such epoch.
        """
        if not 1 <= epoch <= self._epochs:
            raise MetricError(
                f"a score of {sample_id} is of epoch {epoch}, and epochs is {self._epochs}.",
                do="Set epochs to the number that the log was made with.",
            )
        if math.isfinite(score):
            number = self._numbers.setdefault(sample_id, len(self._numbers))
            self._places.append(number * self._epochs + epoch - 1)
            self._scores.append(score)

    def table(self) -> Table:
        """One score for each sample and epoch."""
        filled = array("d", [MISSING]) * (len(self._numbers) * self._epochs)
        order = sorted(range(len(self._places)), key=self._places.__getitem__)
        for place, found in groupby(order, key=self._places.__getitem__):
            scores = [self._scores[position] for position in found]
            filled[place] = scores[0] if len(scores) == 1 else math.fsum(scores) / len(scores)
        return Table(self._epochs, filled)

    def accuracy_report(self, reducers: Sequence[Reducer] = (), *, prefix: str = "accuracy") -> dict[str, Any]:
        """
        The accuracy, and what it rests on; called otherwise by `prefix`.

        Args:
            reducers: What else to report.
            prefix: What the accuracy is called.

        Returns:
            accuracy (the mean over samples of the mean over their epochs), boostrap_std (as in `half_sample_error`), accuracy_stderr,
            accuracy_ci95 ([low, high]), n (samples with a verdict), epochs, accuracy_by_epoch, accuracy_range ([lowest, highest] of
            them); and accuracy_<name> with _stderr, _ci95 and _n for each reducer but the mean, over the samples that have enough
            epochs for it. None where there is no such number.
        """
        table = self.table()
        values, epochs = table.over_samples(MEAN), table.by_epoch()
        known = [value for value in epochs if value is not None]
        report: dict[str, Any] = {
            prefix: mean(values),
            "boostrap_std": half_sample_error(values),
            f"{prefix}_stderr": standard_error(values),
            f"{prefix}_ci95": interval(values),
            "n": len(values),
            "epochs": self._epochs,
            f"{prefix}_by_epoch": epochs,
            f"{prefix}_range": [min(known), max(known)] if known else None,
        }
        for reducer in reducers:
            if reducer != MEAN:
                values, name = table.over_samples(reducer), f"{prefix}_{reducer.name}"
                report |= {
                    name: mean(values),
                    f"{name}_stderr": standard_error(values),
                    f"{name}_ci95": interval(values),
                    f"{name}_n": len(values),
                }
        return report

    def report(self, name: str) -> dict[str, Any]:
        """The mean of a number by its name, its standard error and interval, and how many samples it rests on; and that of each epoch."""
        table = self.table()
        values = table.over_samples(MEAN)
        found = mean_interval(values)
        return {
            name: mean(values),
            f"{name}_stderr": standard_error(values),
            f"{name}_ci95": list(found) if found else None,
            f"{name}_n": len(values),
            **({f"{name}_by_epoch": table.by_epoch()} if self._epochs > 1 else {}),
        }


@dataclass(frozen=True)
class Table:
    """
    One score for each sample and epoch.

    Args:
        epochs: How often each sample was asked.
        scores: Shape (samples * epochs,), the epochs of a sample beside one another; NaN where there is no score.
    """

    epochs: int
    scores: array[float]

    def rows(self) -> Iterator[list[float]]:
        """The scores of each sample, without those that are missing."""
        for start in range(0, len(self.scores), self.epochs):
            yield [score for score in self.scores[start : start + self.epochs] if not math.isnan(score)]

    def over_samples(self, reducer: Reducer) -> list[float]:
        """The reduced score of each sample that has one."""
        values = (reduced(reducer, row) for row in self.rows())
        return [value for value in values if value is not None]

    def by_epoch(self) -> list[float | None]:
        """The mean over samples of each epoch; None where one has no score."""
        return [mean([score for score in self.scores[first :: self.epochs] if not math.isnan(score)]) for first in range(self.epochs)]


def interval(values: Sequence[float]) -> list[float] | None:
    """A 95 % interval of the mean of scores in [0, 1]: Wilson's where all are 0 or 1, else Student's, cut to what they can be."""
    if all(value in (0.0, 1.0) for value in values):
        exact = wilson_interval(int(math.fsum(values)), len(values))
        return list(exact) if exact else None
    found = mean_interval(values)
    return [max(0.0, found[0]), min(1.0, found[1])] if found else None


def half_sample_error(values: Sequence[float]) -> float | None:
    """As `half_sample_std` of metrics/basic.py, of scores that may lie between 0 and 1; None if n < 2."""
    n = len(values)
    error = standard_error(values)
    if error is None:
        return None
    half = n // 2
    return math.sqrt(error**2 * n / half * (1 - half / n))
