"""
A freer question: does the answer say it anywhere?
"""

from __future__ import annotations

from dataclasses import dataclass

from evalframe.core.grade import Grade
from evalframe.core.sample import Sample
from evalframe.graders.boundaries import found_whole
from evalframe.graders.ideals import NO_IDEAL, texts


@dataclass(frozen=True)
class Includes:
    """
    Correct if an ideal answer stands in the completion, and not inside a longer word or number.

    Args:
        ignore_case: Compare case-folded text.
    """

    ignore_case: bool = False

    def __call__(self, completion: str, sample: Sample) -> Grade:
        ideals = texts(sample)
        if not ideals:
            return Grade.unscored(reason=NO_IDEAL)
        text = self._folded(completion)
        for ideal in ideals:
            if found_whole(self._folded(ideal), text) >= 0:
                return Grade.correct(picked=ideal)
        return Grade.incorrect()

    def _folded(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text
