"""
Grading recorded answers again: no model is asked, and the verdicts that changed are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalframe.core.errors import BadLog
from evalframe.logs.run_log import RunLog
from evalframe.registry.registry import Registry
from evalframe.runs.run import RunResult, run_eval
from evalframe.runs.source import Regrading

INHERITED = ("max_samples", "epochs", "epochs_reducer", "seed", "extra_eval_params", "fail_on_error", "score_on_error", "registry_path")
"""Settings of the log that hold for its regrading."""


def regrade(path: str | Path, *, eval: str | None = None, registry: Registry | None = None, **settings: Any) -> RunResult:
    """
    Grade the answers of a log again, into a new log.

    Args:
        path: The log.
        eval: Who grades: the name of another eval over the same data; by default the eval of the log, as it is now.
        registry: Where names are looked up.
        settings: See `run_eval`; those that bear on which samples there are come from the log.

    Raises:
        BadLog: If it is no log.
        EvalframeError: As `run_eval`.
    """
    log = RunLog(path)
    name = eval or log.spec.get("eval_name")
    if not isinstance(name, str):
        raise BadLog(f"{log.path} does not tell which eval it is of.", do="Name one with --eval.")
    told: Mapping[str, Any] = log.settings
    inherited = {key: told[key] for key in INHERITED if told.get(key) not in (None, [], {})}
    functions = [f"replay/{log.path}" for _ in log.spec.get("completion_fns") or ["replay"]]
    if eval is not None:
        inherited.pop("extra_eval_params", None)
    return run_eval(functions, name, registry=registry, source=Regrading(log), **{**inherited, **settings})
