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

        Args:
            epochs: How often.
            names: Spellings of reducers; one given twice counts once, none means the mean alone.

        Raises:
            BadSetting: If there is to be no epoch, or a reducer is unknown or needs more epochs than there are.
        """
        if epochs < 1:
            raise BadSetting(f"epochs is {epochs}.", do="It is a whole number from 1.")
        reducers = tuple(dict.fromkeys(Reducer.named(name) for name in names)) or (MEAN,)
        greediest = max(reducers, key=lambda reducer: reducer.k or 1)  # so that mending what is told mends all
        if greediest.k is not None and greediest.k > epochs:
            raise BadSetting(
                f"epochs_reducer {greediest.name} needs at least {greediest.k} epochs, and epochs is {epochs}.",
                do=f"Say --epochs {greediest.k}, or a smaller number in the reducer.",
            )
        return cls(epochs, reducers)

    def items(self, indices: Sequence[int]) -> Iterator[tuple[int, int]]:
        """What is asked: (index, epoch), all samples once before any is asked again."""
        for epoch in range(1, self.epochs + 1):
            for index in indices:
                yield index, epoch
