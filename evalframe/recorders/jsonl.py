"""
The log: one JSONL file, readable while the run goes on, and its own checkpoint.

Covers: an event that is encoded the moment it is recorded; a finished sample that is with the kernel before anyone counts it, so that
`kill -9` costs at most what was in flight; a run that is taken up again in the same file, by one process at a time; a full disk (whole
lines stay, the run is told); memory that does not grow with what was recorded but for eight bytes an event.
Does not cover: loss of power, unless `fsync` is asked for.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import threading
import time
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from evalframe.core.attempts import Attempts
from evalframe.core.earlier import Earlier, Ended
from evalframe.core.errors import BadLog, LogUnavailable, described
from evalframe.core.event import Event
from evalframe.core.recorder import Recorder
from evalframe.core.scope import SampleScope
from evalframe.core.secrets import Secrets
from evalframe.core.specs import RunSpec
from evalframe.storage import json_text
from evalframe.storage.event_log import Scan, events_at, events_of, scan

FLUSH_BYTES = 1 << 16
"""Pending bytes that go to the kernel without waiting for a sample's end."""
FLUSH_S = 1.0
"""Seconds after which they do, looked at whenever something is recorded."""


class JsonlRecorder(Recorder):
    """
    Stream events to a file.

    Args:
        run_spec: The run; it becomes the first line of a new file.
        path: The file. Its folder is made where it is missing; a file that holds anything is written to only where `resume` says so.
        resume: What the log says of a process that takes the run up again; None for a new run.
        secrets: What must not be written.
        show_epoch: Whether every event carries its epoch.
        fsync: Whether a finished sample is on the platter, too, before it counts.
        clock: Monotonic seconds.

    Raises:
        LogUnavailable: If the file exists already, cannot be made, or another process is writing it.
        BadLog: If the file to be resumed is no log, or cannot be read.
    """

    def __init__(
        self,
        run_spec: RunSpec,
        path: str | Path,
        *,
        resume: Mapping[str, Any] | None = None,
        secrets: Secrets | None = None,
        show_epoch: bool = False,
        fsync: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(run_spec)
        self.path = Path(path).absolute()
        self._secrets = secrets or Secrets()
        self._show_epoch = show_epoch
        self._fsync = fsync
        self._monotonic = clock
        self._lock = threading.Lock()
        self._attempts = Attempts()
        self._offsets: dict[str, array[int]] = {}
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._written = 0
        self._flushed_at = clock()
        self.masked = 0
        self._fault: LogUnavailable | None = None
        self._before: Scan | None = None
        let_go_in_children(self)
        self._descriptor: int | None = open_new(self.path) if resume is None else open_again(self.path)
        if resume is None:
            self.write_line({"spec": run_spec.to_line()})
        else:
            self._take_up(self._descriptor)
            self.write_line({"resume": dict(resume)})

    def _take_up(self, descriptor: int | None) -> None:
        """Read what is there, and cut off the line that a kill has torn."""
        assert descriptor is not None
        try:
            before = self._before = scan(self.path)
            size = os.fstat(descriptor).st_size
            if before.spec is not None and before.whole_bytes < size:
                os.ftruncate(descriptor, before.whole_bytes)
            elif before.whole_bytes and os.pread(descriptor, 1, before.whole_bytes - 1) != b"\n":
                before.whole_bytes += os.write(descriptor, b"\n")
        except OSError as error:
            os.close(descriptor)
            raise LogUnavailable(f"cannot take up the log {self.path}: {error.strerror or error}.") from error
        if before.spec is None:
            os.close(descriptor)
            raise BadLog(f"{self.path} is not a log of evalframe: its first line holds no spec.")
        self._written, self._offsets, self._attempts = before.whole_bytes, before.offsets, before.attempts
        self._numbers = itertools.count(before.next_event_id)

    # ------------------------------------------------------------------ writing

    def write(self, event: Event) -> None:
        line = self._encode(event.to_line(show_epoch=self._show_epoch))
        with self._lock:
            self._offsets.setdefault(event.type, array("Q")).append(self._written + self._pending_bytes)
            self._append(line)
            if self._pending_bytes >= FLUSH_BYTES or self._monotonic() - self._flushed_at >= FLUSH_S:
                self._flush()

    def write_line(self, line: Mapping[str, Any]) -> None:
        encoded = self._encode(line)
        with self._lock:
            self._append(encoded)
            self._flush()

    def begin(self, scope: SampleScope) -> None:
        with self._lock:
            self._attempts.begin(scope.sample_id, scope.epoch, scope.attempt)

    def end(self, scope: SampleScope, data: Mapping[str, Any]) -> None:
        super().end(scope, data)
        with self._lock:
            self._flush()
            self._attempts.end(scope.sample_id, scope.epoch, scope.attempt, data)
        if self._fsync and self._descriptor is not None:
            os.fsync(self._descriptor)

    def flush(self) -> None:
        with self._lock:
            self._flush()

    def close(self) -> None:
        with self._lock:
            if self._descriptor is None:
                return
            try:
                if self._fault is None:
                    self._flush()
            finally:
                os.close(self._descriptor)
                self._descriptor = None

    def _encode(self, line: Mapping[str, Any]) -> bytes:
        encoded = json_text.dumps(line)
        if self._secrets.are_in(encoded):
            encoded = json_text.dumps(self._secrets.mask_line(json_text.loads(encoded)))
            self.masked += 1
        return encoded + b"\n"

    def _append(self, line: bytes) -> None:
        if self._fault is not None:
            raise self._fault
        if self._descriptor is None:
            raise LogUnavailable(f"the log {self.path} is closed; nothing more can be recorded in it.")
        self._pending.append(line)
        self._pending_bytes += len(line)

    def _flush(self) -> None:
        if not self._pending or self._descriptor is None:
            return
        data = memoryview(b"".join(self._pending))
        self._pending, self._pending_bytes = [], 0
        self._flushed_at = self._monotonic()
        start = self._written
        self._refuse_changes(self._descriptor)
        try:
            while data:
                sent = os.write(self._descriptor, data)
                self._written += sent
                data = data[sent:]
        except OSError as error:
            self._fault = LogUnavailable(
                f"cannot write to the log {self.path}: {error.strerror or error}. What was written before is whole.",
                do="Make room, or choose another place with --record_path or --log_dir.",
            )
            self._cut_to_whole_lines(start)
            raise self._fault from error

    def _refuse_changes(self, descriptor: int) -> None:
        """Stop where somebody else has written to the log, cut it or taken it away: what would be paid from here on could be lost."""
        found = os.fstat(descriptor)
        if found.st_nlink and found.st_size == self._written:
            return
        what = "was removed" if not found.st_nlink else f"has {found.st_size:,} bytes, and {self._written:,} were written"
        self._fault = LogUnavailable(
            f"somebody else has changed the log {self.path} while it was being written: it {what}.",
            do=() if not found.st_nlink else f"Resume it: what is whole in it is not asked again: evalframe resume {self.path}",
        )
        raise self._fault

    def _cut_to_whole_lines(self, start: int) -> None:
        """Take away the torn line that a failed write left behind."""
        if self._descriptor is None:
            return
        torn = os.pread(self._descriptor, self._written - start, start)
        self._written = start + torn.rfind(b"\n") + 1
        os.ftruncate(self._descriptor, self._written)

    # ------------------------------------------------------------------ taking a run up again

    def earlier(self) -> Earlier | None:
        return self._before.earlier if self._before is not None else None

    def ended(self, sample_id: str, epoch: int) -> Ended | None:
        return self._before.ends.get(self.path, sample_id, epoch) if self._before is not None else None

    def leave_out(self, is_kept: Callable[[str, int], bool]) -> int:
        if self._before is None:
            return 0
        left = [key for key in self._before.ends.keys() if not is_kept(*key) and not self._before.ends.is_left_out(*key)]  # noqa: SIM118
        if left:
            with self._lock:
                for key in left:
                    self._attempts.leave_out(*key)
            self.write_line({"resume": {"left_out": left}})
        return len(left)

    # ------------------------------------------------------------------ reading back

    def get_events(self, type: str) -> Sequence[Event]:
        with self._lock:
            if self._fault is None:
                self._flush()
            written = self._written
            offsets = array("Q", (offset for offset in self._offsets.get(type, ()) if offset < written))
            attempts = self._attempts
        events = LoggedEvents(self, offsets)
        if attempts.all_count:
            return events
        kept = array("Q", (offset for offset, event in zip(offsets, events, strict=True) if attempts.count(event)))
        return LoggedEvents(self, kept)

    def read(self, offsets: Sequence[int]) -> Iterator[Event]:
        """
        The events at these offsets: through the file that is being written, wherever it was moved to; by its name once it is closed.

        Raises:
            LogUnavailable: If somebody else has changed it.
        """
        try:
            if self._descriptor is None:
                yield from events_at(self.path, offsets)
            else:
                yield from events_of(self._descriptor, offsets)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise LogUnavailable(f"cannot read back the log {self.path}: {described(error)}. Did somebody else change it?") from error

    def let_go(self) -> None:
        """
        In a process that was forked off: close the file, which is the parent's to write, without writing what is pending there. Without
        this the child would hold the lock when the parent has ended.
        """
        self._lock = threading.Lock()  # whoever held it does not exist here
        self._pending, self._pending_bytes = [], 0
        self._fault = LogUnavailable(f"the log {self.path} is written by the process that has begun it; this one was forked off it.")
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_open: weakref.WeakSet[JsonlRecorder] = weakref.WeakSet()
_watched: list[bool] = []


def let_go_of_all() -> None:
    """Let go of every log that the parent of this process is writing."""
    for recorder in list(_open):
        recorder.let_go()


def let_go_in_children(recorder: JsonlRecorder) -> None:
    """See that a process forked off this one lets go of the log."""
    _open.add(recorder)
    if not _watched:
        _watched.append(True)
        os.register_at_fork(after_in_child=let_go_of_all)


class LoggedEvents(Sequence[Event]):
    """Events in a log, read when they are looked at. Eight bytes each."""

    def __init__(self, log: JsonlRecorder, offsets: array[int]) -> None:
        self._log = log
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return list(self._log.read(self._offsets[index]))
        return next(self._log.read((self._offsets[index],)))

    def __iter__(self) -> Iterator[Event]:
        return self._log.read(self._offsets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


def open_again(path: Path) -> int:
    """
    A descriptor of a log that no other process is writing.

    Raises:
        LogUnavailable: If it cannot be opened, or another process is writing it.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        raise LogUnavailable(f"cannot take up the log {path}: {error.strerror or error}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise LogUnavailable(
            f"another process is writing the log {path}: its run goes on.", do="Wait for it, or stop it, before you resume."
        ) from error
    return descriptor


def open_new(path: Path) -> int:
    """
    A descriptor of a file that this process made, or found empty.

    Raises:
        LogUnavailable: If the file holds something, is no regular file, or cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LogUnavailable(f"another process is writing the log {path}.", do="Choose another name with --record_path.") from error
    except OSError as error:
        raise LogUnavailable(
            f"cannot make the log {path}: {error.strerror or error}.", do="Choose another place with --record_path or --log_dir."
        ) from error
    if os.fstat(descriptor).st_size or not path.is_file():
        os.close(descriptor)
        raise LogUnavailable(
            f"the log {path} exists already; a log is never overwritten.",
            do=(
                "Take its run up again: add --resume.",
                "Or choose another name with --record_path, or leave it out: every run then gets a name of its own.",
            ),
        )
    return descriptor
