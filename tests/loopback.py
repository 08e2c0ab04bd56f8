"""
A model server on the loopback interface that answers as its test wants: real sockets, real HTTP, scripted replies.

    with ModelStub(lambda number, body: said("Paris")) as stub:
        model = OpenAIChatCompletionFn("any", base_url=stub.base_url)
        ...
        assert stub.bodies[0]["temperature"] == 0.5

An answer is whatever the function given returns for the n-th request (from 1) and its JSON body: an `Answer`, or a tuple
(status, headers, body). As a proxy it answers itself, and records the whole URL as the path.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


@dataclass(frozen=True)
class Answer:
    """
    What the stub sends.

    Args:
        status: HTTP status.
        headers: Beside content-type and content-length, which are added.
        body: Bytes.
        delay_s: Seconds of silence before the first byte.
        trickle_s: Seconds before each single byte, headers too; 0 sends all at once.
        cut_after: So many bytes of the body are sent, and the connection is closed.
        reset: Whether it is then reset instead.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay_s: float = 0.0
    trickle_s: float = 0.0
    cut_after: int | None = None
    reset: bool = False


def chat(*messages: Mapping[str, Any] | None, finish_reason: str = "stop", **rest: Any) -> bytes:
    """The body of a chat completion: one choice for each message; `rest` replaces or adds keys, a value of ... takes one away."""
    choices = [{"index": index, "message": message, "finish_reason": finish_reason} for index, message in enumerate(messages)]
    body = {"id": "x", "object": "chat.completion", "model": "stub-1", "choices": choices, "usage": USAGE, **rest}
    return json.dumps({key: value for key, value in body.items() if value is not ...}).encode()


def said(*texts: str | None, **rest: Any) -> Answer:
    """A chat completion that says these texts, as so many choices."""
    return Answer(body=chat(*({"role": "assistant", "content": text} for text in texts), **rest))


def refused(status: int, message: str = "no", headers: Mapping[str, str] | None = None, **error: Any) -> Answer:
    """An error as OpenAI spells it."""
    return Answer(status, headers or {}, json.dumps({"error": {"message": message, **error}}).encode())


class ModelStub:
    """
    A server in a thread, on a free port, from `with` to the end of the block.

    Args:
        answer: The answer to the n-th request with this body (None where it is not JSON).

    Attributes:
        base_url: http://127.0.0.1:PORT/v1
        paths, headers, bodies: Of each request, in the order of arrival; header names in lower case.
        connections: How many were opened.
    """

    def __init__(self, answer: Callable[[int, Any], Answer | tuple[int, Mapping[str, str], bytes]]) -> None:
        self.answer = answer
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[Any] = []
        self.connections = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_address[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"

    @property
    def count(self) -> int:
        """Requests so far."""
        return len(self.bodies)

    def __enter__(self) -> ModelStub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def _note(self, path: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, Any]:
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        with self._lock:
            self.paths.append(path)
            self.headers.append({name.lower(): value for name, value in headers.items()})
            self.bodies.append(body)
            return len(self.bodies), body

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                with stub._lock:
                    stub.connections += 1
                super().setup()

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                raw = self.rfile.read(length)
                if len(raw) < length:
                    return  # the client was killed in the middle of its request
                answer = stub.answer(*stub._note(self.path, self.headers, raw))
                with contextlib.suppress(OSError):  # the client may have gone
                    self.reply(answer if isinstance(answer, Answer) else Answer(*answer))

            do_GET = do_POST  # noqa: N815 - the name that the standard library looks for

            def reply(self, answer: Answer) -> None:
                headers = {"content-type": "application/json", "content-length": str(len(answer.body)), **answer.headers}
                head = f"HTTP/1.1 {answer.status} Stub\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
                stub._stopping.wait(answer.delay_s)
                sent = head.encode("latin-1") + answer.body[: answer.cut_after]
                for piece in [sent[index : index + 1] for index in range(len(sent))] if answer.trickle_s else [sent]:
                    if answer.trickle_s and stub._stopping.wait(answer.trickle_s):
                        break
                    self.wfile.write(piece)
                if answer.reset:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if answer.reset or answer.cut_after is not None:
                    self.close_connection = True
                    if answer.reset:
                        self.connection.close()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A client that went away is what a test wanted."""


def free_port() -> int:
    """A port that nobody listens on, and that nobody else gets until the process ends."""
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    port = int(probe.getsockname()[1])
    probe.detach()  # stays bound: else a connection to it might get it for its own end, and reach itself
    return port
