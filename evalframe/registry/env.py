"""
`!env NAME`: an argument whose value stands in an environment variable. It is read when its part is built, not when the entry is listed, so
that a variable that is not set only stops what needs it, and no secret is held before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from evalframe.core.errors import BadEntry
from evalframe.core.specs import Place

UNSET: Any = object()


class EnvValue:
    """
    A value that is yet to be read.

    Args:
        name: The environment variable.
        default: What it is where the variable is not set; `UNSET` if there is no default.
        place: Where it is written.
    """

    __slots__ = ("default", "name", "place")

    def __init__(self, name: str, default: Any = UNSET, place: Place | None = None) -> None:
        self.name, self.default, self.place = name, default, place

    def __repr__(self) -> str:
        return f"!env {self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EnvValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> EnvValue:
        return self

    def read(self, environ: Mapping[str, str] = os.environ, *, entry: str = "") -> Any:
        """
        The value of the variable; text, or the default.

        Raises:
            BadEntry: If it is not set and there is no default.
        """
        value = environ.get(self.name, self.default)
        if value is UNSET:
            needed = f" by {entry}" if entry else ""
            where = f" in {self.place}" if self.place else ""
            raise BadEntry(
                f"The environment variable {self.name} is not set; it is needed{needed}{where}.",
                do=f"Set it (export {self.name}=...), or write a default: !env [{self.name}, default]",
            )
        return value


def read_env(value: Any, environ: Mapping[str, str] = os.environ, *, entry: str = "", missing_ok: bool = False) -> Any:
    """
    A copy of `value`, all the way down, in which every `!env` is read.

    Args:
        value: What YAML can hold.
        environ: The variables.
        entry: Who needs it, for the message: 'eval "a.dev.v0"'.
        missing_ok: Leave what cannot be read as it is.

    Raises:
        BadEntry: If a variable is not set and has no default.
    """
    if isinstance(value, EnvValue):
        return value if missing_ok and value.name not in environ else value.read(environ, entry=entry)
    if isinstance(value, dict):
        return {key: read_env(item, environ, entry=entry, missing_ok=missing_ok) for key, item in value.items()}
    if isinstance(value, list):
        return [read_env(item, environ, entry=entry, missing_ok=missing_ok) for item in value]
    return set(value) if isinstance(value, set) else value


def has_env(value: Any) -> bool:
    """Whether some `!env` stands in `value`."""
    if isinstance(value, dict):
        return any(map(has_env, value.values()))
    return any(map(has_env, value)) if isinstance(value, list) else isinstance(value, EnvValue)
