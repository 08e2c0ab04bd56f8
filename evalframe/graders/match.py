"""
The plain question: does the answer begin with what was asked for?
"""

from __future__ import annotations

from dataclasses import dataclass

from evalframe.core.grade import Grade
from evalframe.core.sample import Sample
from evalframe.graders.boundaries import is_boundary
from evalframe.graders.ideals import NO_IDEAL, texts


@dataclass(frozen=True)
class Match:
    """
    Correct if the completion, outer white space removed, begins with an ideal answer that ends there at a word boundary.

    "42" does not match "4", "3.14" does not match "3", "Paris." matches "Paris"; of several ideals that match, the longest is picked.

    Args:
        ignore_case: Compare case-folded text.
    """

    ignore_case: bool = False

    def __call__(self, completion: str, sample: Sample) -> Grade:
        ideals = texts(sample)
        if not ideals:
            return Grade.unscored(reason=NO_IDEAL)
        text = self._folded(completion.strip())
        found = [ideal for ideal in ideals if begins(text, self._folded(ideal))]
        return Grade.correct(picked=max(found, key=len)) if found else Grade.incorrect()

    def _folded(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text


def begins(text: str, ideal: str) -> bool:
    """Whether `text` begins with `ideal`, which ends there at a word boundary."""
    return text.startswith(ideal) and is_boundary(text, len(ideal))
