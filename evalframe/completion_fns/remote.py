"""
Talking to a model over HTTP.

Waiting is written once. What a provider does stands in a generator that never sleeps and never sends: it yields `Send` and `Wait` and is
told what came back. `drive` runs it on a thread; a driver for an event loop or a batch file runs the very same generator.

    OpenAIChatCompletionFn.exchange   what to send, how to read the answer
      └─ send_with_retries            again or not, and when (resilience/retry.py)
    drive                             does it, on a lane: Transport.send, time.sleep, and the slots of resilience/rates.py
"""

from __future__ import annotations

import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Generic, NoReturn, Protocol, TypeVar
from urllib.parse import urlsplit

from evalframe.core.completion import Completion, Reply, Send, Usage, Wait
from evalframe.core.errors import BadReply, CallFailed, ModelUnavailable, RequestRefused
from evalframe.core.prompts import Prompt
from evalframe.core.recorder import record_sampling_if_in_scope
from evalframe.core.scope import before_call, refuse_late, time_left_s, wait_for
from evalframe.core.secrets import MASK, names_secret
from evalframe.resilience.rates import Limiters, RateLimiter, Throttling
from evalframe.resilience.retry import RetryPolicy, is_retriable, retry_after_s
from evalframe.storage import json_text

T = TypeVar("T")

SHOWN_CHARACTERS = 200
"""How much of a body that cannot be read stands in a message."""
TO_DO = {
    401: "Check the API key, and that it belongs to this endpoint.",
    403: "Check what the API key may do, and whether this model is open to it.",
    404: "Check the model's name and the base URL (an OpenAI-compatible one mostly ends in /v1).",
    407: "Give the proxy's user and password in the proxy variable, or list the host in NO_PROXY.",
}
"""What helps against statuses that every sample would meet."""


class Sender(Protocol):
    """Whatever sends a request and waits for its reply."""

    def send(self, request: Send) -> Reply:
        """The reply, or a `Reply` that says why there is none."""
        ...


class Unreadable(Exception):
    """
    A good status with a body that is no answer.

    Args:
        reason: Why; one sentence without a full stop.
        usage: What it cost all the same, as far as it says.
    """

    def __init__(self, reason: str, usage: Usage | None = None) -> None:
        super().__init__(reason)
        self.usage = usage or Usage(unknown=1)


@dataclass(frozen=True)
class Patience:
    """
    How a call is tried again.

    Args:
        policy: When and how often.
        clock: Monotonic seconds.
        now: Seconds since 1970.
        rng: Spreads the waits.
    """

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    rng: Random = field(default_factory=Random)


@dataclass(frozen=True)
class Answered(Generic[T]):
    """
    What a call came to.

    Args:
        value: The good reply, read.
        tries: How many requests it took.
        lost: Tokens spent on replies that could not be read.
    """

    value: T
    tries: int
    lost: Usage | None = None


def send_with_retries(request: Send, read: Callable[[Reply], T], patience: Patience) -> Generator[Send | Wait, Reply | None, Answered[T]]:
    """
    Send until a reply can be read, or until patience ends.

    Args:
        request: What to send, each time.
        read: Reads a reply of status 2xx; raises `Unreadable` for one that is no answer, which is then tried again.
        patience: When and how often.

    Raises:
        ModelUnavailable: If the endpoint refuses the key or the model, or points elsewhere.
        RequestRefused: If it refuses this request.
        CallFailed: If all tries failed.
        BadReply: If they did, and the last reply could not be read.
    """
    began, tries, lost = patience.clock(), 0, None
    while True:
        reply = yield request
        assert reply is not None, "a driver answers each Send with a Reply"
        tries += 1
        unreadable: Unreadable | None = None
        if reply.fault is None and 200 <= reply.status <= 299:
            try:
                return Answered(read(reply), tries, lost)
            except Unreadable as error:
                unreadable = error
                lost = error.usage if lost is None else lost + error.usage
        elif reply.fault is None and not is_retriable(reply.status):
            refuse(request, reply)
        elapsed_s = patience.clock() - began
        hint_s = retry_after_s(reply.headers, now=patience.now())
        wait_s = patience.policy.wait_s(tries, elapsed_s=elapsed_s, hint_s=hint_s, rng=patience.rng)
        if wait_s is None:
            give_up(request, reply, unreadable, tries=tries, elapsed_s=elapsed_s)
        yield Wait(wait_s, cause(request, reply, unreadable))


def drive(exchange: Generator[Send | Wait, Reply | None, T], lane: Lane) -> T:
    """
    Run an exchange on this thread.

    Args:
        exchange: What a provider's generator function returned.
        lane: What sends, and waits.

    Raises:
        LimitReached: If the time of the sample in scope is over before the exchange is.
        RunStopped: If the run is stopped while it only waits.
    """
    reply: Reply | None = None
    is_new = True
    while True:
        try:
            step = exchange.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(step, Wait):
            wait_for(step.seconds, lane.sleep)
            reply = None
        else:
            reply, is_new = lane.send(step, is_new=is_new), False


@dataclass(frozen=True)
class Lane:
    """
    The way to one endpoint: one call at a time for each caller, and no more callers at once than the endpoint bears.

    Args:
        transport: Sends.
        limiter: Counts the calls under way.
        sleep: Waits some seconds.
        longest_hint_s: The most that is believed of what a server asks for.
    """

    transport: Sender
    limiter: RateLimiter
    sleep: Callable[[float], None] = time.sleep
    longest_hint_s: float = RetryPolicy.longest_hint_s

    def send(self, request: Send, *, is_new: bool = True) -> Reply:
        """
        Send when there is a slot; no longer than the sample in scope may take.

        Args:
            request: What to send.
            is_new: Whether this is the call's first try.

        Raises:
            LimitReached, RunStopped: As `drive`.
        """
        while wait_s := self.limiter.enter(is_new=is_new):
            self.limiter.waited(wait_s)
            wait_for(wait_s, self.sleep)
        limiter, sent_at, reply = self.limiter, self.limiter.now(), NO_REPLY
        left_s = time_left_s()
        is_cut = left_s is not None and left_s < request.timeout_s
        try:
            reply = self.transport.send(replace(request, timeout_s=max(left_s, SHORTEST_S)) if is_cut and left_s is not None else request)
        finally:
            hint_s = retry_after_s(reply.headers, now=time.time()) if reply.status in THROTTLING else None
            limiter.leave(
                sent_at=sent_at,
                complains=reply.status == 429 or hint_s is not None,
                hint_s=min(hint_s or 0.0, self.longest_hint_s),
                is_good=200 <= reply.status <= 299,
            )
        if is_cut and reply.timed_out:
            refuse_late()
        return reply


NO_REPLY = Reply(0)
SHORTEST_S = 0.001
"""The least time a call can be given."""
THROTTLING = frozenset({429, 503})
"""Statuses whose `Retry-After` holds for every caller: too many calls, or none for now."""
LIMITERS = Limiters()
"""Of this process: who asks the same endpoint with the same account shares its limiter, whichever run it belongs to."""


@dataclass(slots=True)
class RemoteCompletion(Completion):
    """
    A completion, and how it was asked for.

    Args:
        prompt: The messages as sent.
        options: The options as sent.
        tries: Requests that it took.
        refusals: What the model said in place of each answer, where the endpoint tells refusals apart.
    """

    prompt: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    tries: int = 1
    refusals: list[str | None] = field(default_factory=list)


RemoteExchange = Generator[Send | Wait, Reply | None, RemoteCompletion]


class RemoteCompletionFn(ABC):
    """
    Base of all that talk HTTP: a provider says in `exchange` what is sent and how the answer is read.

    Args:
        model: The model's name, as the endpoint knows it.
        max_connections: How many are kept open; one for each worker.
        patience: How a call that failed is tried again.
        sleep: Waits some seconds.
        limiters: Where the endpoint's limiter is found; that of this process if not given.
    """

    def __init__(
        self,
        model: str,
        *,
        max_connections: int = 10,
        patience: Patience | None = None,
        sleep: Callable[[float], None] = time.sleep,
        limiters: Limiters | None = None,
    ) -> None:
        self.model = model
        self.patience = patience or Patience()
        self._max_connections = max_connections
        self._sleep = sleep
        self._limiters = limiters or LIMITERS
        self._lane: Lane | None = None
        self._told_before = Throttling()
        self._transport: Sender | None = None
        self._lock = threading.Lock()

    @abstractmethod
    def exchange(self, prompt: Prompt, options: dict[str, Any]) -> RemoteExchange:
        """What to send, and how to read the answer, as a generator; `options` are those of this call."""

    def __call__(self, prompt: Prompt, **options: Any) -> RemoteCompletion:
        """
        Ask the model, on this thread, and record the answer for the sample in scope.

        Raises:
            CompletionFnError: If there is no answer.
        """
        before_call(prompt)
        completion = drive(self.exchange(prompt, options), self.lane)
        self.record(completion)
        return completion

    @property
    def lane(self) -> Lane:
        """The way to the endpoint."""
        if self._lane is None:
            limiter = self._limiters.of(*self.account())
            self._lane = Lane(self.transport, limiter, self._sleep, self.patience.policy.longest_hint_s)
            self._told_before = limiter.told
        return self._lane

    @abstractmethod
    def account(self) -> tuple[str, str]:
        """The endpoint's address, and what tells one account there from another."""

    def notices(self) -> list[str]:
        """What a person should know at the end of a run."""
        if self._lane is None:
            return []
        told = self._lane.limiter.told.since(self._told_before)
        if not told.times:
            return []
        waited = f"; others waited {told.waited_s:.0f} s for a slot in all" if told.waited_s >= 1 else ""
        return [f"{self.account()[0]} asked {told.times} times for fewer calls at once{waited}"]

    @property
    def transport(self) -> Sender:
        """The connections, made when the first is needed and shared by all threads."""
        if self._transport is None:
            with self._lock:
                if self._transport is None:
                    from evalframe.completion_fns.transport import Transport  # only now, since urllib3 takes long to import

                    self._transport = Transport(max_connections=self._max_connections)
        return self._transport

    def record(self, completion: RemoteCompletion) -> None:
        """Record an answer for the sample in scope; of many answers, each key holds a list."""
        kept: dict[str, Any] = {
            "reasoning": completion.reasoning,
            "tool_calls": completion.tool_calls,
            "refusal": completion.refusals,
        }
        extra = {key: one_or_all(values) for key, values in kept.items() if any(values)}
        if completion.model not in (None, self.model):
            extra["answered_by"] = completion.model
        if completion.options:
            extra["options"] = completion.options
        if completion.tries > 1:
            extra["tries"] = completion.tries
        record_sampling_if_in_scope(
            prompt=completion.prompt,
            sampled=one_or_all(completion.completions),
            model=self.model,
            usage=completion.usage.to_dict(),
            finish_reason=one_or_all(completion.finish_reasons),
            **extra,
        )


def one_or_all(values: list[Any]) -> Any:
    """The only value, or the list where there are many."""
    return values[0] if len(values) == 1 else values


def refuse(request: Send, reply: Reply) -> NoReturn:
    """
    Say that a status will not change.

    Raises:
        ModelUnavailable: If every sample would meet it.
        RequestRefused: If another request may fare better.
    """
    said = server_message(request, reply)
    told = f"{endpoint(request)} answers {reply.status}{f': {said}' if said else ''}."
    if 300 <= reply.status <= 399:
        there = masked(request, reply.headers.get("location", "somewhere else"))
        raise ModelUnavailable(f"{endpoint(request)} answers {reply.status} and points to {there}.", do="Set base_url to where it points.")
    if reply.status in TO_DO:
        raise ModelUnavailable(told, do=TO_DO[reply.status])
    raise RequestRefused(told)


def give_up(request: Send, reply: Reply, unreadable: Unreadable | None, *, tries: int, elapsed_s: float) -> NoReturn:
    """
    Say why the last try failed, and how many there were.

    Raises:
        BadReply: If the last reply could not be read.
        CallFailed: If it was none, or an error.
    """
    often = f"{tries} time{'s' if tries > 1 else ''} in {elapsed_s:.1f} s"
    if unreadable is not None:
        start = masked(request, reply.body[: 4 * SHOWN_CHARACTERS].decode("utf-8", "replace"))[:SHOWN_CHARACTERS]
        raise BadReply(
            f"{endpoint(request)} answered {often} what cannot be read, the last time because {unreadable}. Its body begins: {start!r}.",
            do="Check that the base URL is that of an OpenAI-compatible endpoint." if start.lstrip().startswith("<") else (),
        )
    do = "Raise timeout_s (EVALS_THREAD_TIMEOUT) if the model needs longer." if reply.timed_out else ()
    raise CallFailed(f"{endpoint(request)} failed {often}. The last time: {cause(request, reply, None)}.", do=do)


def cause(request: Send, reply: Reply, unreadable: Unreadable | None) -> str:
    """Why a try failed: one sentence without a full stop."""
    if unreadable is not None:
        return str(unreadable)
    if reply.fault is not None:
        return reply.fault
    said = server_message(request, reply)
    return f"status {reply.status}{f': {said}' if said else ''}"


def endpoint(request: Send) -> str:
    """The URL of a request as it may be shown: without userinfo and query."""
    parts = urlsplit(request.url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def server_message(request: Send, reply: Reply) -> str:
    """What the server says of an error in its body, in one line without a full stop; "" if it says nothing."""
    text = reply.body[: 1 << 16].decode("utf-8", "replace")
    try:
        said: Any = json_text.loads(text)
    except (ValueError, RecursionError):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        said = title[1] if title else text
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(name):
            said = said[name]
    told = said if isinstance(said, str) else json_text.dumps(said).decode("utf-8")
    return masked(request, " ".join(told.split()))[: 2 * SHOWN_CHARACTERS].rstrip(". ")


def masked(request: Send, text: str) -> str:
    """A text without the keys that the request was sent with: some servers repeat them."""
    for name, value in request.headers.items():
        if names_secret(name):
            text = text.replace(value.split()[-1] if value.split() else "\0", MASK)
    return text
