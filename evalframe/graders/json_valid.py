"""
Is it JSON at all?
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from evalframe.core.grade import Grade
from evalframe.core.sample import Sample


class NotJson(ValueError):
    """A text that is no JSON, and why."""


@dataclass(frozen=True)
class JsonValid:
    """Correct if the completion is valid JSON, with nothing around it but white space; NaN and Infinity are no JSON."""

    needs_ideal = False

    def __call__(self, completion: str, sample: Sample) -> Grade:
        try:
            read_json(completion)
        except NotJson as error:
            return Grade.incorrect(picked=completion, invalid=str(error))
        return Grade.correct(picked=completion)


def read_json(text: str) -> Any:
    """
    The value of a JSON text, by the standard library whatever else is installed, so that a verdict depends on nothing but the text.

    Raises:
        NotJson: With the reason.
    """
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error) or "nested too deeply") from None


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN, Infinity and -Infinity."""
    raise NotJson(f"{name} is no JSON")
