"""
How the scores of one sample over its epochs become one score.

    mean, median, mode, max
    at_least_k   1 if at least k of them are right, else 0
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
SPELT = (*PLAIN, "at_least_2", "pass_at_2", "pass_2")


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
            found = re.fullmatch(rf"{kind.removesuffix('k')}([1-9][0-9]{{0,8}})", name)
            if found:
                return cls(kind, int(found[1]))
        if name in WITH_K:
            raise BadSetting(f'epochs_reducer "{name}" does not say which k.', do=f"Write the number: {name.removesuffix('k')}2.")
        near = nearest(name)
        raise BadSetting(
            f'there is no epochs_reducer "{name}".',
            do=f"There are: {', '.join(SPELT)} (2 stands for any number from 1).{f' Closest: {near}.' if near else ''}",
        )


def nearest(name: str) -> str | None:
    """The spelling most like `name`, with its number; "pass@3" and "pass^3" are how papers write pass_at_3 and pass_3."""
    number = re.search(r"[1-9][0-9]{0,8}$", name)
    near = closest(re.sub(r"[0-9]+$", "2", name.replace("@", "_at_").replace("^", "_")), SPELT, most=1)
    return re.sub(r"2$", number[0] if number else "2", near[0]) if near else None
