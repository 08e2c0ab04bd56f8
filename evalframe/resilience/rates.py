"""
How many calls one endpoint gets at once, after it has said that they are too many. State only: nothing here waits or sends.

At first there is no limit but the callers' own number. A 429 halves the calls that are under way, once for a burst of them; each good
reply then gives a part of a slot back, two slots for each round of them, until there are as many again as there ever were.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FULL_S = 0.02
"""How soon a caller who found all slots taken asks again."""
RECOVERY = 2
"""Slots that each round of good replies gives back."""
MOST_POINTS = 200
"""Points of the history that are kept."""
QUIET_S = 60.0
"""Seconds without a complaint or a pause after which there is no limit any more, however few calls there were."""


@dataclass(frozen=True)
class Throttling:
    """
    How often an endpoint has complained.

    Args:
        times: Complaints.
        waited_s: Seconds that callers have waited for a slot or for the endpoint's pause, together.
    """

    times: int = 0
    waited_s: float = 0.0

    def since(self, before: Throttling) -> Throttling:
        """What has come since then."""
        return Throttling(self.times - before.times, self.waited_s - before.waited_s)


class RateLimiter:
    """
    The slots of one endpoint and account; for many threads at once.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way = 0
        self._most = 0
        self._limit = math.inf
        self._cut_at = -math.inf
        self._paused_until = -math.inf
        self._answered_at = -math.inf
        self._told = Throttling()
        self._began: float | None = None
        self._history: list[list[Any]] = []

    @property
    def limit(self) -> float:
        """How many calls may be under way; infinity without a limit."""
        return self._limit

    @property
    def told(self) -> Throttling:
        """How often the endpoint has complained so far."""
        return self._told

    def enter(self, *, has_waited: bool = False) -> float:
        """
        Take a slot.

        Args:
            has_waited: Whether the endpoint has told this caller itself to wait, and it has. All others heed a pause that somebody else was
                asked for.

        Returns:
            0 if there was one; else the seconds after which it is worth asking again. A slot is given back with `leave`.
        """
        with self._lock:
            if self._limit < math.inf or self._paused_until > 0:
                wait_s = self._wait_s(self._clock(), has_waited=has_waited)
                if wait_s > 0:
                    return wait_s
            self._under_way += 1
            self._most = max(self._most, self._under_way)
            return 0.0

    def history(self) -> list[list[Any]]:
        """
        How the limit went: a point for each whole step, of a long story every other one.

        Returns:
            [seconds since the first complaint, calls at once (None for no limit), complaints by the end of the step, seconds that callers
            have waited by then], ...
        """
        with self._lock:
            return [list(point) for point in self._history]

    def _note(self) -> None:
        """Keep a point of the history, where the limit has gone a whole step."""
        now = self._clock()
        self._began = now if self._began is None else self._began
        limit = None if self._limit == math.inf else int(self._limit)
        if self._history and self._history[-1][1] == limit:
            self._history[-1][2:] = [self._told.times, round(self._told.waited_s, 3)]
            return
        if len(self._history) >= MOST_POINTS:
            del self._history[1:-1:2]
        self._history.append([round(now - self._began, 3), limit, self._told.times, round(self._told.waited_s, 3)])

    def _wait_s(self, now: float, *, has_waited: bool) -> float:
        if not has_waited and now < self._paused_until:
            return self._paused_until - now
        if (
            self._limit < math.inf and now - max(self._cut_at, self._paused_until) > QUIET_S
        ):  # a pause is quiet by itself, and proves nothing
            self._limit = math.inf
            self._note()
        return FULL_S if self._under_way + 1 > self._limit else 0.0

    def leave(self, *, sent_at: float, complains: bool, hint_s: float = 0.0, is_good: bool = False) -> None:
        """
        Give a slot back, and say what came of the call.

        Args:
            sent_at: When it was sent, by the limiter's clock.
            complains: Whether the endpoint said that there were too many.
            hint_s: For how long it wants no more, as far as that is believed.
            is_good: Whether it has answered.
        """
        with self._lock:
            if is_good:
                self._answered_at = max(self._answered_at, sent_at)
            if complains:
                self._complain(sent_at, hint_s)
            elif is_good and self._limit < math.inf:
                self._limit += RECOVERY / self._limit
                if self._limit >= self._most:
                    self._limit = math.inf
                self._note()
            self._under_way -= 1

    def _complain(self, sent_at: float, hint_s: float) -> None:
        now = self._clock()
        self._told = Throttling(self._told.times + 1, self._told.waited_s)
        if hint_s > 0:
            self._paused_until = max(self._paused_until, now + hint_s)
        if sent_at > self._cut_at:  # else it was sent before the last cut, and complains of the same crowd
            self._limit = max(1.0, min(self._limit, self._under_way) / 2)
            self._cut_at = now
        self._note()

    def has_answered_since(self, moment: float) -> bool:
        """Whether a call that was sent after a moment has been answered."""
        return self._answered_at > moment

    def waited(self, seconds: float) -> None:
        """Count seconds that a caller has waited."""
        with self._lock:
            self._told = Throttling(self._told.times, self._told.waited_s + seconds)

    def now(self) -> float:
        """The limiter's clock."""
        return self._clock()


class Limiters:
    """One limiter for each endpoint and account, whoever asks there: the tested model, its judges, another run of this process."""

    def __init__(self) -> None:
        self._limiters: dict[tuple[str, int], RateLimiter] = {}
        self._lock = threading.Lock()

    def of(self, url: str, account: str) -> RateLimiter:
        """
        The limiter of an endpoint.

        Args:
            url: Its address.
            account: What tells one account there from another; only its hash is kept.
        """
        with self._lock:
            return self._limiters.setdefault((url, hash(account)), RateLimiter())
