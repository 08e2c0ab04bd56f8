"""
Who is told how a run gets on, and what the loop needs of an eval.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from evalframe.core.limit import Limit
from evalframe.core.steps import Steps
from evalframe.core.tally import SampleCounts


class Asked(Protocol):
    """What the loop needs of an eval."""

    name: str
    seed: int

    @property
    def eval_sample(self) -> Callable[..., Any]:
        """Asks one sample: (sample, rng) -> result; a function or a coroutine function."""
        ...

    @property
    def in_steps(self) -> Callable[[Any, Random], Steps[Any]] | None:
        """The same in steps, where the eval is written so."""
        ...

    @property
    def on_limit(self) -> Callable[[Any, Random, Limit], Any]:
        """Grades what there is of a sample that a limit has cut: (sample, rng, limit) -> result."""
        ...


class Observer(Protocol):
    """Who is told how the loop gets on."""

    def begin(self, total: int) -> None:
        """The loop begins, with so many samples to go."""
        ...

    def ended(self, counts: SampleCounts) -> None:
        """A sample has ended, and is in the log."""
        ...

    def stopping(self, grace_s: float) -> None:
        """Someone has asked for a stop: samples in flight get so many seconds. Called in a signal handler."""
        ...

    def finish(self) -> None:
        """The loop ends."""
        ...
