"""
Grading recorded answers again: no model is asked, and the verdicts that changed are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalframe.core.errors import BadLog
from evalframe.core.event import Event
from evalframe.core.recorder import Recorder
from evalframe.logs.run_log import RunLog
from evalframe.registry.registry import Registry
from evalframe.runs.run import RunResult, run_eval

INHERITED = ("max_samples", "epochs", "epochs_reducer", "seed", "extra_eval_params", "fail_on_error", "score_on_error", "registry_path")
"""Settings of the log that hold for its regrading."""
Verdicts = dict[tuple[str, int], list[Any]]


@dataclass(frozen=True)
class Regrading:
    """
    A run over the answers of a log.

    Args:
        log: It.
    """

    log: RunLog

    def told(self) -> dict[str, Any]:
        """What the new log says of where its answers come from."""
        spec = self.log.spec
        return {"log": str(self.log.path), "run_id": spec.get("run_id"), "eval_name": spec.get("eval_name"), "status": self.log.status}

    def holds(self, index: int, epoch: int) -> bool:
        """Whether the log tells how this sample ended; one that was never asked cannot be graded."""
        return self.log.has_ended(index, epoch)

    def compared(self, recorder: Recorder) -> dict[str, Any]:
        """Record each verdict that has changed, and return how many there are."""
        before, after = verdicts(self.log.events("match")), verdicts(recorder.get_events("match"))
        turned = {"to_right": 0, "to_wrong": 0, "other": 0}
        for event in recorder.get_events("sample"):
            if event.data["status"] == "error":
                continue  # it has no verdict, and the report says so
            number, epoch = place(event)
            then, now = before.get((number, epoch)), after.get((number, epoch))
            if then == now:
                continue
            is_plain = then is not None and now is not None and len(then) == len(now) == 1
            turned["other" if not is_plain else "to_right" if now == [True] else "to_wrong"] += 1
            told = {"before": only(then), "after": only(now), **({"epoch": epoch} if epoch > 1 else {})}
            recorder.record_event("verdict_changed", told, f"{'.'.join(recorder.run_spec.eval_name.split('.')[:2])}.{number}")
        return {
            "verdicts_changed": sum(turned.values()),
            "verdicts_turned_right": turned["to_right"],
            "verdicts_turned_wrong": turned["to_wrong"],
        }


def verdicts(events: Any) -> Verdicts:
    """Right or wrong, of each sample by its number and epoch."""
    found: Verdicts = {}
    event: Event
    for event in events:
        found.setdefault(place(event), []).append(bool(event.data["correct"]))
    return found


def place(event: Event) -> tuple[str, int]:
    """A sample's number, which it has in every eval over the same data, and the epoch."""
    return str(event.sample_id).rpartition(".")[2], event.epoch


def only(values: list[Any] | None) -> Any:
    """The only value; all of several, None where there are none."""
    return values[0] if values is not None and len(values) == 1 else values


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
