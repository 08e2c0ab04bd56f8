"""
The log: one JSONL file, readable while the run goes on, and its own checkpoint.

Covers: an event that is encoded the moment it is recorded; a finished sample that is with the kernel before anyone counts it, so that
`kill -9` costs at most what was in flight; a full disk (whole lines stay, the run is told); memory that does not grow with what was
recorded but for eight bytes an event.
Does not cover: loss of power, unless `fsync` is asked for.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from evalframe.core.errors import LogUnavailable
from evalframe.core.event import Event
from evalframe.core.recorder import Recorder, SampleScope
from evalframe.core.secrets import Secrets
from evalframe.core.specs import RunSpec
from evalframe.recorders.attempts import Attempts
from evalframe.storage import json_text

FLUSH_BYTES = 1 << 16
"""Pending bytes that go to the kernel without waiting for a sample's end."""
FLUSH_S = 1.0
"""Seconds after which they do, looked at whenever something is recorded."""
CHUNK_BYTES = 1 << 18


class JsonlRecorder(Recorder):
    """
    Stream events to a new file.

    Args:
        run_spec: The run; it becomes the file's first line.
        path: The file. Its folder is made where it is missing; a file that holds anything is never written to.
        secrets: What must not be written.
        show_epoch: Whether every event carries its epoch.
        fsync: Whether a finished sample is on the platter, too, before it counts.
        clock: Monotonic seconds.

    Raises:
        LogUnavailable: If the file exists already, or cannot be made.
    """

    def __init__(
        self,
        run_spec: RunSpec,
        path: str | Path,
        *,
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
        self._fault: LogUnavailable | None = None
        self._descriptor: int | None = open_new(self.path)
        self.write_line({"spec": run_spec.to_line()})

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
            self._attempts.begin(scope)

    def end(self, scope: SampleScope, data: Mapping[str, Any]) -> None:
        super().end(scope, data)
        with self._lock:
            self._attempts.end(scope, data["status"])
            self._flush()
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
        return self._secrets.mask_bytes(json_text.dumps(line)) + b"\n"

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

    def _cut_to_whole_lines(self, start: int) -> None:
        """Take away the torn line that a failed write left behind."""
        if self._descriptor is None:
            return
        torn = os.pread(self._descriptor, self._written - start, start)
        self._written = start + torn.rfind(b"\n") + 1
        os.ftruncate(self._descriptor, self._written)

    # ------------------------------------------------------------------ reading back

    def get_events(self, type: str) -> Sequence[Event]:
        with self._lock:
            if self._fault is None:
                self._flush()
            written = self._written
            offsets = array("Q", (offset for offset in self._offsets.get(type, ()) if offset < written))
            attempts = self._attempts
        events = LoggedEvents(self.path, offsets)
        if attempts.all_count:
            return events
        kept = array("Q", (offset for offset, event in zip(offsets, events, strict=True) if attempts.count(event)))
        return LoggedEvents(self.path, kept)


class LoggedEvents(Sequence[Event]):
    """Events in a log, read when they are looked at. Eight bytes each."""

    def __init__(self, path: Path, offsets: array[int]) -> None:
        self._path = path
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return list(LoggedEvents(self._path, self._offsets[index]))
        with self._path.open("rb") as file:
            file.seek(self._offsets[index])
            return Event.from_line(json_text.loads(file.readline()))

    def __iter__(self) -> Iterator[Event]:
        if not self._offsets:
            return
        with self._path.open("rb", buffering=CHUNK_BYTES) as file:
            for offset in self._offsets:
                file.seek(offset)
                yield Event.from_line(json_text.loads(file.readline()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


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
            do="Choose another name with --record_path, or leave it out: every run then gets a name of its own.",
        )
    return descriptor
