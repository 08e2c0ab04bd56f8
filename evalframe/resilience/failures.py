"""
What errors of samples mean for a run: how many are too many, how often one is tried again, how it counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class FailurePolicy:
    """
    What errors of samples mean.

    Args:
        fail_on_error: True: any error fails the run. False: none does. A share in (0, 1): more than that share of the samples. A whole
            number: more than that many; 0 is as strict as True.
        continue_on_fail: Whether every sample is run all the same; else the run stops once it has failed.
        retry_on_error: How many more attempts a sample gets that ended in error.
        score_on_error: Whether a sample that ends in error at last counts as wrong; else it is left out of the metrics.
    """

    fail_on_error: bool | float = True
    continue_on_fail: bool = True
    retry_on_error: int = 0
    score_on_error: bool = False

    def has_failed(self, errors: int, total: int) -> bool:
        """Whether `errors` of `total` samples are too many."""
        if isinstance(self.fail_on_error, bool):
            return self.fail_on_error and errors > 0
        if 0 < self.fail_on_error < 1:
            return errors > Fraction(str(self.fail_on_error)) * total  # exact: 0.58 of 50 are 29, and 29 is not more
        return errors > self.fail_on_error

    def must_stop(self, errors: int, total: int) -> bool:
        """Whether no further sample is to be begun."""
        return not self.continue_on_fail and self.has_failed(errors, total)

    def tries_again(self, tries: int) -> bool:
        """Whether a sample that has failed `tries` times in this process gets another attempt."""
        return tries <= self.retry_on_error
