"""
One pass over a log: what it is, where its events stand, how each attempt ended.

Covers: logs of killed runs (a torn last line), of runs that were taken up again, and of openai/evals (no `sample` events: everything
counts). A line is parsed whole only where that is needed; of the rest its ends are looked at. Memory: eight bytes an event and sixteen a
sample.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from evalframe.core.attempts import Attempts
from evalframe.core.completion import OUTCOMES, Usage, add_usage
from evalframe.core.earlier import Earlier, Ended
from evalframe.core.event import Event
from evalframe.storage import json_text

HEAD = re.compile(rb'\{"run_id": ?"[^"\\]*", ?"event_id": ?(\d+), ?"sample_id": ?(?:"([^"\\]*)"|null), ?"type": ?"([^"\\]*)", ?"data"')
"""How every event of ours and of openai/evals begins; a line that begins otherwise is parsed."""
TAIL = re.compile(rb'"created_at": ?"[^"\\]*"(?:, ?"epoch": ?(\d+))?(?:, ?"attempt": ?(\d+))?\}\s*$')
TAIL_BYTES = 160
NUMBERED = re.compile(r"(.*\.)(0|[1-9]\d{0,8})", re.DOTALL)
RESUME_HEAD = b'{"resume"'
MOST_NUMBERED = 1 << 25
"""Samples past this are kept one by one, so that an odd id in a log cannot ask for an array of gigabytes."""
ANSWERED = OUTCOMES[0]
LEFT_OUT = "left out"
DIGEST_CHARACTERS = 16
NOWHERE = Path()
BUFFER_BYTES = 1 << 20
READ_BYTES = 1 << 18


def readable(raw: bytes) -> dict[str, Any] | None:
    """A line of a log as a mapping; None for a torn one."""
    try:
        line = json_text.loads(raw)
    except (JSONDecodeError, UnicodeDecodeError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


class Ends:
    """Of each sample and epoch, where the line of its last end stands, and the hash of what was asked: sixteen bytes each."""

    def __init__(self) -> None:
        self._prefix: str | None = None
        self._offsets: dict[int, array[int]] = {}
        self._digests: dict[int, array[int]] = {}
        self._others: dict[tuple[str, int], tuple[int, int]] = {}
        self._odd: dict[tuple[str, int], tuple[int, str, bool, str | None]] = {}
        self._unended: dict[tuple[str, int], int] = {}

    def add(self, sample_id: str, epoch: int, attempt: int, offset: int, data: Mapping[str, Any]) -> None:
        """Keep the end of an attempt; a later one replaces it."""
        status = str(data.get("status"))
        digest = digest_of(str(data.get("input_sha256") or ""))
        outcome = data.get("outcome")
        if attempt != 1 or status != "completed" or data.get("unscored") or outcome != ANSWERED:
            self._odd[sample_id, epoch] = (attempt, status, bool(data.get("unscored")), outcome if outcome in OUTCOMES else None)
        else:
            self._odd.pop((sample_id, epoch), None)
        index = self._index(sample_id)
        if index is None:
            self._others[sample_id, epoch] = (offset, digest)
            return
        offsets = self._offsets.setdefault(epoch, array("Q"))
        digests = self._digests.setdefault(epoch, array("Q"))
        if index >= len(offsets):
            more = array("Q", bytes(8 * (index + 1 - len(offsets))))
            offsets.extend(more)
            digests.extend(more)
        offsets[index], digests[index] = offset, digest

    def add_unended(self, sample_id: str, epoch: int, attempt: int) -> None:
        """An attempt was begun that nothing ended: the next one is not to be taken for it."""
        self._unended[sample_id, epoch] = max(attempt, self._unended.get((sample_id, epoch), 0))

    def attempt(self, sample_id: str, epoch: int) -> int:
        """The number of the attempt that ended last; 0 where none has."""
        found = self._last(NOWHERE, sample_id, epoch)
        return found.attempt if found is not None else 0

    def get(self, path: Path, sample_id: str, epoch: int) -> Ended | None:
        """
        How the last attempt ended; its data is read from the log when it is asked for. The attempt's number is that of the last one that
        was begun.
        """
        unended = self._unended.get((sample_id, epoch), 0)
        found = self._last(path, sample_id, epoch)
        if found is None:
            return Ended(unended, "interrupted", "", False, None, dict) if unended else None
        return replace(found, attempt=unended) if unended > found.attempt else found

    def _last(self, path: Path, sample_id: str, epoch: int) -> Ended | None:
        index = self._index(sample_id)
        if index is None:
            found = self._others.get((sample_id, epoch))
            if found is None:
                return None
            offset, digest = found
        else:
            offsets = self._offsets.get(epoch)
            if offsets is None or index >= len(offsets) or not offsets[index]:
                return None
            offset, digest = offsets[index], self._digests[epoch][index]
        attempt, status, is_unscored, outcome = self._odd.get((sample_id, epoch), (1, "completed", False, ANSWERED))
        return Ended(attempt, status, f"{digest:0{DIGEST_CHARACTERS}x}", is_unscored, outcome, lambda: event_at(path, offset).data)

    def leave_out(self, sample_id: str, epoch: int) -> None:
        """What was asked there is not to be taken for an answer any more; the attempt's number stays."""
        attempt, *_ = self._odd.get((sample_id, epoch), (1,))
        self._odd[sample_id, epoch] = (attempt, LEFT_OUT, False, None)

    def is_left_out(self, sample_id: str, epoch: int) -> bool:
        """Whether `leave_out` was the last word on it."""
        return self._odd.get((sample_id, epoch), (1, "", False, None))[1] == LEFT_OUT

    def keys(self) -> Iterator[tuple[str, int]]:
        """Every sample and epoch that has ended."""
        for epoch, offsets in self._offsets.items():
            yield from ((f"{self._prefix}{index}", epoch) for index, offset in enumerate(offsets) if offset)
        yield from self._others

    def _index(self, sample_id: str) -> int | None:
        numbered = NUMBERED.fullmatch(sample_id)
        if numbered is None:
            return None
        if self._prefix is None:
            self._prefix = numbered[1]
        return int(numbered[2]) if numbered[1] == self._prefix and int(numbered[2]) < MOST_NUMBERED else None


def digest_of(sha256: str) -> int:
    """The first 64 bits of a hash; 0 where there is none."""
    try:
        return int(sha256[:DIGEST_CHARACTERS], 16)
    except ValueError:
        return 0


@dataclass
class Scan:
    """
    What one pass over a log tells.

    Args:
        spec: The run; None where the first line holds none.
        final: The line of the last report, unless the run was taken up again after it.
        offsets: Where the events of each type stand.
        attempts: Which of them count.
        ends: How each sample ended last.
        earlier: What was spent.
        next_event_id: One more than the highest.
        torn: Lines that are no JSON.
        whole_bytes: Where the last whole line ends; what comes after it is torn.
    """

    spec: dict[str, Any] | None = None
    final: dict[str, Any] | None = None
    offsets: dict[str, array[int]] = field(default_factory=dict)
    attempts: Attempts = field(default_factory=Attempts)
    ends: Ends = field(default_factory=Ends)
    earlier: Earlier = field(default_factory=Earlier)
    next_event_id: int = 0
    torn: int = 0
    whole_bytes: int = 0
    _own: str = ""
    _begun: set[tuple[str, int, int]] = field(default_factory=set)

    def take(self, offset: int, raw: bytes) -> None:
        """Take the line that stands at `offset`."""
        head = HEAD.match(raw)
        tail = TAIL.search(raw, max(0, len(raw) - TAIL_BYTES)) if head is not None else None
        if head is None or tail is None or not raw.endswith(b"\n") or head[3] == b"sample":
            self._take_parsed(offset, raw)
            return
        sample_id = head[2].decode("utf-8", "replace") if head[2] is not None else None
        self._take_event(offset, int(head[1]), sample_id, head[3].decode("utf-8", "replace"), int(tail[1] or 1), int(tail[2] or 1))

    def _take_parsed(self, offset: int, raw: bytes) -> None:
        line = readable(raw)
        if line is None:
            self.torn += 1
            return
        if isinstance(line.get("type"), str):
            event = Event.from_line(line)
            self._take_event(offset, event.event_id, event.sample_id, event.type, event.epoch, event.attempt)
            if event.type == "sample" and isinstance(event.data, Mapping):
                self._take_end(offset, event)
        elif "final_report" in line:
            self.final = line
        elif "resume" in line:
            self.final = None
            told = line["resume"] if isinstance(line["resume"], Mapping) else {}
            if "data" in told:
                self.earlier.data.append(hashes_of(told["data"]))
            for key in told.get("left_out") or ():
                self.attempts.leave_out(*key)
                self.ends.leave_out(*key)
        elif isinstance(line.get("spec"), dict) and self.spec is None:
            self.spec = line["spec"]
            self.earlier.data.append(hashes_of((self.spec.get("run_config") or {}).get("data")))
            self._own = f"{self.spec.get('base_eval')}.{self.spec.get('split')}."
        self.whole_bytes = offset + len(raw)

    def _take_event(self, offset: int, number: int, sample_id: str | None, kind: str, epoch: int, attempt: int) -> None:
        self.offsets.setdefault(kind, array("Q")).append(offset)
        self.next_event_id = max(self.next_event_id, number + 1)
        if sample_id is not None and kind != "sample" and sample_id.startswith(self._own):
            self._begun.add((sample_id, epoch, attempt))

    def _take_end(self, offset: int, event: Event) -> None:
        assert isinstance(event.sample_id, str)
        self._begun.discard((event.sample_id, event.epoch, event.attempt))
        self.attempts.end(event.sample_id, event.epoch, event.attempt, event.data)
        self.ends.add(event.sample_id, event.epoch, event.attempt, offset, event.data)
        earlier = self.earlier
        earlier.seconds += seconds(event.data.get("seconds"))
        earlier.waiting_s += seconds(event.data.get("waiting_seconds"))
        for name, total in (("usage", earlier.usage), ("judge_usage", earlier.judge_usage)):
            add_usage(total, {model: Usage.from_dict(raw) for model, raw in (event.data.get(name) or {}).items()})

    def finish(self) -> Scan:
        """The pass is over: attempts that were begun and never ended count for nothing; in a log without ends, all do."""
        if "sample" in self.offsets or (self.spec or {}).get("evalframe"):
            for sample_id, epoch, attempt in self._begun:
                if attempt > self.ends.attempt(sample_id, epoch):  # else it was recorded of an attempt that had ended
                    self.attempts.begin(sample_id, epoch, attempt)
                    self.ends.add_unended(sample_id, epoch, attempt)
        self._begun.clear()
        self.earlier.ended = sum(1 for _ in self.ends.keys())  # noqa: SIM118 - no mapping
        return self


def hashes_of(data: object) -> frozenset[str]:
    """The hashes of data files, as a log tells of them."""
    return (
        frozenset(str(facts["sha256"]) for facts in data if isinstance(facts, Mapping) and "sha256" in facts)
        if isinstance(data, list)
        else frozenset()
    )


def seconds(value: object) -> float:
    """A number of seconds that a log tells; 0 where it tells none."""
    return float(value) if isinstance(value, int | float) else 0.0


def scan(path: Path) -> Scan:
    """
    Pass over a log.

    Raises:
        OSError: If it cannot be read.
    """
    found, offset = Scan(), 0
    with path.open("rb", buffering=BUFFER_BYTES) as file:
        for raw in file:
            if raw.strip():
                found.take(offset, raw)
            offset += len(raw)
            if raw.endswith(b"\n"):
                found.whole_bytes = offset
    return found.finish()


def spec_of(path: Path) -> dict[str, Any] | None:
    """
    The run that a log tells of, from its first line alone; None where the file does not begin like a log.

    Raises:
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        line = readable(file.readline()) or {}
    return line["spec"] if isinstance(line.get("spec"), dict) else None


def resumes_of(path: Path) -> list[Mapping[str, Any]]:
    """
    What a log says of each process that took its run up; no other line is looked at, so this is quick.

    Raises:
        OSError: If it cannot be read.
    """
    with path.open("rb", buffering=BUFFER_BYTES) as file:
        lines = (readable(raw) or {} for raw in file if raw.startswith(RESUME_HEAD))
        return [line["resume"] for line in lines if isinstance(line.get("resume"), Mapping)]


def events_at(path: Path, offsets: Iterable[int]) -> Iterator[Event]:
    """The events that stand at these offsets of a log, read as they are asked for."""
    with path.open("rb", buffering=0) as file:
        yield from events_of(file.fileno(), offsets)


def events_of(descriptor: int, offsets: Iterable[int]) -> Iterator[Event]:
    """As `events_at`, of a log that is open; where it is read otherwise stays as it is."""
    start, held = 0, b""
    for offset in offsets:
        end = held.find(b"\n", offset - start) if start <= offset < start + len(held) else -1
        if end < 0:
            start, held = offset, os.pread(descriptor, READ_BYTES, offset)
            while (end := held.find(b"\n")) < 0 and (more := os.pread(descriptor, READ_BYTES, start + len(held))):
                held += more
            end = end if end >= 0 else len(held)
        yield Event.from_line(json_text.loads(held[offset - start : end]))


def event_at(path: Path, offset: int) -> Event:
    """The event that stands at an offset of a log."""
    return next(events_at(path, (offset,)))
