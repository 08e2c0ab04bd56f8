"""
Secrets never reach a log or a screen: they are replaced by *** wherever they occur.

Covers: values of arguments whose name says key, token, secret, password or authorization; headers, but for those that never hold one;
userinfo in URLs, and what their queries say under such names; the values of environment variables that end in _API_KEY, _TOKEN and the
like.
Does not cover: a secret under eight characters inside a longer text, since that would blot out ordinary words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"
SECRET_NAME = re.compile(r"(^|[_\-.])(api[_\-]?key|apikey|key|token|secret|password|passwd|authorization|credential)s?$", re.IGNORECASE)
SECRET_VARIABLE = re.compile(r"(_API_KEY|_TOKEN|_SECRET|_PASSWORD|_SECRET_KEY|_ACCESS_KEY)$", re.IGNORECASE)
NOT_SECRET = re.compile(r"(_env|max_tokens|_tokens)$", re.IGNORECASE)
USERINFO = re.compile(r"(?<=://)[^/@\s\"'\\]+(?=@)")
QUERY = re.compile(r"(?<=[?&])([A-Za-z0-9_.\-]{1,64})=([^&#\s\"'\\]+)")
QUERY_NAMES = frozenset({"code", "sig", "signature"})
"""Names in queries of URLs that hold secrets, beside those that say so."""
SCHEME = re.compile(r"(?:bearer|basic|token)\s+\S", re.IGNORECASE)
HEADERS = frozenset({"headers", "extra_headers"})
PLAIN_HEADERS = frozenset({"accept", "content-type", "user-agent", "anthropic-version", "anthropic-beta", "http-referer", "x-title"})
"""Headers that never hold a secret."""
STRUCTURE = frozenset({"run_id", "event_id", "sample_id", "type", "created_at", "status", "samples", "epoch", "attempt"})
"""Keys of a log's lines that say what kind of line it is."""
SHORTEST = 8
"""Characters; a shorter value is masked by its name alone."""


def names_secret(name: object) -> bool:
    """Whether a value of this name is a secret: "api_key" is, "max_tokens", "token_limit" and "api_key_env" are not."""
    return isinstance(name, str) and bool(SECRET_NAME.search(name)) and not NOT_SECRET.search(name)


def in_query(text: str) -> Iterable[str]:
    """Secrets in the queries of the URLs of a text."""
    return (value for name, value in QUERY.findall(text) if names_secret(name) or name.lower() in QUERY_NAMES)


def is_secret_header(where: object, name: object) -> bool:
    """Whether a value is that of a header that may hold a secret; `where` is the name of the mapping it stands in."""
    return where in HEADERS and str(name).lower() not in PLAIN_HEADERS


class Secrets:
    """
    The secrets that are known.

    Args:
        values: Secret texts.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._text: re.Pattern[str] | None = None
        self._bytes: re.Pattern[bytes] | None = None
        self.add(values)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Secrets:
        """Those in environment variables."""
        return cls(value for name, value in environ.items() if SECRET_VARIABLE.search(name))

    def add(self, values: Iterable[str]) -> None:
        """Learn more of them."""
        self._values.update(value for value in values if len(value) >= SHORTEST)
        if not self._values:
            return
        spelt = {form for value in self._values for form in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])}
        longest_first = sorted(spelt, key=len, reverse=True)
        self._text = re.compile("|".join(re.escape(form) for form in longest_first))
        self._bytes = re.compile(b"|".join(re.escape(form.encode("utf-8", "surrogatepass")) for form in longest_first))

    def add_arguments(self, arguments: Any) -> None:
        """Learn the secrets among arguments, however deep they lie."""
        found = [value for value in _secret_values(arguments) if isinstance(value, str)]
        self.add([*found, *(value.split(None, 1)[1] for value in found if SCHEME.match(value))])  # a reply may repeat it without "Bearer"

    def mask(self, text: str) -> str:
        """The text without secrets."""
        masked = USERINFO.sub(MASK, text) if "@" in text else text
        if "=" in masked and ("?" in masked or "&" in masked):
            for value in in_query(masked):
                masked = masked.replace(f"={value}", f"={MASK}")
        return self._text.sub(MASK, masked) if self._text else masked

    def are_in(self, line: bytes) -> bool:
        """Whether a line, encoded as JSON, holds one; userinfo in URLs is left to `mask_arguments` and `mask`."""
        return self._bytes is not None and self._bytes.search(line) is not None

    def mask_line(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """
        A line of a log without secrets: its texts are masked, never its numbers, and not what tells readers what kind of line it is, though
        someone's secret be a word as common as "completed".
        """
        masked = {key: value if key in STRUCTURE else self.mask_values(value) for key, value in line.items()}
        for whole, kept in (
            ("data", ("status", "input_sha256") if line.get("type") == "sample" else ()),
            ("spec", ("run_id", "created_at")),
        ):
            if isinstance(line.get(whole), Mapping):
                masked[whole] |= {key: line[whole][key] for key in kept if key in line[whole]}
        return masked

    def mask_values(self, value: Any) -> Any:
        """A copy of anything without the secrets that are known, whatever its keys are called; keys that are plain names stay."""
        if isinstance(value, Mapping):
            return {
                self.mask(key) if isinstance(key, str) and not key.isidentifier() else key: self.mask_values(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.mask_values(item) for item in value]
        return self.mask(value) if isinstance(value, str) else value

    def mask_arguments(self, value: Any, *, where: object = None) -> Any:
        """A copy of arguments without secrets: those that are known, and whatever has a name that says so; `where` names them all."""
        if isinstance(value, Mapping):
            return {
                key: MASK
                if (names_secret(key) or is_secret_header(where, key)) and not isinstance(item, Mapping) and item
                else self.mask_arguments(item, where=key)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.mask_arguments(item) for item in value]
        return self.mask(value) if isinstance(value, str) else value


def _secret_values(value: Any, *, named: bool = False, where: object = None) -> Iterable[Any]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secret_values(item, named=named or names_secret(key) or is_secret_header(where, key), where=key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secret_values(item, named=named)
    elif named:
        yield value
    elif isinstance(value, str) and "://" in value:
        yield from in_query(value)
