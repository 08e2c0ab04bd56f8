"""
A log whose answers another run stands on: which samples it tells of, and whose verdicts have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evalframe.core.event import Event
from evalframe.core.recorder import Recorder
from evalframe.core.scope import SampleScope
from evalframe.logs.run_log import RunLog

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
        told_before = {(event.sample_id, event.epoch) for event in recorder.get_events("verdict_changed")}  # of a run that was taken up
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
            if (event.sample_id, event.epoch) not in told_before:
                with recorder.in_scope(SampleScope(recorder, str(event.sample_id), event.epoch, event.attempt)):
                    recorder.record_event("verdict_changed", {"before": only(then), "after": only(now)})
        return {
            "verdicts_changed": sum(turned.values()),
            "verdicts_turned_right": turned["to_right"],
            "verdicts_turned_wrong": turned["to_wrong"],
        }


def source_of(log: RunLog) -> Regrading | None:
    """
    The log that the run of this one stands on, if there is one.

    Raises:
        BadLog: If it is gone.
    """
    told = (log.spec.get("run_config") or {}).get("source")
    return Regrading(RunLog(told["log"])) if isinstance(told, Mapping) and isinstance(told.get("log"), str) else None


def verdicts(events: Iterable[Event]) -> Verdicts:
    """Right or wrong, of each sample by its number and epoch."""
    found: Verdicts = {}
    for event in events:
        found.setdefault(place(event), []).append(bool(event.data["correct"]))
    return found


def place(event: Event) -> tuple[str, int]:
    """A sample's number, which it has in every eval over the same data, and the epoch."""
    return str(event.sample_id).rpartition(".")[2], event.epoch


def only(values: list[Any] | None) -> Any:
    """The only value; all of several, None where there are none."""
    return values[0] if values is not None and len(values) == 1 else values
