"""
Where a model is asked, with what key, and how patiently: what all that talk HTTP have in common before the first request.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from evalframe.core.errors import BadArguments, BadSetting, MissingKey
from evalframe.resilience.retry import RetryPolicy

TIMEOUT_VARIABLE = "EVALS_THREAD_TIMEOUT"
DEFAULT_TIMEOUT_S = 300.0
BEARER = "authorization"


@dataclass(frozen=True)
class Home:
    """
    Where the models of a provider are found, unless somebody says otherwise.

    Args:
        base_url: Its address; "" where there is none of its own.
        base_url_env: The variable that holds another; "" for none.
        api_key_env: The variable that holds the key.
        key_header: The header that carries it; in `authorization` it stands after "Bearer".
    """

    base_url: str = ""
    base_url_env: str = ""
    api_key_env: str = ""
    key_header: str = BEARER


@dataclass(frozen=True)
class Endpoint:
    """
    Where to ask, and with what key.

    Args:
        base_url: Without userinfo and query; this may be shown.
        query: What each URL ends in, after "?".
        headers: Beside the key.
        key: The header with the key, and its value; empty without one.
    """

    base_url: str
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    key: Mapping[str, str] = field(default_factory=dict, repr=False)

    def url(self, path: str) -> str:
        """The URL of a path, which begins with a slash."""
        return f"{self.base_url}{path}{f'?{self.query}' if self.query else ''}"

    @cached_property
    def all_headers(self) -> Mapping[str, str]:
        """With the key."""
        return {**self.headers, **self.key}

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Values of headers that nobody may see."""
        return tuple(self.key.values())

    @property
    def account(self) -> str:
        """What tells one account there from another; secret."""
        return "".join(self.key.values())


def find_endpoint(
    home: Home,
    *,
    path: str,
    base_url: str | None = None,
    api_key: str | None = None,
    api_key_env: str | None = None,
    key_header: str | None = None,
    needs_key: bool | None = None,
    extra_headers: Mapping[str, Any] | None = None,
) -> Endpoint:
    """
    Put the address and the headers together.

    Args:
        home: Where the provider's models are found if nothing else is said.
        path: What the provider adds to the base URL, which may end in it.
        base_url: In place of the provider's own.
        api_key: The key itself.
        api_key_env: Another variable that holds the key.
        key_header: Another header that carries it.
        needs_key: Whether there is no asking without a key; if not said, only the provider's own address needs one.
        extra_headers: Sent as they are.

    Raises:
        BadArguments, BadSetting: If one of them cannot be used.
        MissingKey: If there is no key where one is needed.
    """
    parts = read_base_url(home, base_url, path)
    variable = api_key_env or home.api_key_env
    key = (api_key or "").strip() or (os.environ.get(variable, "").strip() if variable else "")
    host = parts.netloc.rpartition("@")[2]
    if needs_key is None:
        needs_key = parts.hostname == urlsplit(home.base_url).hostname
    if not key and needs_key and parts.username is None:
        raise no_key(host, variable, "" if base_url else home.base_url_env)
    carried: dict[str, str] = {}
    if parts.username is not None and not api_key:
        userinfo = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        carried[BEARER] = f"Basic {b64encode(userinfo.encode('utf-8')).decode('ascii')}"
    elif key:
        name = checked_header(str(key_header or home.key_header), "key_header").lower()
        value = checked_header(key, f"The API key (api_key, or {variable})", shown=False)
        carried[name] = f"Bearer {value}" if name == BEARER else value
    headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "evalframe"}
    if extra_headers is not None and not isinstance(extra_headers, Mapping):
        raise BadArguments(f"extra_headers is a JSON object, not {extra_headers!r}.")
    for name, value in (extra_headers or {}).items():
        name = checked_header(str(name), "A name in extra_headers").lower()
        headers[name] = checked_header(str(value), f"{name} in extra_headers", shown=False)
    return Endpoint(urlunsplit((parts.scheme, host, parts.path, "", "")), parts.query, headers, carried)


def no_key(host: str, variable: str, base_url_env: str) -> MissingKey:
    """The error for a key that is not there; `base_url_env` may name another server, where that variable is heeded."""
    steps = [f"export {variable}=..." if variable else "Give it one: --completion_args api_key_env=VARIABLE"]
    if base_url_env:
        steps.append(f"Or, for another server, give its address: {base_url_env}=http://HOST:PORT/v1.")
    steps.append("Or try evalframe without a key: dummy, echo or local/smollm2 in place of the model's name.")
    return MissingKey(f"{host} needs an API key, and {variable or 'no variable'} is not set.", do=steps)


def read_base_url(home: Home, base_url: str | None, path: str) -> SplitResult:
    """
    The base URL in its parts, without a slash or the provider's own path at its end.

    Raises:
        BadArguments: If the argument is no http or https URL.
        BadSetting: If the variable is none.
    """
    variable = home.base_url_env
    told = str(base_url).strip() if base_url else (os.environ.get(variable, "").strip() if variable else "") or home.base_url
    if not told:
        where = f", or {variable}=..." if variable else ""
        raise BadArguments("nothing says where the model is asked.", do=f"Give its address: base_url=http://HOST:PORT/v1{where}")
    try:
        parts = urlsplit(told)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or not told.isascii() or any(character.isspace() for character in told):
        name, error = ("base_url", BadArguments) if base_url or not variable else (variable, BadSetting)
        raise error(f"{name} is no http or https URL: {told.rpartition('@')[2]!r}.", do="Write it like http://HOST:PORT/v1.")
    return parts._replace(path=parts.path.rstrip("/").removesuffix(path).rstrip("/"))


def checked_header(value: str, what: str, *, shown: bool = True) -> str:
    """
    A text that can be sent in a header.

    Raises:
        BadSetting: If it holds what no header can; `shown` says whether the message may repeat it.
    """
    if not value.isascii() or not value.isprintable():
        raise BadSetting(f"{what} holds characters that no HTTP header can{f': {value!r}' if shown else ''}.", do="Copy it anew.")
    return value


def make_policy(max_retries: float | None, max_total_s: float | None, longest_hint_s: float | None = None) -> RetryPolicy:
    """
    The usual policy with these numbers in it.

    Raises:
        BadArguments: If one of them is below 0, or none.
    """
    usual = RetryPolicy()
    for name, value in (("max_retries", max_retries), ("max_total_retry_s", max_total_s), ("max_retry_after_s", longest_hint_s)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf")):
            raise BadArguments(f"{name} is a number from 0, not {value!r}.")
    return RetryPolicy(
        max_tries=usual.max_tries if max_retries is None else int(max_retries) + 1,
        max_total_s=usual.max_total_s if max_total_s is None else float(max_total_s),
        longest_hint_s=usual.longest_hint_s if longest_hint_s is None else float(longest_hint_s),
    )


def read_timeout(timeout_s: float | None) -> float:
    """
    Seconds for each try: the argument, else the variable, else the default.

    Raises:
        BadArguments: If the argument is no number above 0.
        BadSetting: If the variable holds none.
    """
    if timeout_s is not None:
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s < float("inf"):
            raise BadArguments(f"timeout_s is a number of seconds above 0, not {timeout_s!r}.")
        return float(timeout_s)
    told = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    try:
        seconds = float(told) if told else DEFAULT_TIMEOUT_S
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BadSetting(f"{TIMEOUT_VARIABLE} is a number of seconds above 0, not {told!r}.")
    return seconds
