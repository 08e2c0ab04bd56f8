"""
One call over HTTP, from its first try to an answer or to the reason why there is none.

A generator that never sleeps and never sends: it yields `Send` and `Wait` and is told what came back. A lane (lane.py) does what it wants.

Covers: what may pass is tried again (resilience/retry.py says when); what will not pass is told at once, in the server's own words and
without its keys; errors that come with a good status; accounts without money; certificates that are not trusted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from json import JSONDecodeError
from random import Random
from typing import Any, Generic, NoReturn, TypeVar
from urllib.parse import urlsplit

from evalframe.completion_fns.lane import hint_of
from evalframe.core.completion import Reply, Send, Usage, Wait
from evalframe.core.errors import BadReply, CallFailed, ModelUnavailable, RequestRefused
from evalframe.core.secrets import MASK, in_query, names_secret
from evalframe.resilience.retry import RetryPolicy, is_retriable
from evalframe.storage import json_text

T = TypeVar("T")

SHOWN_CHARACTERS = 200
"""How much of a body that cannot be read stands in a message."""
UTF8_BOM = b"\xef\xbb\xbf"
ENOUGH_TRIES = 2
"""After so many, a reply that is whole and says nothing is taken for the answer."""
TO_DO = {
    401: "Check the API key, and that it belongs to this endpoint.",
    402: "The account has no money left: top it up, or use another key.",
    403: "Check what the API key may do, and whether this model is open to it.",
    404: "Check the model's name and the base URL (an OpenAI-compatible one mostly ends in /v1).",
    407: "Give the proxy's user and password in the proxy variable, or list the host in NO_PROXY.",
}
"""What helps against statuses that every sample would meet."""
SHORTEST_SECRET = 8
"""Characters of a header's value that may be a key; a shorter one may be any word, and would take words out of messages."""
TOO_MANY = 429
PAYMENT_REQUIRED = 402
NO_MONEY = re.compile(
    r"insufficient_quota|insufficient[ _]balance|insufficient[ _]credits|billing_hard_limit"
    r"|credit balance is too low|exceeded your current quota",
    re.IGNORECASE,
)
"""How endpoints say with another status that an account has no money left (OpenAI: 429, Anthropic: 400, seen 2026-12-01)."""


class Unreadable(Exception):
    """
    A good status with a body that is no answer.

    Args:
        reason: Why; one sentence without a full stop.
        usage: What it cost all the same, as far as it says.
        instead: What to take for the answer if it comes again: of a reply that is whole, and says nothing.
    """

    def __init__(self, reason: str, usage: Usage | None = None, instead: Any = None) -> None:
        super().__init__(reason)
        self.usage = usage or Usage(unknown=1)
        self.instead = instead


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


def send_with_retries(
    request: Send, read: Callable[[Reply], T], patience: Patience, refused: Callable[[Reply], T | None] = lambda reply: None
) -> Generator[Send | Wait, Reply | None, Answered[T]]:
    """
    Send until a reply can be read, or until patience ends.

    Args:
        request: What to send, each time.
        read: Reads a reply of status 2xx; raises `Unreadable` for one that is no answer, which is then tried again.
        patience: When and how often.
        refused: Looks at a status that will not change: gives the answer that it amounts to, or None to have it told as an error, or
            raises whatever its caller knows to mend.

    Raises:
        ModelUnavailable: If the endpoint refuses the key or the model, or points elsewhere.
        RequestRefused: If it refuses this request.
        CallFailed: If all tries failed.
        BadReply: If they did, and the last reply could not be read.
    """
    began, tries, queued_s, lost = patience.clock(), 0, 0.0, None
    while True:
        reply = yield request
        assert reply is not None, "a driver answers each Send with a Reply"
        tries += 1
        queued_s += reply.queued_s
        reply = as_it_means(reply)
        unreadable: Unreadable | None = None
        if reply.fault is None and 200 <= reply.status <= 299:
            try:
                return Answered(read(reply), tries, lost)
            except Unreadable as error:
                if error.instead is not None and tries >= ENOUGH_TRIES:
                    return Answered(error.instead, tries, lost)
                unreadable = error
                lost = error.usage if lost is None else lost + error.usage
        elif reply.is_final or (reply.fault is None and (not is_retriable(reply.status) or has_no_money(reply))):
            answer = None if reply.is_final else refused(reply)
            if answer is None:
                refuse(request, reply)
            return Answered(answer, tries, lost)
        elapsed_s = patience.clock() - began - queued_s
        hint_s = hint_of(reply, now=patience.now()) if not 200 <= reply.status <= 299 else None
        wait_s = patience.policy.wait_s(tries, elapsed_s=elapsed_s, hint_s=hint_s, rng=patience.rng)
        if wait_s is None:
            give_up(request, reply, unreadable, tries=tries, elapsed_s=elapsed_s)
        yield Wait(wait_s, cause(request, reply, unreadable), is_firm=hint_s is not None or reply.status == TOO_MANY)


def as_it_means(reply: Reply) -> Reply:
    """A reply with the status it means: some gateways say 200 and put the error into the body, with its status as `error.code`."""
    if reply.status != 200 or b'"error"' not in reply.body[:4096] or b'"choices"' in reply.body:
        return reply
    raw = json_or_none(reply)
    error = raw.get("error") if isinstance(raw, dict) else None
    status = error.get("code") if isinstance(error, dict) else None
    if isinstance(status, str) and status.isdecimal():
        status = int(status)
    return replace(reply, status=status) if isinstance(status, int) and 400 <= status <= 599 else reply


def has_no_money(reply: Reply) -> bool:
    """Whether an error means that the account has no money left, which no waiting changes."""
    return reply.status == PAYMENT_REQUIRED or (reply.status in (400, 403, 429) and bool(NO_MONEY.search(text_of_body(reply))))


def refuse(request: Send, reply: Reply) -> NoReturn:
    """
    Say that a status will not change.

    Raises:
        ModelUnavailable: If every sample would meet it.
        RequestRefused: If another request may fare better.
    """
    if reply.fault is not None:
        raise ModelUnavailable(
            f"{endpoint(request)}: {masked(request, reply.fault)}.",
            do="Trust a certificate of your own by SSL_CERT_FILE=FILE, or check the address and this machine's clock.",
        )
    said = server_message(request, reply)
    told = f"{endpoint(request)} answers {reply.status}{f': {said}' if said else ''}."
    if 300 <= reply.status <= 399:
        there = masked(request, reply.headers.get("location", "somewhere else"))
        raise ModelUnavailable(f"{endpoint(request)} answers {reply.status} and points to {there}.", do="Set base_url to where it points.")
    if has_no_money(reply):
        raise ModelUnavailable(told, do=TO_DO[PAYMENT_REQUIRED])
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
            f"{endpoint(request)} answered {often} what cannot be read, the last time because {masked(request, str(unreadable))}. "
            f"Its body begins: {start!r}.",
            do="Check that the base URL is that of the model's endpoint." if start.lstrip().startswith("<") else (),
        )
    do = "Raise timeout_s (EVALS_THREAD_TIMEOUT) if the model needs longer." if reply.timed_out else ()
    raise CallFailed(f"{endpoint(request)} failed {often}. The last time: {cause(request, reply, None)}.", do=do)


def cause(request: Send, reply: Reply, unreadable: Unreadable | None) -> str:
    """Why a try failed: one sentence without a full stop."""
    if unreadable is not None:
        return masked(request, str(unreadable))
    if reply.fault is not None:
        return masked(request, reply.fault)
    said = server_message(request, reply)
    return f"status {reply.status}{f': {said}' if said else ''}"


def endpoint(request: Send) -> str:
    """The URL of a request as it may be shown: without userinfo and query."""
    parts = urlsplit(request.url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def server_message(request: Send, reply: Reply) -> str:
    """What the server says of an error in its body, in one line without a full stop; "" if it says nothing."""
    text = text_of_body(reply)
    try:
        said: Any = json_text.loads(text)
    except (ValueError, RecursionError):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        said = title[1] if title else text
    if isinstance(said, list) and len(said) == 1:  # Gemini wraps its errors in a list
        said = said[0]
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(name):
            said = said[name]
    told = said if isinstance(said, str) else json_text.dumps(said).decode("utf-8")
    return masked(request, " ".join(told.split()))[: 2 * SHOWN_CHARACTERS].rstrip(". ")


def text_of_body(reply: Reply) -> str:
    """The beginning of a body, as text."""
    return reply.body[: 1 << 16].decode("utf-8", "replace")


def json_or_none(reply: Reply) -> Any:
    """A body as JSON; None where it is none."""
    try:
        return json_text.loads(reply.body.removeprefix(UTF8_BOM))
    except (JSONDecodeError, UnicodeDecodeError, RecursionError):
        return None


def json_of(reply: Reply) -> dict[str, Any]:
    """
    The JSON object that a body holds.

    Raises:
        Unreadable: If it holds none.
    """
    try:
        raw = json_text.loads(reply.body.removeprefix(UTF8_BOM))
    except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        web_page = reply.body[:512].lstrip().lower().startswith((b"<!doctype", b"<html"))
        raise Unreadable("it is a web page" if web_page else "it is empty" if not reply.body.strip() else "it is not JSON") from error
    if not isinstance(raw, dict):
        raise Unreadable("it is no JSON object")
    return raw


def masked(request: Send, text: str) -> str:
    """A text without the keys that the request was sent with: some servers repeat them."""
    for name, value in request.headers.items():
        if names_secret(name) or (value in request.secrets and len(value) >= SHORTEST_SECRET):
            pieces = [piece for piece in re.split(r"[\s;,=]+", value) if len(piece) >= SHORTEST_SECRET]
            for piece in sorted({value, *value.split()[-1:], *pieces}, key=len, reverse=True):
                text = text.replace(piece, MASK) if piece else text
    for value in in_query(request.url):
        text = text.replace(value, MASK)
    return text
