"""
How many samples may end in error before a run counts as failed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FailurePolicy:
    """
    When errors fail a run.

    Args:
        fail_on_error: True: any error does. False: none does. A share in (0, 1): more than that share of the samples. A whole number:
            more than that many; 0 is as strict as True.
        continue_on_fail: Whether every sample is run all the same; else the run stops once it has failed.
    """

    fail_on_error: bool | float = True
    continue_on_fail: bool = True

    def has_failed(self, errors: int, total: int) -> bool:
        """Whether `errors` of `total` samples are too many."""
        if isinstance(self.fail_on_error, bool):
            return self.fail_on_error and errors > 0
        if 0 < self.fail_on_error < 1:
            return errors > self.fail_on_error * total
        return errors > self.fail_on_error

    def must_stop(self, errors: int, total: int) -> bool:
        """Whether no further sample is to be begun."""
        return not self.continue_on_fail and self.has_failed(errors, total)
