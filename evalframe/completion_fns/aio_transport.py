"""
Send a request and wait for its reply as a task of an event loop, over connections that are kept open and shared by all of its tasks.

Covers what transport.py covers for threads, in the same words: a wall-clock limit for each exchange that also holds when bytes trickle; its
own limit for connecting; proxies and certificates that the environment names; replies of any length up to `LARGEST_BODY_BYTES`. A fault of
the network is a `Reply` that names it, never an exception.
Does not cover: redirects, SOCKS proxies, and a limit on how many connections there are; who asks is bounded by the number of tasks.

Stands on aiohttp (extra `async`). Each event loop has connections of its own, which are closed with it.
"""

from __future__ import annotations

import asyncio
import errno
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from typing import Any
from urllib.parse import urlsplit

from evalframe.completion_fns.transport import (
    CONNECT_S,
    LARGEST_BODY_BYTES,
    address,
    certificates,
    is_untrusted,
    proxy_of,
    refused_by,
    shown_proxy,
)
from evalframe.core.completion import Reply, Send
from evalframe.core.errors import BadSetting, MissingExtra

try:
    import aiohttp
    from yarl import URL
except ImportError as missing:
    raise MissingExtra.named("asking models on an event loop", library="aiohttp", extra="async") from missing

CHUNK_BYTES = 1 << 18
LONGEST_TOLD = 100
"""Characters of what the library says of a reply that is none."""


class AioTransport:
    """Connections that are kept open, for each event loop its own."""

    def __init__(self) -> None:
        self._sessions: dict[asyncio.AbstractEventLoop, Session] = {}

    async def send(self, request: Send) -> Reply:
        """
        Send, and wait for the whole reply.

        Raises:
            BadSetting: If a variable names certificates that are not there, or a proxy that cannot be used.
        """
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = Session(lambda: self._sessions.pop(loop, None))
            await session.open()
        return await session.send(request)

    async def close(self) -> None:
        """Close the connections of the running loop."""
        session = self._sessions.get(asyncio.get_running_loop())
        if session is not None:
            await session.close()


class Session:
    """
    The connections of one event loop.

    Args:
        closed: Called when they are closed.
    """

    def __init__(self, closed: Callable[[], object]) -> None:
        self._closed = closed
        self._routes: dict[str, Route] = {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S),
            trust_env=False,
        )
        self._closing = self._until_the_loop_ends()

    async def open(self) -> None:
        """Begin; the loop is told to close the connections when it ends."""
        await anext(self._closing)

    async def close(self) -> None:
        """Close all connections."""
        await self._closing.aclose()

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """Closed with whatever else the loop still has to close: `asyncio.run` closes the async generators that were begun in it."""
        try:
            yield
        finally:
            self._closed()
            await self._session.close()

    async def send(self, request: Send) -> Reply:
        """See `AioTransport`."""
        route = self._routes.get(request.url) or self._find_route(request.url)
        try:
            async with (
                asyncio.timeout(request.timeout_s) as limit,
                self._session.request(
                    request.method,
                    route.url,
                    data=request.body,
                    headers={**request.headers, **route.own_headers} if route.own_headers else request.headers,
                    allow_redirects=False,
                    proxy=route.proxy_url,
                    proxy_headers=route.proxy_headers,
                    ssl=route.ssl,
                ) as response,
            ):
                body = await read_body(response)
        except TooLong:
            return Reply(0, fault=f"the reply of {address(request.url)} is longer than {LARGEST_BODY_BYTES >> 20} MiB")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return fault(error, request, route, is_late=limit.expired())
        if response.status == 407 and route.proxy is not None:
            return refused_by(route.proxy)
        return Reply(response.status, {name.lower(): value for name, value in response.headers.items()}, body)

    def _find_route(self, url: str) -> Route:
        route = self._routes[url] = Route(url)
        return route


class Route:
    """
    How a URL is reached.

    Args:
        url: The URL.

    Raises:
        BadSetting: If the environment names a proxy that cannot be used here, or certificates that are not there.
    """

    def __init__(self, url: str) -> None:
        self.url = URL(url, encoded=True)
        self.proxy = proxy_of(url)
        self.proxy_url: URL | None = None
        self.proxy_headers: dict[str, str] | None = None
        self.own_headers: dict[str, str] = {}
        if self.proxy is not None:
            if self.proxy.startswith("socks"):
                raise BadSetting(
                    f"The proxy {shown_proxy(self.proxy)} is a SOCKS proxy, which event loops cannot go through.",
                    do="Leave out --executor coroutines, or list the host in NO_PROXY.",
                )
            proxy = URL(self.proxy)
            if proxy.user is not None:
                userinfo = b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode("ascii")
                told = {"proxy-authorization": f"Basic {userinfo}"}
                if self.url.scheme == "https":
                    self.proxy_headers = told  # to the proxy alone, which opens a tunnel
                else:
                    self.own_headers = told
            self.proxy_url = proxy.with_user(None)
        is_secure = "https" in (urlsplit(url).scheme, urlsplit(self.proxy or "").scheme)
        self.ssl: Any = certificates() if is_secure else True


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """
    The whole body of a response.

    Raises:
        TooLong: If it is longer than `LARGEST_BODY_BYTES`.
    """
    if (response.content_length or 0) <= CHUNK_BYTES and response.content_length is not None:
        return await response.read()
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST_BODY_BYTES:
            response.close()
            raise TooLong
    return b"".join(chunks)


class TooLong(Exception):
    """A reply that is longer than any answer."""


def fault(error: Exception, request: Send, route: Route, *, is_late: bool) -> Reply:
    """What went wrong on the network, as a reply."""
    whom = address(request.url)
    through = shown_proxy(route.proxy) if route.proxy is not None else ""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        if error.status == 407:
            return refused_by(route.proxy or "")
        return Reply(0, fault=f"no way through the proxy {through}: it answers {error.status}")
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        told, timed_out = reason(error, through, request.timeout_s, is_late=is_late)
        return Reply(0, fault=f"no way through the proxy {through}: {told}", timed_out=timed_out, is_final=is_untrusted(error))
    told, timed_out = reason(error, f"{whom} (through the proxy {through})" if through else whom, request.timeout_s, is_late=is_late)
    return Reply(0, fault=told, timed_out=timed_out, is_final=is_untrusted(error))


def reason(error: Exception, whom: str, timeout_s: float, *, is_late: bool) -> tuple[str, bool]:
    """Why there is no whole reply from `whom`, and whether that was the exchange's time limit."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"no such host: {whom}", False
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return f"no secure connection to {whom}: {error.__cause__ or error}", False
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection to {whom} within {CONNECT_S:g} s", False
    if is_late or isinstance(error, TimeoutError):
        return f"no whole reply from {whom} within {timeout_s:g} s", True
    system = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    number = system.errno if isinstance(system, OSError) else None
    if number == errno.ECONNREFUSED:
        return f"connection refused by {whom}", False
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"connection closed by {whom} in the middle of its reply ({error})", False
    if number in (errno.ECONNRESET, errno.EPIPE):
        return f"connection reset by {whom}", False
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return f"connection closed by {whom} before it replied", False
    if isinstance(error, aiohttp.ClientResponseError):  # its own words hold the URL
        return f"{whom} sent no valid HTTP: {' '.join(error.message.split())[:LONGEST_TOLD]}", False
    told = system.strerror if isinstance(system, OSError) else None
    return f"{whom}: {told or f'{type(error).__name__}: {error}'}", False
