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
        text = completion.strip()
        found = [ideal for ideal in ideals if self._begins(text, ideal)]
        return Grade.correct(picked=max(found, key=len)) if found else Grade.incorrect()

    def _begins(self, text: str, ideal: str) -> bool:
        head = text[: len(ideal)]
        same = head.casefold() == ideal.casefold() if self.ignore_case else head == ideal
        return same and is_boundary(text, len(ideal))
