"""
The way to one endpoint: no more calls at once than it bears, none past the time of its sample, on a thread or on an event loop.

The order of things is written once, as steps (core/steps.py); what is waited for are two things only: a pause, and a reply.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, cast

from evalframe.core.completion import Reply, Send, Wait
from evalframe.core.scope import await_for, refuse_late, time_left_s, wait_for
from evalframe.core.steps import Steps
from evalframe.resilience.rates import Limiters, RateLimiter
from evalframe.resilience.retry import RetryPolicy, asked_to_wait_s

T = TypeVar("T")

logger = logging.getLogger("evalframe")

NO_REPLY = Reply(0)
SHORTEST_S = 0.001
"""The least time a call can be given."""
THROTTLING = frozenset({429, 503, 529})
"""Statuses whose `Retry-After` holds for every caller: too many calls, or none for now."""
RETRY_DELAY = re.compile(rb'"retryDelay"\s*:\s*"(\d{1,9}(?:\.\d{1,9})?)s"')
"""google.rpc.RetryInfo in an error of Gemini's."""
SOON_S = 1.0
"""The least wait before another try where the endpoint has answered somebody else meanwhile."""
LOOK_S = 0.25
"""How often it is looked up whether it has."""
LONGEST_ERROR = 1 << 14
LIMITERS = Limiters()
"""Of this process: who asks the same endpoint with the same account shares its limiter, whichever run it belongs to."""


class Sender(Protocol):
    """Whatever sends a request and waits for its reply, on the thread that asks."""

    def send(self, request: Send) -> Reply:
        """The reply, or a `Reply` that says why there is none."""
        ...


class AsyncSender(Protocol):
    """Whatever sends a request as a part of a task."""

    async def send(self, request: Send) -> Reply:
        """The reply, or a `Reply` that says why there is none."""
        ...


class Senders(Protocol):
    """Both ways to send; each is made when it is first needed, since the libraries under them take long to import."""

    @property
    def on_thread(self) -> Sender:
        """For threads."""
        ...

    @property
    def on_event_loop(self) -> AsyncSender:
        """For event loops."""
        ...


@dataclass(frozen=True, slots=True)
class Pause:
    """
    A step: seconds in which others do what they can; booked as waiting for the sample in scope.

    Args:
        seconds: How long.
        sleep: Waits, where no sample with limits is in scope.
    """

    seconds: float
    sleep: Callable[[float], None]

    def wait(self) -> None:
        """Wait; raises as `wait_for`."""
        wait_for(self.seconds, self.sleep)

    async def awaited(self) -> None:
        """Likewise."""
        await await_for(self.seconds)


@dataclass(frozen=True, slots=True)
class Exchange:
    """
    A step: a request goes out, its reply comes in.

    Args:
        senders: Who sends.
        request: What.
    """

    senders: Senders
    request: Send

    def wait(self) -> Reply:
        """The reply."""
        return self.senders.on_thread.send(self.request)

    async def awaited(self) -> Reply:
        """The reply."""
        return await self.senders.on_event_loop.send(self.request)


@dataclass
class Lane:
    """
    The way to one endpoint: one call at a time for each caller, and no more callers at once than the endpoint bears.

    Args:
        senders: Who sends.
        limiter: Counts the calls under way.
        sleep: Waits some seconds.
        longest_hint_s: The most that is believed of what a server asks for.
    """

    senders: Senders
    limiter: RateLimiter
    sleep: Callable[[float], None] = time.sleep
    longest_hint_s: float = RetryPolicy.longest_hint_s
    _is_known: bool = False

    def run(self, exchange: Generator[Send | Wait, Reply | None, T]) -> Steps[T]:
        """
        Do what a provider's exchange wants done, and return what it comes to.

        Raises:
            LimitReached: If the time of the sample in scope is over before the exchange is.
            RunStopped: If the run is stopped while it only waits.
        """
        reply: Reply | None = None
        has_waited = False
        while True:
            try:
                want = exchange.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(want, Wait):
                self._tell_once(want)
                yield from self.pause(want)
                reply = None
            else:
                reply = yield from self.send(want, has_waited=has_waited)
                has_waited = reply.status in THROTTLING

    def pause(self, want: Wait) -> Steps[None]:
        """Wait before another try; where the endpoint has not asked for it, only until it has answered somebody else."""
        began, left_s = self.limiter.now(), want.seconds
        next_s = left_s if want.is_firm else min(left_s, SOON_S)
        while left_s > 0:
            yield Pause(next_s, self.sleep)
            left_s -= next_s
            next_s = min(left_s, LOOK_S)
            if self.limiter.has_answered_since(began):
                return

    def _tell_once(self, want: Wait) -> None:
        """Say why the first call has to be tried again, while nobody knows yet whether the endpoint is there at all."""
        if not self._is_known:
            self._is_known = True
            logger.info("%s: tried again", want.reason)

    def send(self, request: Send, *, has_waited: bool = False) -> Steps[Reply]:
        """
        Send when there is a slot; no longer than the sample in scope may take.

        Args:
            request: What to send.
            has_waited: Whether the endpoint's last word to this call was to wait, and it has.

        Raises:
            LimitReached, RunStopped: As `run`.
        """
        limiter, reply = self.limiter, NO_REPLY
        queued_s = 0.0
        while wait_s := limiter.enter(has_waited=has_waited):
            began = limiter.now()
            yield Pause(wait_s, self.sleep)
            waited_s = limiter.now() - began
            limiter.waited(waited_s)
            queued_s += waited_s
        sent_at = limiter.now()
        try:
            left_s = time_left_s()
            is_cut = left_s is not None and left_s < request.timeout_s
            if left_s is not None and is_cut:
                request = replace(request, timeout_s=max(left_s, SHORTEST_S))
            reply = cast("Reply", (yield Exchange(self.senders, request)))
        finally:
            hint_s = hint_of(reply, now=time.time()) if reply.status in THROTTLING else None
            limiter.leave(
                sent_at=sent_at,
                complains=reply.status == 429 or hint_s is not None,
                hint_s=min(hint_s or 0.0, self.longest_hint_s),
                is_good=200 <= reply.status <= 299,
            )
            self._is_known = self._is_known or 200 <= reply.status <= 299
        if is_cut and reply.timed_out:
            refuse_late()
        return replace(reply, queued_s=queued_s) if queued_s else reply


def hint_of(reply: Reply, *, now: float) -> float | None:
    """Seconds that an endpoint asks to wait: in its headers, or in the body of an error as Google spells it; None where it does not."""
    told = asked_to_wait_s(reply.headers, now=now)
    if told is not None or reply.status not in THROTTLING:
        return told
    found = RETRY_DELAY.search(reply.body[:LONGEST_ERROR])
    return float(found[1]) if found else None
