"""
Record in several places at once: in the log, and wherever else someone looks on.

Covers: events that are the same everywhere, number and time included; an observer that fails (the run goes on, the fault is told at the
end). A fault of the first recorder, which keeps the log, is raised: without a log there is no run.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, cast

from evalframe.core.earlier import Earlier, Ended
from evalframe.core.event import Event
from evalframe.core.recorder import Recorder
from evalframe.core.scope import SampleScope

if TYPE_CHECKING:
    Count = itertools.count[int]
else:
    Count = itertools.count  # takes no subscript at run time


class Stamps(Count):
    """
    Numbers and times of events; within `held` the same number and time come again and again, on this thread.

    Args:
        numbers: Where the numbers come from.
        clock: Where the times come from.
    """

    def __init__(self, numbers: Iterator[int], clock: Callable[[], datetime]) -> None:
        self._source = numbers
        self._clock = clock
        self._held = threading.local()

    def __new__(cls, *_arguments: Any) -> Self:
        return cast("Self", super().__new__(cls))

    def __next__(self) -> int:
        number: int | None = getattr(self._held, "number", None)
        return next(self._source) if number is None else number

    def now(self) -> datetime:
        """The time."""
        time: datetime | None = getattr(self._held, "time", None)
        return self._clock() if time is None else time

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take one number and one time for all that is recorded inside."""
        self._held.number, self._held.time = next(self._source), self._clock()
        try:
            yield
        finally:
            self._held.number = self._held.time = None


class TeeRecorder(Recorder):
    """
    Hand everything to several recorders.

    Args:
        first: Keeps the log: it numbers the events, and what is read back comes from it.
        others: Look on. They, too, are to be used through this recorder only.
    """

    def __init__(self, first: Recorder, *others: Recorder) -> None:
        stamps = Stamps(first._numbers, first._clock)
        super().__init__(first.run_spec, clock=stamps.now)
        self.first = first
        self.others = others
        self._faults: dict[int, tuple[int, Exception]] = {}
        self._lock = threading.Lock()
        self._stamps = stamps
        for recorder in (self, first, *others):  # one family, one count: an event has one number wherever it is written
            recorder._numbers, recorder._clock = stamps, stamps.now

    @property
    def faults(self) -> list[str]:
        """What went wrong with observers, a sentence for each that failed."""
        with self._lock:
            return [
                f"{type(self.others[place]).__name__} failed {count} time{'s' * (count != 1)}; at first: {type(error).__name__}: {error}"
                for place, (count, error) in sorted(self._faults.items())
            ]

    def write(self, event: Event) -> None:
        copy = replace(event)  # whoever keeps the event may change its own
        self.first.write(event)
        self._tell_all(lambda observer: observer.write(replace(copy)))

    def write_line(self, line: Mapping[str, Any]) -> None:
        self.first.write_line(line)
        self._tell_all(lambda observer: observer.write_line(line))

    def begin(self, scope: SampleScope) -> None:
        self.first.begin(scope)
        self._tell_all(lambda observer: observer.begin(scope))

    def end(self, scope: SampleScope, data: Mapping[str, Any]) -> None:
        with self._stamps.held():  # each recorder makes its own event of it
            self.first.end(scope, data)
            self._tell_all(lambda observer: observer.end(scope, data))

    def earlier(self) -> Earlier | None:
        return self.first.earlier()

    def ended(self, sample_id: str, epoch: int) -> Ended | None:
        return self.first.ended(sample_id, epoch)

    def leave_out(self, is_kept: Callable[[str, int], bool]) -> int:
        return self.first.leave_out(is_kept)

    def flush(self) -> None:
        try:
            self.first.flush()
        finally:
            self._tell_all(lambda observer: observer.flush())

    def close(self) -> None:
        try:
            self.first.close()
        finally:
            self._tell_all(lambda observer: observer.close())

    def get_events(self, type: str) -> Sequence[Event]:
        return self.first.get_events(type)

    def _tell_all(self, tell: Callable[[Recorder], None]) -> None:
        for place in range(len(self.others)):
            self._tell(place, tell)

    def _tell(self, place: int, tell: Callable[[Recorder], None]) -> None:
        try:
            tell(self.others[place])
        except Exception as error:  # noqa: BLE001 - whatever an observer raises, the run goes on
            with self._lock:
                count, first = self._faults.get(place, (0, error))
                self._faults[place] = (count + 1, first)
