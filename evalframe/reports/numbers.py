"""
The numbers of a report, as rows of a table: a metric, its value, its standard error, its interval, what it rests on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ERROR_SUFFIX, INTERVAL_SUFFIX, COUNT_SUFFIX = "_stderr", "_ci95", "_n"
EPOCH_SUFFIX = "_by_epoch"
LONGEST_LIST = 8
"""Numbers of a list that are shown."""
OWN_LINES = frozenset({"n", "usage", "judge_usage", "outcomes", "boostrap_std", "epochs"})
"""Keys that are no metrics of their own: the number of verdicts, the tokens, and the mould's spelling of a standard error."""


@dataclass(frozen=True)
class Row:
    """One metric, as text: "" where the report says nothing."""

    metric: str
    value: str
    error: str = ""
    interval: str = ""
    n: str = ""


def number(value: Any) -> str:
    """A number as it is shown: four decimals at most, thousands parted, "none" where there is none."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 10_000 else f"{value:,.1f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(number, value[:LONGEST_LIST])) + (", …" if len(value) > LONGEST_LIST else "")
    return str(value)


def rows(report: Mapping[str, Any]) -> list[Row]:
    """The metrics of a report, in its order."""
    found = []
    for key, value in report.items():
        if key in OWN_LINES or is_about_another(key, report) or isinstance(value, Mapping | list | tuple):
            continue
        interval = report.get(key + INTERVAL_SUFFIX)
        counted = report.get(key + COUNT_SUFFIX, report.get("n") if key + ERROR_SUFFIX in report else None)
        found.append(
            Row(
                key,
                number(value),
                number(report[key + ERROR_SUFFIX]) if report.get(key + ERROR_SUFFIX) is not None else "",
                f"{number(interval[0])} to {number(interval[1])}" if isinstance(interval, list | tuple) and len(interval) == 2 else "",
                number(counted) if counted is not None else "",
            )
        )
    return found


def by_epoch(report: Mapping[str, Any]) -> list[str]:
    """What each epoch came to, in words: a line for each metric that tells it."""
    lines = []
    for key, values in report.items():
        if key.endswith(EPOCH_SUFFIX) and isinstance(values, list | tuple):
            lines.append(f"{key.removesuffix(EPOCH_SUFFIX)} {number(values)}")
    return lines


def is_about_another(key: str, report: Mapping[str, Any]) -> bool:
    """Whether a key tells of another one: accuracy_stderr of accuracy."""
    return any(key.endswith(suffix) and key.removesuffix(suffix) in report for suffix in (ERROR_SUFFIX, INTERVAL_SUFFIX, COUNT_SUFFIX))


def outcomes(told: Mapping[str, int]) -> str:
    """What became of the answers, in words; "" where all is well."""
    if not set(told) - {"answered", "error"}:
        return ""
    return ", ".join(f"{number(times)} {'in error' if name == 'error' else name}" for name, times in told.items())


def tokens(usage: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What each model was paid for, in words; a sum that leaves out calls of unknown usage says so."""
    lines = []
    for model, spent in usage.items():
        parts = []
        for key, word in (("input_tokens", "in"), ("output_tokens", "out"), ("cached_tokens", "cached"), ("reasoning_tokens", "reasoning")):
            if spent.get(key) is not None:
                parts.append(f"{number(spent[key])} {word}")
        unknown, calls = spent.get("unknown") or 0, spent.get("calls") or 0
        if unknown:
            parts.append(f"unknown for {number(unknown)} of {number(calls)} calls")
        if spent.get("cost_usd"):
            parts.append(f"{spent['cost_usd']:.4g} USD")
        if not parts:
            continue
        lines.append(f"{model or 'a model without a name'}: {', '.join(parts)}")
    return lines
