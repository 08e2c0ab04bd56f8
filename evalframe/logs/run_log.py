"""
A log, read back: its spec, its events, its samples, its report.

Covers: logs of runs that were killed (a torn last line is left out), that were resumed, and logs of openai/evals, which have no `sample`
events and so count whole. Lines are read as they are asked for; memory holds where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from evalframe.core.errors import BadLog, described
from evalframe.core.event import Event
from evalframe.storage.event_log import Scan, events_at, readable, resumes_of, scan, spec_of

T = TypeVar("T")


class RunLog:
    """
    A log file.

    Args:
        path: The file.

    Attributes:
        spec: The run: the log's first line.

    Raises:
        BadLog: If it cannot be read, or does not begin like a log.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        spec = self._read(spec_of)
        if spec is None:
            raise BadLog(f"{self.path} is not a log of evalframe: its first line holds no spec.")
        self.spec: dict[str, Any] = spec

    @property
    def final_report(self) -> dict[str, Any] | None:
        """The last report, or None where the run did not come to one."""
        return self._scan.final.get("final_report") if self._scan.final else None

    @property
    def status(self) -> str:
        """How the run ended: "success", "error", "cancelled"; "unfinished" where no report was written."""
        if self._scan.final is None:
            return "unfinished"
        return str(self._scan.final.get("status", "success"))

    @property
    def samples(self) -> dict[str, Any] | None:
        """How many samples ended how, as the final report tells; None where it does not."""
        return self._scan.final.get("samples") if self._scan.final else None

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting of the run as it held last: those of the spec, and what was changed when the run was taken up again."""
        told_first = self.spec.get("run_config")
        settings = dict(told_first) if isinstance(told_first, Mapping) else {}
        for told in self._read(resumes_of):
            if isinstance(told.get("changed"), Mapping):
                settings |= told["changed"]
        return settings

    @property
    def written_by(self) -> Mapping[str, Any]:
        """What wrote the log, and where; empty of a log of others."""
        told = self.spec.get("evalframe")
        return told if isinstance(told, Mapping) else {}

    @property
    def data(self) -> list[Mapping[str, Any]]:
        """The data files as the last process found them."""
        told = [self.settings.get("data"), *(again.get("data") for again in self._read(resumes_of))]
        last = next((facts for facts in reversed(told) if isinstance(facts, list)), [])
        return [facts for facts in last if isinstance(facts, Mapping)]

    @property
    def torn_lines(self) -> int:
        """Lines that are no JSON: at most the last, unless a crashed run was taken up again."""
        return self._scan.torn

    def events(self, type: str | None = None, *, all_attempts: bool = False) -> Iterator[Event]:
        """
        The events that count, in the order of recording.

        Args:
            type: Only those of this type.
            all_attempts: Also those of attempts that came to nothing.
        """
        if type is None:
            found: Iterator[Event] = (Event.from_line(line) for line in self.lines() if isinstance(line.get("type"), str))
        else:
            found = events_at(self.path, self._scan.offsets.get(type, ()))
        return found if all_attempts else (event for event in found if self._scan.attempts.count(event))

    def has_ended(self, index: int, epoch: int) -> bool:
        """Whether the sample with this number has ended, however; in a log without ends, whether anything tells of it."""
        sample_id = f"{self.spec.get('base_eval')}.{self.spec.get('split')}.{index}"
        if "sample" in self._scan.offsets:
            ended = self._scan.ends.get(self.path, sample_id, epoch)
            return ended is not None and ended.status in ("completed", "limit", "error")
        return sample_id in self._told_of

    @cached_property
    def _told_of(self) -> frozenset[str | None]:
        return frozenset(event.sample_id for event in self.events("sampling"))

    def lines(self) -> Iterator[dict[str, Any]]:
        """Every line that can be read, as it stands."""
        return (line for line in self._raw_lines() if line is not None)

    def _raw_lines(self) -> Iterator[dict[str, Any] | None]:
        """Every line that is not blank; None for one that cannot be read."""
        try:
            with self.path.open("rb") as file:
                for raw in file:
                    if raw.strip():
                        yield readable(raw)
        except OSError as error:
            raise BadLog(f"cannot read the log {self.path}: {error.strerror or error}.") from error

    @cached_property
    def _scan(self) -> Scan:
        return self._read(scan)

    def _read(self, how: Callable[[Path], T]) -> T:
        try:
            if self.path.exists() and not self.path.is_file():
                raise BadLog(f"{self.path} is no file, so it is no log.")
            return how(self.path)
        except OSError as error:
            raise BadLog(f"cannot read the log {self.path}: {error.strerror or error}.") from error
        except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
            raise BadLog(f"{self.path} is damaged: a line of it is not what evalframe writes ({described(error)}).") from error


def read_log(path: str | Path) -> RunLog:
    """Read a log."""
    return RunLog(path)
