"""
A sample: one question, what a right answer is, and whatever else its row holds.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evalframe.core.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Sample:
    """
    One row of a data set, as solvers and graders see it.

    Args:
        input: What is asked: text, or chat messages.
        ideal: The right answer, or a list of right answers; None where the eval needs none.
        id: The row's own name, if it has one.
        metadata: Every other field of the row.
    """

    input: Prompt
    ideal: Any = None
    id: str | int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_row(cls, row: Mapping[str, Any], fields: Mapping[str, str] | None = None) -> Sample:
        """
        Read a row; `fields` maps our names to the row's, as in {"ideal": "answer"}.

        Raises:
            KeyError: If the row has no input.
        """
        names = {"input": "input", "ideal": "ideal", "id": "id", **(fields or {})}
        rest = {key: value for key, value in row.items() if key not in names.values()}
        return cls(row[names["input"]], row.get(names["ideal"]), row.get(names["id"]), rest)

    @property
    def ideals(self) -> list[Any]:
        """The right answers, as a list: of one, of many, or empty."""
        if self.ideal is None:
            return []
        return list(self.ideal) if isinstance(self.ideal, list | tuple) else [self.ideal]


def copied(row: Any) -> Any:
    """A copy of a row, so that one attempt cannot change what the next one sees; the row itself, where it is one that cannot be copied."""
    try:
        return copy.deepcopy(row)
    except Exception:  # noqa: BLE001 - a row may hold whatever an eval puts into it
        return row
