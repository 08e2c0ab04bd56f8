"""
Which samples a run asks, in which order, and the randomness of each: the mould's, so that old series of numbers go on.
"""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass

SHUFFLE_SEED = 123
"""The mould's: the order of samples is the same in every run, whatever the run's seed."""


@dataclass(frozen=True)
class SampleOrder:
    """
    Which samples, and in which order: shuffled, then cut.

    Args:
        max_samples: How many at most; None for all.
    """

    max_samples: int | None = None

    def indices(self, total: int) -> array[int]:
        """Indices into `total` samples; four bytes each."""
        order = array("L" if total > 1 << 31 else "I", range(total))
        random.Random(SHUFFLE_SEED).shuffle(order)
        return order if self.max_samples is None else order[: self.max_samples]


def seeded(sample_id: str, seed: int, epoch: int = 1) -> random.Random:
    """The randomness of one sample: the mould's in epoch 1, another in each later epoch."""
    text = f"{sample_id}:{seed}" if epoch == 1 else f"{sample_id}:{seed}:{epoch}"
    return random.Random(text.encode("utf-8"))
