"""
Accuracy and means, with what they rest on: a standard error and an interval beside every one.

No library is needed: the formulas are short. They are checked against scipy in the tests.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Any


def mean(scores: Sequence[float]) -> float | None:
    """The mean of scores; None of none."""
    return math.fsum(scores) / len(scores) if scores else None


def standard_error(scores: Sequence[float]) -> float | None:
    """
    Standard error of the mean: the sample standard deviation over the root of n.

    Args:
        scores: Shape (n,).

    Returns:
        In the unit of `scores`; None if n < 2.
    """
    n = len(scores)
    if n < 2:
        return None
    centre = math.fsum(scores) / n
    return math.sqrt(math.fsum((score - centre) ** 2 for score in scores) / (n - 1) / n)


def proportion_error(successes: int, n: int) -> float | None:
    """`standard_error` of `successes` ones and the rest zeros, from the counts alone; None if n < 2."""
    if n < 2:
        return None
    return math.sqrt(successes * (n - successes) / n / (n - 1) / n)


def t_quantile(probability: float, freedom: int) -> float:
    """
    The value that Student's t stays below with `probability`.

    Args:
        probability: In [0.5, 1).
        freedom: Degrees of freedom, at least 1.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4 (inverted by halving); past a hundred
    degrees of freedom 26.7.5, which is right to eight digits there.
    """
    z = NormalDist().inv_cdf(probability)
    if freedom > 100:
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
            (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
        )
        return z + math.fsum(term / freedom**power for power, term in enumerate(terms, 1))
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        angle = (low + high) / 2
        low, high = (angle, high) if t_within(angle, freedom) < 2 * probability - 1 else (low, angle)
    return math.tan(low) * math.sqrt(freedom)


def t_within(angle: float, freedom: int) -> float:
    """The probability that Student's t lies within plus or minus tan(angle) * sqrt(freedom); the source stands at `t_quantile`."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def mean_interval(scores: Sequence[float], *, level: float = 0.95) -> tuple[float, float] | None:
    """
    Student's interval of a mean; for scores of 0 and 1 use `wilson_interval`.

    Args:
        scores: Shape (n,).
        level: Coverage, in (0, 1).

    Returns:
        (low, high), in the unit of `scores`, and not cut to the range that they can take; None if n < 2.

    Source: Student, The probable error of a mean, Biometrika 6 (1908).
    """
    error = standard_error(scores)
    return None if error is None else around(math.fsum(scores) / len(scores), error, len(scores), level)


def around(centre: float, error: float, n: int, level: float) -> tuple[float, float]:
    """Student's interval around the mean of n scores."""
    reach = t_quantile(0.5 + level / 2, n - 1) * error
    return centre - reach, centre + reach


def wilson_interval(successes: int, n: int, *, level: float = 0.95) -> tuple[float, float] | None:
    """
    Wilson's score interval of a proportion: it keeps its coverage for small n and near 0 and 1.

    Args:
        successes: How many.
        n: Of how many.
        level: Coverage, in (0, 1).

    Returns:
        (low, high), within [0, 1]; None if n is 0.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    if n == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - reach)
    high = 1.0 if successes == n else min(1.0, centre + reach)
    return low, high


def half_sample_std(successes: int, n: int) -> float | None:
    """
    What the mould's `boostrap_std` estimates: the standard deviation of the accuracy over half of the verdicts, drawn without replacement.

    openai/evals draws a thousand such halves without a seed. Over all draws the variance is S^2 / m * (1 - m / n), with m = n // 2 and S^2
    the sample variance, so it is computed instead.

    Args:
        successes: Right verdicts.
        n: All verdicts.

    Returns:
        In [0, 1]; None if n < 2.

    Source: W. G. Cochran, Sampling Techniques (1977), theorem 2.2.
    """
    if n < 2:
        return None
    half = n // 2
    variance = successes * (n - successes) / n / (n - 1)
    return math.sqrt(variance / half * (1 - half / n))


def accuracy_report(correct: Iterable[bool]) -> dict[str, Any]:
    """
    The accuracy over verdicts, and what it rests on.

    Args:
        correct: One a verdict; read once, kept nowhere.

    Returns:
        accuracy, boostrap_std (the mould's spelling), accuracy_stderr, accuracy_ci95 ([low, high]) and n; None where there is no such
        number.
    """
    n = successes = 0
    for verdict in correct:
        n += 1
        successes += bool(verdict)
    interval = wilson_interval(successes, n)
    return {
        "accuracy": successes / n if n else None,
        "boostrap_std": half_sample_std(successes, n),
        "accuracy_stderr": proportion_error(successes, n),
        "accuracy_ci95": list(interval) if interval else None,
        "n": n,
    }


class RunningMean:
    """
    A mean and its standard error over numbers that come one by one; eight bytes each.

    They are kept, and summed exactly, so that the order in which they come, which differs from run to run, changes not even the last bit.
    """

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, value: float) -> None:
        """Take one more."""
        self._values.append(value)

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self._values)

    @property
    def mean(self) -> float | None:
        """The mean; None of none."""
        return mean(self._values)

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean; None if n < 2."""
        return standard_error(self._values)

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """As `mean_interval`; None if n < 2."""
        return mean_interval(self._values, level=level)

    def report(self, name: str) -> dict[str, Any]:
        """The mean by its name, its standard error and interval, and how many numbers it rests on."""
        found = self.interval()
        return {
            name: self.mean,
            f"{name}_stderr": self.standard_error,
            f"{name}_ci95": list(found) if found else None,
            f"{name}_n": self.n,
        }
