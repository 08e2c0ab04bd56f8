"""
When a call that failed is tried again, and when it is given up. Policy only: nothing here waits, sends or looks at a clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from random import Random

RETRIABLE = frozenset({408, 409, 425, 429})
"""Statuses below 500 that may pass: timeout, conflict, too early, too many requests."""


@dataclass(frozen=True)
class RetryPolicy:
    """
    How often and how long a call is tried.

    Args:
        max_tries: Tries in all, the first among them.
        max_total_s: Seconds from the first try; no wait is begun that would end later.
        first_wait_s: Longest wait before the second try; it doubles with each further one.
        longest_wait_s: Where the doubling ends.
        longest_hint_s: The most that is believed of what a server asks for.
    """

    max_tries: int = 8
    max_total_s: float = 900.0
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0
    longest_hint_s: float = 120.0

    def wait_s(self, tries_made: int, *, elapsed_s: float, hint_s: float | None, rng: Random) -> float | None:
        """
        Seconds until the next try, or None to give up.

        The wait is drawn from [0, first_wait_s * 2 ** (tries_made - 1)], so that many callers who failed together do not come back
        together. A server's hint comes on top: never sooner than it asked for, and still not all at once.

        Args:
            tries_made: How many have failed, at least 1.
            elapsed_s: Seconds since the first began.
            hint_s: What the server asked for, if it did.
            rng: Source of the draw.
        """
        if tries_made >= self.max_tries:
            return None
        ceiling_s = min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(tries_made - 1, 64))
        wait_s = min(hint_s or 0.0, self.longest_hint_s) + rng.uniform(0.0, ceiling_s)
        return None if elapsed_s + wait_s > self.max_total_s else wait_s


def is_retriable(status: int) -> bool:
    """Whether an HTTP status may be another one at the next try."""
    return status in RETRIABLE or 500 <= status <= 599


def retry_after_s(headers: Mapping[str, str], *, now: float) -> float | None:
    """
    What a server asks for: `retry-after-ms`, else `retry-after` in seconds or as an HTTP date.

    Args:
        headers: With lower-case names.
        now: Seconds since 1970.

    Returns:
        Seconds from now, 0 for a moment that has passed; None where the server asks for nothing that can be read.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000.0
    asked = headers.get("retry-after")
    seconds = _seconds(asked)
    if seconds is not None or asked is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(asked).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _seconds(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
