"""
Recorded replies in place of an endpoint: a test asks a model once, and from then on the file.

A cassette is a JSONL file, one exchange a line, in the order in which they ended:

    {"request": {"method": "POST", "url": "https://host/v1/chat/completions", "body": {...}},
     "reply": {"status": 200, "headers": {...}, "body": {...}}}

Covers: several equal requests, each answered in its turn and the last one again and again; faults of the network; threads and event loops.
Keys never get in: of a request no header is written, of a URL no query, and whatever a key is is replaced by *** in both bodies.
Does not cover: requests that differ in a single character from those that were recorded; they are told, and nobody is asked.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalframe.completion_fns.calls import endpoint, masked
from evalframe.completion_fns.lane import AsyncSender, Sender, Senders
from evalframe.core.completion import Reply, Send
from evalframe.core.errors import BadSetting, CallFailed
from evalframe.storage import json_text

KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "location")
"""Headers of a reply that are written, beside those that tell of rate limits."""


class Cassette:
    """
    Plays a cassette, or makes one where there is none; see `Senders`.

    Args:
        path: The file.
        senders: Who is asked while it is made.

    Raises:
        BadSetting: If it cannot be read.
    """

    def __init__(self, path: str | Path, senders: Senders) -> None:
        self.path = Path(path).expanduser().absolute()
        self._senders = senders
        self._lock = threading.Lock()
        self._replies: dict[str, list[Reply]] = defaultdict(list)
        self.plays = self.path.is_file()
        if self.plays:
            self._read()

    @property
    def on_thread(self) -> Sender:
        """For threads."""
        return OnThread(self)

    @property
    def on_event_loop(self) -> AsyncSender:
        """For event loops."""
        return OnEventLoop(self)

    def reply_to(self, request: Send) -> Reply:
        """
        The next recorded reply.

        Raises:
            CallFailed: If there is none.
        """
        with self._lock:
            replies = self._replies.get(key_of(told_request(request)))
            if not replies:
                raise CallFailed(
                    f"the cassette {self.path} holds no reply to this request ({request.method} {endpoint(request)}).",
                    do="Delete the file to record it anew.",
                )
            return replies.pop(0) if len(replies) > 1 else replies[0]

    def keep(self, request: Send, reply: Reply) -> None:
        """
        Write an exchange.

        Raises:
            BadSetting: If it cannot be written.
        """
        line = json_text.dumps({"request": told_request(request), "reply": told_reply(request, reply)}) + b"\n"
        try:
            with self._lock:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("ab") as file:
                    file.write(line)
        except OSError as error:
            raise BadSetting(f"cannot write the cassette {self.path}: {error.strerror or error}.") from error

    def send_on_thread(self, request: Send) -> Reply:
        """Play, or ask and write."""
        if self.plays:
            return self.reply_to(request)
        reply = self._senders.on_thread.send(request)
        self.keep(request, reply)
        return reply

    async def send_on_event_loop(self, request: Send) -> Reply:
        """Likewise."""
        if self.plays:
            return self.reply_to(request)
        reply = await self._senders.on_event_loop.send(request)
        self.keep(request, reply)
        return reply

    def _read(self) -> None:
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError as error:
            raise BadSetting(f"cannot read the cassette {self.path}: {error.strerror or error}.") from error
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                told = json_text.loads(line)
                self._replies[key_of(told["request"])].append(read_reply(told["reply"]))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise BadSetting(
                    f"{self.path}:{number} is no exchange of a cassette ({type(error).__name__}: {error}).",
                    do="Delete the file to record it anew.",
                ) from error


@dataclass(frozen=True)
class OnThread:
    """A cassette, for threads."""

    cassette: Cassette

    def send(self, request: Send) -> Reply:
        """See `Sender`."""
        return self.cassette.send_on_thread(request)


@dataclass(frozen=True)
class OnEventLoop:
    """A cassette, for event loops."""

    cassette: Cassette

    async def send(self, request: Send) -> Reply:
        """See `AsyncSender`."""
        return await self.cassette.send_on_event_loop(request)


def told_request(request: Send) -> dict[str, Any]:
    """A request as it is written."""
    return {"method": request.method, "url": endpoint(request), "body": told_body(request, request.body)}


def told_reply(request: Send, reply: Reply) -> dict[str, Any]:
    """A reply as it is written."""
    headers = {name: masked(request, value) for name, value in reply.headers.items() if name in KEPT_HEADERS or "ratelimit" in name}
    told: dict[str, Any] = {"status": reply.status, "headers": headers, "body": told_body(request, reply.body)}
    faults = {"fault": reply.fault and masked(request, reply.fault), "timed_out": reply.timed_out, "is_final": reply.is_final}
    return told | {name: value for name, value in faults.items() if value}


def told_body(request: Send, body: bytes) -> Any:
    """A body as it is written: JSON as such, anything else as text; keys in it are masked."""
    text = masked(request, body.decode("utf-8", "replace"))
    try:
        return json_text.loads(text)
    except (ValueError, RecursionError):
        return text


def read_reply(told: Mapping[str, Any]) -> Reply:
    """A reply that was written."""
    body = told.get("body", "")
    raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else json_text.dumps(body)
    fault = told.get("fault")
    return Reply(
        int(told.get("status", 0)),
        {str(name).lower(): str(value) for name, value in dict(told.get("headers") or {}).items()},
        raw,
        str(fault) if fault else None,
        bool(told.get("timed_out")),
        bool(told.get("is_final")),
    )


def key_of(told: Mapping[str, Any]) -> str:
    """What two requests must have in common to be the same."""
    return json_text.dumps([told.get("method", "POST"), told["url"], in_order(told.get("body"))]).decode("utf-8")


def in_order(value: Any) -> Any:
    """A JSON value with all names sorted."""
    if isinstance(value, Mapping):
        return {name: in_order(value[name]) for name in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value
