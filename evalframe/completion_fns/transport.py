"""
Send a request and wait for its reply, on the thread that asks, over connections that are kept open and shared by all threads.

Covers: a wall-clock limit for each exchange that also holds when headers or body come byte by byte; its own limit for connecting; proxies
(HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, in both cases); certificates of one's own (SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE);
replies of any length up to `LARGEST_BODY_BYTES`. A fault of the network is a `Reply` that names it, never an exception.
Does not cover: redirects (a POST would become a GET on its way), and the time that looking up a host's name takes.

Importing this imports urllib3; whoever needs it only later imports it later.
"""

from __future__ import annotations

import http.client
import io
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLCertVerificationError, SSLContext, create_default_context
from typing import Any, cast
from urllib.parse import unquote, urlsplit, urlunsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    IncompleteRead,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    SSLError,
)

from evalframe.core.completion import Reply, Send
from evalframe.core.errors import BadSetting

CONNECT_S = 10.0
"""Seconds to connect to one address, TLS and a proxy's tunnel included."""
LARGEST_BODY_BYTES = 64 << 20
CHUNK_BYTES = 1 << 18
TUNNEL_REFUSED = "Tunnel connection failed: 407"
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class Budget(threading.local):
    """The time that the exchange of this thread has: `timeout_s` for all of it, until `deadline` (monotonic) as it stands now."""

    timeout_s: float = 0.0
    deadline: float = 0.0

    def begin(self, seconds: float) -> None:
        """So many seconds from now."""
        self.deadline = time.monotonic() + seconds

    def left_s(self) -> float:
        """
        Seconds left.

        Raises:
            TimeoutError: If there are none.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time limit is over")
        return left


_budget = Budget()


class TimedReader(io.RawIOBase):
    """What comes over a socket; each read waits only as long as there is time left, however many reads there are."""

    def __init__(self, raw: io.RawIOBase, sock: Any) -> None:
        self._raw, self._sock = raw, sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_budget.left_s())
        return cast("int | None", self._raw.readinto(buffer))

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class TimedResponse(http.client.HTTPResponse):
    """A response, a proxy's to CONNECT too, that is read in time."""

    def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(TimedReader(self.fp.detach(), sock))


class Timed:
    """What a connection does in time: it connects within its own limit, then sends and receives within that of the exchange."""

    response_class: Any = TimedResponse

    def connect(self) -> None:
        _budget.begin(CONNECT_S)
        super().connect()  # type: ignore[misc]
        _budget.begin(_budget.timeout_s)

    def request(self, *args: Any, **kwargs: Any) -> None:
        _budget.begin(_budget.timeout_s)
        super().request(*args, **kwargs)  # type: ignore[misc]

    def send(self, data: Any) -> None:
        sock = getattr(self, "sock", None)
        if sock is not None:
            sock.settimeout(_budget.left_s())
        super().send(data)  # type: ignore[misc]


class TimedHTTPConnection(Timed, HTTPConnection):
    """http."""


class TimedHTTPSConnection(Timed, HTTPSConnection):
    """https."""


class TimedHTTPPool(HTTPConnectionPool):
    """Connections to one host, by http."""

    ConnectionCls = TimedHTTPConnection


class TimedHTTPSPool(HTTPSConnectionPool):
    """Connections to one host, by https."""

    ConnectionCls = TimedHTTPSConnection


POOLS = {"http": TimedHTTPPool, "https": TimedHTTPSPool}


@dataclass(frozen=True)
class Route:
    """
    How a URL is reached.

    Args:
        send: Sends to it: (method, target, **rest) -> response.
        target: What to give it as the target.
        proxy: The proxy in between, if there is one.
    """

    send: Callable[..., urllib3.BaseHTTPResponse]
    target: str
    proxy: str | None


class Transport:
    """
    Connections that are kept open.

    Args:
        max_connections: How many at once to one host; a thread that comes on top waits for its turn.
    """

    def __init__(self, *, max_connections: int = 10) -> None:
        self._max_connections = max_connections
        self._managers: dict[tuple[str, str | None], urllib3.PoolManager] = {}
        self._routes: dict[str, Route] = {}
        self._lock = threading.Lock()

    def send(self, request: Send) -> Reply:
        """
        Send, and wait for the whole reply.

        Raises:
            BadSetting: If a variable names certificates that are not there, or a proxy that is none.
        """
        route = self._routes.get(request.url) or self._find_route(request.url)
        _budget.timeout_s = request.timeout_s
        try:
            response = route.send(
                request.method,
                route.target,
                body=request.body,
                headers=request.headers,
                timeout=urllib3.Timeout(connect=CONNECT_S, read=request.timeout_s),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            body = read_body(response)
        except TooLong:
            return Reply(0, fault=f"the reply of {address(request.url)} is longer than {LARGEST_BODY_BYTES >> 20} MiB")
        except (HTTPError, http.client.HTTPException, OSError) as error:
            return fault(error, request, route.proxy)
        if response.status == 407 and route.proxy is not None:
            return refused_by(route.proxy)
        return Reply(response.status, {name.lower(): value for name, value in response.headers.iteritems()}, body)

    def close(self) -> None:
        """Close the connections that are idle."""
        with self._lock:
            for manager in self._managers.values():
                manager.clear()

    def _find_route(self, url: str) -> Route:
        parts = urlsplit(url)
        proxy = proxy_of(url)
        with self._lock:
            key = (parts.scheme, proxy)
            if key not in self._managers:
                self._managers[key] = make_manager(parts.scheme, proxy, self._max_connections)
            manager = self._managers[key]
        if proxy is None:  # straight to the pool of this host, whose name need not be looked at again for every request
            route = Route(manager.connection_from_url(url).urlopen, urlunsplit(("", "", parts.path or "/", parts.query, "")), None)
        else:
            route = Route(manager.urlopen, url, proxy)
        self._routes[url] = route
        return route


def make_manager(scheme: str, proxy: str | None, max_connections: int) -> urllib3.PoolManager:
    """
    A keeper of connections by one scheme, through one proxy or none.

    Raises:
        BadSetting: If a variable names certificates that are not there, or a proxy that cannot be used.
    """
    settings: dict[str, Any] = {"maxsize": max_connections, "block": True}
    if "https" in (scheme, urlsplit(proxy or "").scheme):
        settings["ssl_context"] = certificates()
    if proxy is not None and proxy.startswith("socks"):
        return socks_manager(proxy, settings)
    if proxy is None:
        manager = urllib3.PoolManager(**settings)
    else:
        auth = urllib3.util.parse_url(proxy).auth
        headers = urllib3.make_headers(proxy_basic_auth=unquote(auth)) if auth else None
        manager = urllib3.ProxyManager(proxy, proxy_headers=headers, proxy_ssl_context=settings.get("ssl_context"), **settings)
    manager.pool_classes_by_scheme = POOLS
    return manager


def read_body(response: urllib3.BaseHTTPResponse) -> bytes:
    """
    The whole body of a response, whose connection is then free for the next.

    Raises:
        TooLong: If it is longer than `LARGEST_BODY_BYTES`.
    """
    chunks, size = [], 0
    try:
        while chunk := response.read(CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > LARGEST_BODY_BYTES:
                raise TooLong
    except BaseException:
        response.close()  # or the rest of the body would be taken for the next reply
        raise
    finally:
        response.release_conn()
    return b"".join(chunks)


class TooLong(Exception):
    """A reply that is longer than any answer."""


def proxy_of(url: str) -> str | None:
    """
    The proxy that a URL goes through, or None.

    Raises:
        BadSetting: If the variable holds no URL of a proxy.
    """
    if not any(os.environ.get(name) or os.environ.get(name.upper()) for name in PROXY_VARIABLES):
        return None
    # requests takes long to import, and most runs need no proxy
    from requests.utils import get_environ_proxies, select_proxy

    proxy = select_proxy(url, get_environ_proxies(url))
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        parts = urlsplit(proxy)
        known = parts.scheme in ("http", "https", "socks4", "socks4a", "socks5", "socks5h") and bool(parts.hostname) and (parts.port or 1)
    except ValueError:
        known = False
    if not known:
        raise BadSetting(f"The proxy {shown_proxy(proxy)} for {address(url)} is no URL of a proxy.", do="Write http://HOST:PORT.")
    return proxy


def socks_manager(proxy: str, settings: dict[str, Any]) -> urllib3.PoolManager:
    """
    Connections through a SOCKS proxy; there the limit of an exchange holds for each silence, not for all of it.

    Raises:
        BadSetting: If the library for it is missing.
    """
    try:
        from urllib3.contrib.socks import SOCKSProxyManager
    except ImportError as error:
        raise BadSetting(f'The proxy {shown_proxy(proxy)} needs "pysocks".', do="Install it: pip install pysocks") from error
    return SOCKSProxyManager(proxy, **settings)


def certificates() -> SSLContext:
    """
    Whom to trust: the certificates that the environment names, else those of certifi.

    Raises:
        BadSetting: If it names none that can be read.
    """
    for name in (*BUNDLES, "SSL_CERT_DIR"):
        if value := os.environ.get(name):
            try:
                folder = Path(value).is_dir()
                return create_default_context(cafile=None if folder else value, capath=value if folder else None)
            except OSError as error:
                raise BadSetting(f"{name} names certificates that cannot be read: {value} ({error}).") from error
    import certifi

    return create_default_context(cafile=certifi.where())


def fault(error: Exception, request: Send, proxy: str | None) -> Reply:
    """What went wrong on the network, as a reply."""
    if isinstance(error, ProxyError):
        if TUNNEL_REFUSED in str(error.original_error):  # http.client has no class for it
            return refused_by(proxy or "")
        told, timed_out = reason(error.original_error, shown_proxy(proxy or ""), request.timeout_s)
        said = f"no way through the proxy {shown_proxy(proxy or '')}: {told}"
        return Reply(0, fault=said, timed_out=timed_out, is_final=is_untrusted(error))
    whom = address(request.url)
    if proxy is not None:
        whom = f"{whom} (through the proxy {shown_proxy(proxy)})"
    told, timed_out = reason(error, whom, request.timeout_s)
    return Reply(0, fault=told, timed_out=timed_out, is_final=is_untrusted(error))


def is_untrusted(error: BaseException) -> bool:
    """Whether a certificate is not trusted, which no waiting changes."""
    return any(isinstance(cause, SSLCertVerificationError) for cause in chain(error))


def refused_by(proxy: str) -> Reply:
    """A 407, which is the proxy's own answer and not the endpoint's."""
    return Reply(407, body=f"the proxy {shown_proxy(proxy)} asks for a user and a password".encode())


def reason(error: BaseException, whom: str, timeout_s: float) -> tuple[str, bool]:
    """Why there is no whole reply from `whom`, and whether that was the exchange's time limit."""
    causes = list(chain(error))

    def first(*kinds: type[BaseException]) -> BaseException | None:
        return next((cause for cause in causes if isinstance(cause, kinds)), None)

    if first(NameResolutionError):
        return f"no such host: {whom}", False
    if first(ConnectionRefusedError):
        return f"connection refused by {whom}", False
    if secure := first(SSLError):
        return f"no secure connection to {whom}: {secure}", False
    connecting = first(ConnectTimeoutError)
    if connecting and not isinstance(connecting, NewConnectionError):
        return f"no connection to {whom} within {CONNECT_S:g} s", False
    if first(TimeoutError) and not connecting:
        return f"no whole reply from {whom} within {timeout_s:g} s", True
    if first(http.client.RemoteDisconnected):
        return f"connection closed by {whom} before it replied", False
    if partial := first(IncompleteRead, http.client.IncompleteRead):
        return f"connection closed by {whom} in the middle of its reply ({partial})", False
    if first(ConnectionResetError, BrokenPipeError):
        return f"connection reset by {whom}", False
    system = first(OSError)
    return f"{whom}: {(isinstance(system, OSError) and system.strerror) or f'{type(error).__name__}: {error}'}", False


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what it was raised from, and what it holds as its reason."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        step = waiting.pop(0)
        if isinstance(step, BaseException) and id(step) not in seen:
            seen.add(id(step))
            yield step
            waiting += [step.__cause__, step.__context__, getattr(step, "reason", None), *step.args]


def address(url: str) -> str:
    """host:port of a URL."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2]


def shown_proxy(proxy: str) -> str:
    """A proxy without its user and password."""
    return address(proxy) or proxy.rpartition("@")[2]
