"""
What the registry holds and what a run is: the shapes of YAML entries and of the log's first line.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Place:
    """Where something stands: a file and, from 1, its line and column."""

    path: Path
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)


@dataclass
class Spec:
    """
    An entry with a class: how to build a part.

    Args:
        cls: "module:Class".
        args: Keyword arguments of the constructor.
        key: The entry's name.
        group: Its file's name without the ending.
        registry_path: The registry it stands in; data files are looked for there first.
        place: Where it stands.
    """

    cls: str
    args: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    group: str = ""
    registry_path: Path | None = None
    place: Place | None = None


@dataclass
class EvalSpec(Spec):
    """
    An eval: what `oaieval` runs.

    Args:
        run: Settings that this eval asks for, below those of the command line: {epochs: 5}.
    """

    run: dict[str, Any] = field(default_factory=dict)


@dataclass
class CompletionFnSpec(Spec):
    """A completion function."""


@dataclass
class SolverSpec(Spec):
    """A solver."""


@dataclass
class BaseEvalSpec:
    """
    The base of an eval's versions, as people speak of it.

    Args:
        id: The version it stands for now.
        metrics: Keys of the report that matter, the first most.
        description: One sentence.
        disclaimer: What not to conclude from it.
        higher_is_better: Whether more of the first metric is better.
    """

    id: str | None = None
    metrics: list[str] = field(default_factory=list)
    description: str = ""
    disclaimer: str = ""
    higher_is_better: bool = True
    key: str = ""
    group: str = ""
    place: Place | None = None


@dataclass
class EvalSetSpec:
    """
    Several evals under one name.

    Args:
        evals: Names, or patterns with `*`.
    """

    evals: list[str]
    key: str = ""
    group: str = ""
    place: Place | None = None


def new_run_id(now: datetime, token: str | None = None) -> str:
    """A run's name: UTC time to the second, and six random characters that keep two runs of one second apart."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}_{token or secrets.token_hex(3)}"


@dataclass
class RunSpec:
    """
    What a run is: the log's first line.

    Args:
        completion_fns: Names, as asked for.
        eval_name: The version that is run, such as "arithmetic.dev.v1".
        base_eval: Its first part.
        split: Its second part.
        run_config: Every resolved setting, the eval's class and arguments, its data.
        created_by: `--user`.
        run_id: Unique.
        created_at: ISO 8601, UTC.
        evalframe: What wrote the log: format, version, Python, platform, git commit.
    """

    completion_fns: list[str]
    eval_name: str
    base_eval: str
    split: str
    run_config: Mapping[str, Any] = field(default_factory=dict)
    created_by: str = ""
    run_id: str = field(default_factory=lambda: new_run_id(datetime.now(UTC)))
    created_at: str = field(default_factory=lambda: str(datetime.now(UTC)))
    evalframe: Mapping[str, Any] = field(default_factory=dict)

    def to_line(self) -> dict[str, Any]:
        """As the log spells it."""
        return {
            "completion_fns": self.completion_fns,
            "eval_name": self.eval_name,
            "base_eval": self.base_eval,
            "split": self.split,
            "run_config": dict(self.run_config),
            "created_by": self.created_by,
            "run_id": self.run_id,
            "created_at": self.created_at,
            "evalframe": dict(self.evalframe),
        }

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> RunSpec:
        """Read back what `to_line` wrote; what older logs lack is empty."""
        name = str(line.get("eval_name") or "")
        return cls(
            completion_fns=[str(one) for one in line.get("completion_fns") or ()],
            eval_name=name,
            base_eval=str(line.get("base_eval") or name.partition(".")[0]),
            split=str(line.get("split") or ""),
            run_config=line.get("run_config") or {},
            created_by=str(line.get("created_by") or ""),
            run_id=str(line.get("run_id") or ""),
            created_at=str(line.get("created_at") or ""),
            evalframe=line.get("evalframe") or {},
        )
