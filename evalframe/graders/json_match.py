"""
Is it the same JSON?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evalframe.core.grade import Grade
from evalframe.core.sample import Sample
from evalframe.graders.json_valid import NotJson, read_json


@dataclass(frozen=True)
class JsonMatch:
    """
    Correct if the completion is JSON equal in value to an ideal answer, which is JSON text.

    Numbers are compared by value (1 and 1.0 are equal, true and 1 are not); the order of keys does not count, that of lists does. An ideal
    that is no text counts as the JSON value it is.
    """

    def __call__(self, completion: str, sample: Sample) -> Grade:
        wanted = [ideal_value(ideal) for ideal in sample.ideals]
        if not wanted:
            return Grade.unscored(reason="the sample has no ideal answer")
        try:
            said = read_json(completion)
        except NotJson as error:
            return Grade.incorrect(invalid=str(error))
        for ideal, value in zip(sample.ideals, wanted, strict=True):
            if equal(said, value):
                return Grade.correct(picked=ideal)
        return Grade.incorrect(picked=completion)

    def check(self, sample: Sample) -> str | None:
        """What is wrong with a row: an ideal that is no JSON."""
        for ideal in sample.ideals:
            try:
                ideal_value(ideal)
            except NotJson as error:
                return f'has an "ideal" that is no JSON: {error}'
        return None


def ideal_value(ideal: Any) -> Any:
    """The value that an ideal stands for."""
    return read_json(ideal) if isinstance(ideal, str) else ideal


def equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same value."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is not dict and type(other) is not dict and bool(one == other)
