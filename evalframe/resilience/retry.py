"""
When a call that failed is tried again, and when it is given up. Policy only: nothing here waits, sends or looks at a clock.

Headers by which endpoints say how long to wait: `retry-after` (RFC 9110, 10.2.3), `retry-after-ms` (Azure, OpenAI); where neither is there,
the reset of a limit that is used up: `x-ratelimit-remaining-*` and `x-ratelimit-reset-*` (OpenAI's guide "Rate limits"),
`anthropic-ratelimit-*-remaining` and `-reset` (Anthropic's API reference, "Rate limits"), and the plain `x-ratelimit-reset` and
`ratelimit-reset` of gateways. Read 2026-12-01.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from random import Random

RETRIABLE = frozenset({408, 409, 425, 429})
"""Statuses below 500 that may pass: timeout, conflict, too early, too many requests."""
SPREAD_S = 2.0
"""Within how many seconds callers who failed together come back."""
LIMIT_LEFT = re.compile(r"(?:x-|anthropic-)?ratelimit(?:-.+)?-remaining(?:-.+)?|(?:x-)?ratelimit-remaining")
DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
"""Such as 1s, 6m0s, 59.7s, 120ms, 1h2m."""
DURATION_UNITS_S = (86400.0, 3600.0, 60.0, 1.0, 0.001)
A_YEAR_S = 366 * 86400.0
"""A plain number of seconds above this is a moment, counted from 1970."""


@dataclass(frozen=True)
class RetryPolicy:
    """
    How often and how long a call is tried; as it stands, an outage of a minute is survived.

    Args:
        max_tries: Tries in all, the first among them.
        max_total_s: Seconds from the first try; no wait is begun that would end later.
        first_wait_s: Longest wait before the second try; it doubles with each further one.
        longest_wait_s: Where the doubling ends.
        longest_hint_s: The most that is believed of what a server asks for.
    """

    max_tries: int = 8
    max_total_s: float = 900.0
    first_wait_s: float = 0.6
    longest_wait_s: float = 60.0
    longest_hint_s: float = 120.0

    def wait_s(self, tries_made: int, *, elapsed_s: float, hint_s: float | None, rng: Random) -> float | None:
        """
        Seconds until the next try, or None to give up.

        The wait is at most first_wait_s * 2 ** (tries_made - 1), and drawn from the last two seconds up to that, so that many callers who
        failed together do not come back together. Where the server gives a hint, the wait is the hint and a draw from all of that on top:
        never sooner than it asked for, and still not all at once.

        Args:
            tries_made: How many have failed, at least 1.
            elapsed_s: Seconds since the first began.
            hint_s: What the server asked for, if it did.
            rng: Source of the draw.
        """
        if tries_made >= self.max_tries:
            return None
        ceiling_s = min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(tries_made - 1, 64))
        if hint_s is None:
            wait_s = ceiling_s - rng.uniform(0.0, min(ceiling_s, SPREAD_S))
        else:
            wait_s = min(hint_s, self.longest_hint_s) + rng.uniform(0.0, ceiling_s)
        return None if elapsed_s + wait_s > self.max_total_s else wait_s


def is_retriable(status: int) -> bool:
    """Whether an HTTP status may be another one at the next try."""
    return status in RETRIABLE or 500 <= status <= 599


def asked_to_wait_s(headers: Mapping[str, str], *, now: float) -> float | None:
    """
    What a server that refuses asks for: see the head of this module.

    Args:
        headers: With lower-case names.
        now: Seconds since 1970.

    Returns:
        Seconds from now, 0 for a moment that has passed; None where the server asks for nothing that can be read.
    """
    told = retry_after_s(headers, now=now)
    return told if told is not None else max(resets_s(headers, now=now), default=None)


def retry_after_s(headers: Mapping[str, str], *, now: float) -> float | None:
    """
    What a server asks for: `retry-after-ms`, else `retry-after` in seconds or as an HTTP date.

    Args:
        headers: With lower-case names.
        now: Seconds since 1970.

    Returns:
        As `asked_to_wait_s`.
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


def resets_s(headers: Mapping[str, str], *, now: float) -> Iterator[float]:
    """Seconds until each limit that is used up is open again."""
    for name, left in headers.items():
        if "ratelimit" in name and LIMIT_LEFT.fullmatch(name) and _seconds(left) == 0:
            reset = _moment_s(headers.get(name.replace("remaining", "reset")), now)
            if reset is not None:
                yield reset


def _moment_s(text: str | None, now: float) -> float | None:
    """Seconds from now, told as a duration, a number of seconds, or a moment."""
    if text is None:
        return None
    seconds = _seconds(text)
    if seconds is not None:
        return max(0.0, seconds - now) if seconds > A_YEAR_S else seconds
    parts = DURATION.fullmatch(text.strip())
    if parts is not None and any(parts.groups()):
        return sum(float(part) * unit for part, unit in zip(parts.groups(), DURATION_UNITS_S, strict=True) if part)
    try:
        return max(0.0, datetime.fromisoformat(text.strip()).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _seconds(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
