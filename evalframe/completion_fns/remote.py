"""
Talking to a model over HTTP.

Waiting is written once. What a provider does stands in a generator that never sleeps and never sends: it yields `Send` and `Wait` and is
told what came back. `drive` runs it on a thread; a driver for an event loop or a batch file runs the very same generator.

    OpenAIChatCompletionFn.exchange   what to send, how to read the answer
      └─ send_with_retries            again or not, and when (resilience/retry.py)
    drive                             does it: Transport.send, time.sleep
"""

from __future__ import annotations

import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, NoReturn, Protocol, TypeVar
from urllib.parse import urlsplit

from evalframe.core.completion import Completion, Reply, Send, Usage, Wait
from evalframe.core.errors import BadReply, CallFailed, ModelUnavailable, RequestRefused
from evalframe.core.prompts import Prompt
from evalframe.core.recorder import note_waiting, record_sampling_if_in_scope
from evalframe.core.secrets import MASK, names_secret
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


def drive(exchange: Generator[Send | Wait, Reply | None, T], transport: Sender, sleep: Callable[[float], None]) -> T:
    """
    Run an exchange on this thread.

    Args:
        exchange: What a provider's generator function returned.
        transport: Sends.
        sleep: Waits some seconds; they are booked as waiting, not working, for the sample in scope.
    """
    reply: Reply | None = None
    while True:
        try:
            step = exchange.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(step, Wait):
            sleep(step.seconds)
            note_waiting(step.seconds)
            reply = None
        else:
            reply = transport.send(step)


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
    """

    def __init__(
        self,
        model: str,
        *,
        max_connections: int = 10,
        patience: Patience | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.model = model
        self.patience = patience or Patience()
        self._max_connections = max_connections
        self._sleep = sleep
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
        completion = drive(self.exchange(prompt, options), self.transport, self._sleep)
        self.record(completion)
        return completion

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
