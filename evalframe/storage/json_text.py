"""
JSON is read and written here, and nowhere else where speed matters: by orjson when it is installed (extra `fast`), else by the standard
library, with the same outcome.

Covers: a line that is valid JSON and valid UTF-8 whatever it is given. NaN and Infinity become null, lone surrogates are escaped, what
JSON does not know is spelt as text.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Set
from enum import Enum
from typing import Any

try:
    import orjson as fast
except ImportError:  # the extra `fast` is not installed
    fast = None

NUMBERS = bytes(ord("0") if byte in b"0123456789.eE+-" else ord(" ") for byte in range(256))
LONG_NUMBER = b"0" * 16
"""Where such a run stands, orjson might read another number than the standard library: integers past 64 bits become floats there."""

PLAIN = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
ESCAPED = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def loads(text: str | bytes) -> Any:
    """
    Read JSON.

    Raises:
        json.JSONDecodeError: With line and column, if it is not JSON.
        UnicodeDecodeError: If bytes are not UTF-8.
    """
    if fast is not None:
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if LONG_NUMBER not in raw.translate(NUMBERS):
            try:
                return fast.loads(raw)
            except fast.JSONDecodeError:
                pass  # let the standard library say what is wrong, or read what orjson does not take
    return json.loads(text if isinstance(text, str) else text.decode("utf-8"))


def dumps(value: Any) -> bytes:
    """Write JSON as one line of UTF-8, without the newline."""
    if fast is not None:
        try:
            return bytes(
                fast.dumps(value, option=fast.OPT_PASSTHROUGH_SUBCLASS | fast.OPT_PASSTHROUGH_DATACLASS | fast.OPT_PASSTHROUGH_DATETIME)
            )
        except (TypeError, fast.JSONEncodeError):
            pass
    try:
        return PLAIN.encode(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError):  # UnicodeEncodeError is a ValueError
        return ESCAPED.encode(plain(value)).encode("ascii")


def plain(value: Any, *, depth: int = 0) -> Any:
    """
    The value in JSON's own types: mappings, lists, text, numbers, booleans and null, with all else spelt as text.

    Past a hundred levels, as in a list that holds itself, the rest is spelt "...".
    """
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Enum):
        return plain(value.value, depth=depth + 1)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth > 100:
        return "..."
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): plain(item, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | Set):
        items = sorted(value, key=repr) if isinstance(value, Set) else value
        return [plain(item, depth=depth + 1) for item in items]
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name), depth=depth + 1) for item in dataclasses.fields(value)}
    for method in ("model_dump", "tolist", "isoformat"):  # pydantic; numpy and torch; dates
        spell = getattr(value, method, None)
        if callable(spell):
            return plain(spell(), depth=depth + 1)
    return str(value)
