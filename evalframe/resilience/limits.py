"""
How far a sample may go, and how far a run.

Covers: calls of models, their tokens and cost; waiting for them; calls under way, whose time limit is cut to what is left.
Does not cover: an eval's own code that computes on without asking, waiting or recording; a thread cannot be stopped from outside.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property

from evalframe.core.completion import Usage
from evalframe.core.errors import Unpriced
from evalframe.core.executor import Stop
from evalframe.core.limit import Kind, Limit, LimitReached, RunStopped
from evalframe.core.price import Price, Prices
from evalframe.core.scope import SampleScope


def no_prices(_model: str) -> Price | None:
    """Nobody knows any price."""
    return None


def tokens_of(usage: Mapping[str, Usage]) -> int:
    """Input and output tokens of all models, as far as they are known."""
    return sum((spent.input_tokens or 0) + (spent.output_tokens or 0) for spent in usage.values())


def cost_of(usage: Mapping[str, Usage], prices: Prices) -> float:
    """
    What all models together cost.

    Returns:
        US dollars.

    Raises:
        Unpriced: If a model has no price: then no limit on cost can be kept.
    """
    total = 0.0
    for model, spent in usage.items():
        price = prices(model)
        if price is None:
            raise Unpriced(
                f'a limit on cost is set, but "{model or "a model without a name"}" has no price.',
                do="Give it one in models/ of a registry of your own, see docs/limits.md.",
            )
        total += price.cost_usd(spent) or 0.0
    return total


@dataclass(frozen=True)
class Limits:
    """
    How far one attempt at a sample may go; None is no limit.

    Args:
        message: Messages of a conversation, answers included.
        turn: Answers of models.
        token: Input and output tokens of all models.
        time_s: Seconds from its beginning, waiting included.
        working_s: The same without waiting for rate limits and back-off.
        cost_usd: US dollars.
    """

    message: int | None = None
    turn: int | None = None
    token: int | None = None
    time_s: float | None = None
    working_s: float | None = None
    cost_usd: float | None = None

    @cached_property
    def any(self) -> bool:
        """Whether there is one."""
        return any(getattr(self, item.name) is not None for item in fields(self))


class Budget:
    """
    What a whole run may spend, and has spent.

    Args:
        max_cost: US dollars.
        max_total_tokens: Input and output tokens of all models.
        prices: What models cost.
    """

    def __init__(self, max_cost: float | None = None, max_total_tokens: int | None = None, prices: Prices = no_prices) -> None:
        self.max_cost = max_cost
        self.max_total_tokens = max_total_tokens
        self.prices = prices
        self.tokens = 0
        self.cost_usd = 0.0
        self._lock = threading.Lock()

    def spend(self, usage: Mapping[str, Usage]) -> None:
        """Book what was spent."""
        if self.max_cost is None and self.max_total_tokens is None:
            return
        cost = cost_of(usage, self.prices) if self.max_cost is not None else 0.0
        with self._lock:
            self.tokens += tokens_of(usage)
            self.cost_usd += cost

    def used_up(self) -> str | None:
        """Which limit of the run is reached, in words; None while none is."""
        if self.max_total_tokens is not None and self.tokens >= self.max_total_tokens:
            return f"max_total_tokens is reached: {self.tokens:,} of {self.max_total_tokens:,} tokens are spent"
        if self.max_cost is not None and self.cost_usd >= self.max_cost:
            return f"max_cost is reached: {self.cost_usd:.4g} of {self.max_cost:g} USD are spent"
        return None


class SampleWatch:
    """
    Holds one attempt at a sample to its limits; see `Watch`.

    Args:
        limits: How far it may go.
        scope: The attempt.
        stop: Says when the run is stopped.
        budget: Where its spending is booked.
        clock: Monotonic seconds.

    Attributes:
        reached: The limit that was reached, even where the eval's own code has caught the exception.
    """

    def __init__(
        self, limits: Limits, scope: SampleScope, stop: Stop, budget: Budget, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.reached: Limit | None = None
        self._limits = limits
        self._is_limited = limits.any
        self._scope = scope
        self._stop = stop
        self._budget = budget
        self._clock = clock
        self._began = clock()

    def before_call(self, messages: int) -> None:
        """See `Watch`: refuses the call that a limit has no room for."""
        if not self._is_limited:
            return
        limits, scope = self._limits, self._scope
        self._refuse("message", limits.message, messages, at=True)
        self._refuse("turn", limits.turn, scope.turns, at=True)
        self._refuse_spending(at=True)
        if late := self.late():
            raise late

    def after_call(self, model: str, usage: Usage) -> None:
        """See `Watch`: what was asked is paid; a sample past its limit ends here."""
        self._budget.spend({model: usage})
        if not self._is_limited:
            return
        self._refuse_spending(at=False)
        if late := self.late():
            raise late

    def left_s(self) -> float | None:
        """See `Watch`."""
        ends = [left for left in (self._time_left_s(), self._working_left_s()) if left is not None]
        return max(0.0, min(ends)) if ends and self._is_limited else None

    def wait(self, seconds: float) -> None:
        """See `Watch`. Waiting uses up the time limit, and not the working limit."""
        began = self._clock()
        self._has_waited(began, stopped=self._stop.wait(self._at_most(seconds)))

    async def awaited(self, seconds: float) -> None:
        """See `Watch`."""
        began = self._clock()
        self._has_waited(began, stopped=await self._stop.awaited(self._at_most(seconds)))

    def _at_most(self, seconds: float) -> float:
        left_s = self._time_left_s() if self._is_limited else None
        return seconds if left_s is None else max(0.0, min(seconds, left_s))

    def _has_waited(self, began: float, *, stopped: bool) -> None:
        self._scope.waiting_s += self._clock() - began
        if stopped:
            raise RunStopped
        if late := self.late():
            raise late

    def lift(self) -> None:
        """See `Watch`."""
        self._is_limited = False

    def late(self) -> LimitReached | None:
        """See `Watch`."""
        if not self._is_limited:
            return None
        elapsed_s = self._clock() - self._began
        for kind, most, used in (
            ("time", self._limits.time_s, elapsed_s),
            ("working", self._limits.working_s, elapsed_s - self._scope.waiting_s),
        ):
            if most is not None and used >= most:
                return self._reach("time" if kind == "time" else "working", most, used)
        return None

    def _time_left_s(self) -> float | None:
        most = self._limits.time_s
        return None if most is None else most - (self._clock() - self._began)

    def _working_left_s(self) -> float | None:
        most = self._limits.working_s
        return None if most is None else most - (self._clock() - self._began - self._scope.waiting_s)

    def _refuse_spending(self, *, at: bool) -> None:
        limits, usage = self._limits, self._scope.usage
        if limits.token is not None:
            self._refuse("token", limits.token, tokens_of(usage), at=at)
        if limits.cost_usd is not None:
            self._refuse("cost", limits.cost_usd, cost_of(usage, self._budget.prices), at=at)

    def _refuse(self, kind: Kind, most: float | None, used: float, *, at: bool) -> None:
        """Raise if a limit is passed; `at`: also if it is just reached, since one more call would pass it."""
        if most is not None and (used > most or (at and used >= most)):
            raise self._reach(kind, most, used)

    def _reach(self, kind: Kind, most: float, used: float) -> LimitReached:
        self.reached = self.reached or Limit(kind, most, used)
        return LimitReached(self.reached)
