"""
evalframe: is a model good enough, and is it better than the last one?

The face of the package. A name is imported from its room when it is first used, so that `import evalframe` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalframe.core.completion import Completion, CompletionFn, CompletionResult, Usage
    from evalframe.core.errors import EvalframeError
    from evalframe.core.grade import Grade
    from evalframe.core.grader import Grader
    from evalframe.core.recorder import (
        Recorder,
        record_cond_logp,
        record_embedding,
        record_error,
        record_event,
        record_extra,
        record_function_call,
        record_match,
        record_metrics,
        record_pick_option,
        record_raw,
        record_sampling,
        record_unscored,
    )
    from evalframe.core.sample import Sample
    from evalframe.core.steps import ask
    from evalframe.datasets.load import get_jsonl
    from evalframe.eval import Eval
    from evalframe.evals.basic import record_and_check_match
    from evalframe.logs.run_log import RunLog, read_log
    from evalframe.runs.run import RunResult, run_eval

ROOMS = {
    "core.completion": ("Completion", "CompletionFn", "CompletionResult", "Usage"),
    "core.errors": ("EvalframeError",),
    "core.grade": ("Grade",),
    "core.grader": ("Grader",),
    "core.recorder": (
        "Recorder",
        "record_cond_logp",
        "record_embedding",
        "record_error",
        "record_event",
        "record_extra",
        "record_function_call",
        "record_match",
        "record_metrics",
        "record_pick_option",
        "record_raw",
        "record_sampling",
        "record_unscored",
    ),
    "core.sample": ("Sample",),
    "core.steps": ("ask",),
    "datasets.load": ("get_jsonl",),
    "eval": ("Eval",),
    "evals.basic": ("record_and_check_match",),
    "logs.run_log": ("RunLog", "read_log"),
    "runs.run": ("RunResult", "run_eval"),
}
"""Where each name of the face is defined."""

__all__ = [
    "Completion",
    "CompletionFn",
    "CompletionResult",
    "Eval",
    "EvalframeError",
    "Grade",
    "Grader",
    "Recorder",
    "RunLog",
    "RunResult",
    "Sample",
    "Usage",
    "ask",
    "get_jsonl",
    "read_log",
    "record_and_check_match",
    "record_cond_logp",
    "record_embedding",
    "record_error",
    "record_event",
    "record_extra",
    "record_function_call",
    "record_match",
    "record_metrics",
    "record_pick_option",
    "record_raw",
    "record_sampling",
    "record_unscored",
    "run_eval",
]


def __getattr__(name: str) -> Any:
    for room, names in ROOMS.items():
        if name in names:
            value = getattr(import_module(f"evalframe.{room}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'evalframe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
