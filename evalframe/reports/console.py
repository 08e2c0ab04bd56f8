"""
A report for a terminal: a small table, plain text, no control codes whatever a model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalframe.reports.numbers import Row, by_epoch, number, outcomes, rows, tokens

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
NUMERIC = re.compile(r"-?[\d.,]+|none$")
HEADINGS = Row("metric", "value", "std. error", "95 % interval", "n")


def harmless(text: str) -> str:
    """The text with control characters spelt out, so that it cannot drive a terminal; newlines and tabs stay."""
    return CONTROL.sub(lambda found: found.group().encode("unicode_escape", "backslashreplace").decode("ascii"), text)


def table(lines: Iterable[Sequence[str]]) -> str:
    """Columns under their headings, numbers flush right and words flush left; columns without content are left out."""
    grid = [[harmless(cell).replace("\n", " ") for cell in line] for line in lines]
    kept = [column for column in range(len(grid[0])) if any(line[column] for line in grid[1:])]
    widths = {column: max(len(line[column]) for line in grid) for column in kept}
    right = {column for column in kept if all(not line[column] or NUMERIC.match(line[column]) for line in grid[1:])}
    shown = []
    for line in grid:
        cells = [line[c].rjust(widths[c]) if c in right else line[c].ljust(widths[c]) for c in kept]
        shown.append("  ".join(cells).rstrip())
    return "\n".join(shown)


def report_text(
    title: str,
    report: Mapping[str, Any],
    samples: Mapping[str, int],
    *,
    log_path: str | None,
    status: str,
    reason: str = "",
    seconds: float | None = None,
    reused: int = 0,
) -> str:
    """
    The report of one run.

    Args:
        title: What was asked of whom.
        report: Numbers by name.
        samples: How many samples ended how.
        log_path: Absolute; None where there is no log.
        status: "success", "error", "cancelled".
        reason: Why it is no success.
        seconds: How long it took.
        reused: How many of the samples an earlier process has asked.
    """
    metrics = rows(report)
    parts = [harmless(title)]
    if metrics:
        parts.append(table([as_cells(HEADINGS), *(as_cells(row) for row in metrics)]))
    facts = [("by epoch", line) for line in by_epoch(report)]
    facts += [("samples", samples_text(samples, seconds, reused))]
    facts += [("answers", line) for line in [outcomes(report.get("outcomes") or {})] if line]
    facts += [("tokens", line) for line in tokens(report.get("usage") or {})]
    facts += [("judge", line) for line in tokens(report.get("judge_usage") or {})]
    facts.append(("status", f"{status}: {reason}" if reason else status))
    facts.append(("log", log_path or "none (dry run)"))
    parts.append("\n".join(f"{name:8} {harmless(text)}" for name, text in facts))
    return "\n\n".join(parts)


def as_cells(row: Row) -> list[str]:
    """A row's cells."""
    return [row.metric, row.value, row.error, row.interval, row.n]


def samples_text(samples: Mapping[str, int], seconds: float | None, reused: int = 0) -> str:
    """How many samples ended how, in words; what did not happen is not mentioned."""
    said = [f"{number(samples.get('total', 0))} in all", f"{number(samples.get('completed', 0))} completed"]
    for key, word in (
        ("error", "in error"),
        ("limit", "cut by a limit"),
        ("unscored", "without a verdict"),
        ("interrupted", "interrupted"),
    ):
        if samples.get(key):
            said.append(f"{number(samples[key])} {word}")
    not_begun = samples.get("total", 0) - sum(samples.get(key, 0) for key in ("completed", "error", "limit", "interrupted"))
    if not_begun > 0:
        said.append(f"{number(not_begun)} not begun")
    took = f" in {seconds:.1f} s" if seconds is not None else ""
    taken = f"; {number(reused)} of them were in the log already" if reused else ""
    return ", ".join(said) + took + taken
