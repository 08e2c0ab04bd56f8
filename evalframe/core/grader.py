"""
A grader: a callable that says how good one answer is. Its fields are its YAML arguments.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from evalframe.core.grade import Grade
from evalframe.core.sample import Sample


@runtime_checkable
class Grader(Protocol):
    """
    Judge one answer. A grader that needs to look at a row before any model is paid may also have
    `check(sample) -> str | None`, which returns what is wrong with the row.
    """

    def __call__(self, completion: str, sample: Sample) -> Grade:
        """The grade of `completion` as an answer to `sample`."""
        ...
