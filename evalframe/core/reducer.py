"""
How the scores of one sample over its epochs become one score.

    mean, median, mode, max
    at_least_k   1 if at least k of them are right
    pass_at_k    the chance that of k drawn ones at least one is right: 1 - C(n-c, k) / C(n, k)
    pass_k       the chance that k drawn ones are all right: C(c, k) / C(n, k)

Of n scores c are right. In a name the number stands in place of k: at_least_2, pass_at_5, pass_3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from evalframe.core.errors import BadSetting, closest

Kind = Literal["mean", "median", "mode", "max", "at_least_k", "pass_at_k", "pass_k"]
PLAIN: tuple[Kind, ...] = ("mean", "median", "mode", "max")
WITH_K: tuple[Kind, ...] = ("at_least_k", "pass_at_k", "pass_k")


@dataclass(frozen=True, slots=True)
class Reducer:
    """
    One of these.

    Args:
        kind: Which.
        k: Its number, at least 1; None where it has none.
    """

    kind: Kind
    k: int | None = None

    @property
    def name(self) -> str:
        """How it is spelt: "pass_at_5"."""
        return self.kind if self.k is None else f"{self.kind.removesuffix('k')}{self.k}"

    @classmethod
    def named(cls, name: str) -> Reducer:
        """
        The reducer that is spelt so.

        Raises:
            BadSetting: If none is.
        """
        for kind in PLAIN:
            if name == kind:
                return cls(kind)
        for kind in WITH_K:
            found = re.fullmatch(rf"{kind.removesuffix('k')}([1-9]\d{{0,8}})", name)
            if found:
                return cls(kind, int(found[1]))
        spelt = [*PLAIN, "at_least_2", "pass_at_2", "pass_2"]
        if name in WITH_K:
            raise BadSetting(f'epochs_reducer "{name}" does not say which k.', do=f"Write the number: {name.removesuffix('k')}2.")
        near = closest(re.sub(r"\d+$", "2", name), spelt, most=2)
        raise BadSetting(
            f'there is no epochs_reducer "{name}".',
            do=f"There are: {', '.join(spelt)} (2 stands for any number from 1).{f' Closest: {near[0]}.' if near else ''}",
        )
