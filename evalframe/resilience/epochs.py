"""
How often each sample is asked, and what is made of its scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalframe.core.errors import BadSetting
from evalframe.core.reducer import Reducer

MEAN = Reducer("mean")


@dataclass(frozen=True)
class EpochPlan:
    """
    How often each sample is asked.

    Args:
        epochs: How often.
        reducers: What is reported of its scores, beside their mean.
    """

    epochs: int = 1
    reducers: tuple[Reducer, ...] = (MEAN,)

    @classmethod
    def of(cls, epochs: int, names: Sequence[str] = ()) -> EpochPlan:
        """
        The plan that settings ask for.

        Raises:
            BadSetting: If a reducer is unknown, or needs more epochs than there are.
        """
        reducers = tuple(dict.fromkeys(Reducer.named(name) for name in names)) or (MEAN,)
        for reducer in reducers:
            if reducer.k is not None and reducer.k > epochs:
                raise BadSetting(
                    f"epochs_reducer {reducer.name} needs {reducer.k} epochs at least, and epochs is {epochs}.",
                    do=f"Say --epochs {reducer.k}, or a smaller number in the reducer.",
                )
        return cls(epochs, reducers)

    def items(self, indices: Sequence[int]) -> Iterator[tuple[int, int]]:
        """What is asked: (index, epoch), all samples once before any is asked again."""
        for epoch in range(1, self.epochs + 1):
            for index in indices:
                yield index, epoch
