"""
The samples of a run as test cases, for `--junit`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalframe.core.errors import BadSetting
from evalframe.core.event import Event
from evalframe.reports.junit import SampleOutcome, write_junit
from evalframe.runs.run import RunResult


def check_place(path: str) -> None:
    """
    See whether the file could be written, before anything is asked.

    Raises:
        BadSetting: If it could not.
    """
    try:
        folder = Path(path).expanduser().absolute().parent
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BadSetting(f"--junit {path} cannot be written: {error.strerror or error}.", do="Choose another place.") from error


def write_outcomes(result: RunResult, path: str) -> None:
    """
    Write the file.

    Raises:
        LogUnavailable: If it cannot be written.
    """
    write_junit(outcomes(result), path, name=result.run_spec.eval_name)


def outcomes(result: RunResult) -> Iterator[SampleOutcome]:
    """What became of each sample; one with several verdicts is correct if all are."""
    verdicts: dict[tuple[str | None, int], dict[str, Any]] = {}
    for event in result.events("match"):
        key = (event.sample_id, event.epoch)
        if key not in verdicts or verdicts[key]["correct"]:
            verdicts[key] = event.data
    reasons = {(event.sample_id, event.epoch): str(event.data.get("reason")) for event in result.events("unscored")}
    for event in result.events("sample"):
        key = (event.sample_id, event.epoch)
        yield outcome(event, verdicts.get(key), reasons.get(key, "no verdict"))


def outcome(event: Event, verdict: dict[str, Any] | None, reason: str) -> SampleOutcome:
    """What became of one sample: `event` is its end, `verdict` the data of its match event, `reason` why there is none."""
    name = str(event.sample_id) if event.epoch == 1 else f"{event.sample_id} (epoch {event.epoch})"
    seconds = float(event.data.get("seconds") or 0.0)
    if event.data["status"] == "error":
        error = event.data["error"]
        return SampleOutcome(name, status="error", seconds=seconds, message=f"{error['type']}: {error['message']}")
    if event.data["status"] == "interrupted":
        return SampleOutcome(name, status="error", seconds=seconds, message="interrupted")
    if verdict is None:
        return SampleOutcome(name, status="unscored", seconds=seconds, message=reason)
    expected, answer = str(verdict.get("expected")), str(verdict.get("sampled", verdict.get("picked")))
    return SampleOutcome(name, status="correct" if verdict["correct"] else "incorrect", seconds=seconds, expected=expected, answer=answer)
