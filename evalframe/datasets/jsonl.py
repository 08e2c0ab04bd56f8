"""
JSONL: a JSON object a line.

Covers: UTF-8 with or without BOM; lines that end in LF, CR LF or a bare CR, and nowhere else (a text may hold U+2028 or a form feed); blank
lines; a missing last line end. Each line is read once when the file is opened, and all faults are told; then a row is read when it is
looked at, so that a million rows cost eight bytes each. NaN and Infinity are taken as Python's json takes them.
Does not cover: a JSON value over several lines.
"""

from __future__ import annotations

import json
import os
import threading
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evalframe.core.errors import DataError
from evalframe.datasets.rows import Check, Digest, Inspection, LineNumbers, ListRows, Row, Rows
from evalframe.storage import json_text
from evalframe.storage.compression import compression_of, decompressed
from evalframe.storage.files import CHUNK_BYTES, UTF8_BOM, open_binary, open_local, read_chunks, refuse_missing, shown, with_head

SKIPPED_AT_START = ("\ufeff", "\x1e")
"""Marks that may stand before a value, as where files with BOMs were joined: one is skipped, as `jsonlines` does."""
ADVICE = "Each line must be one JSON object on its own."
NAMES = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number", type(None): "null"}


class Lines:
    """
    Splits bytes into lines, at LF, CR LF and CR.

    Args:
        chunks: The bytes.

    Attributes:
        offset: Where the line that was yielded last begins.
        number: Which line it is, from 1.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.offset = 0
        self.number = 0

    def __iter__(self) -> Iterator[bytes]:
        start, number = 0, 0
        for lines in whole_lines(self._chunks):
            for line in lines:
                number += 1
                self.number, self.offset = number, start
                start += len(line)
                if number == 1 and line.startswith(UTF8_BOM):
                    self.offset, line = len(UTF8_BOM), line[len(UTF8_BOM) :]
                yield line.rstrip(b"\r\n")


def whole_lines(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """
    The lines of the chunks with their ends, some at a time. `bytes.splitlines` knows no line ends but these three, unlike `str.splitlines`.
    """
    begun: list[bytes] = []
    for chunk in chunks:
        last_end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r", 0, -1))  # a CR at the very end may be half of a CR LF
        carried_cr = bool(begun) and begun[-1].endswith(b"\r")
        if last_end < 0 and not carried_cr:
            begun.append(chunk)
            continue
        lines = b"".join([*begun, chunk]).splitlines(keepends=True)
        begun = [] if lines[-1].endswith(b"\n") else [lines.pop()]
        yield lines
    if begun:
        yield b"".join(begun).splitlines(keepends=True)


def read_rows(chunks: Iterable[bytes], inspection: Inspection) -> Iterator[tuple[int, int, Row]]:
    """
    Yield (offset in bytes, line, row) for each good row; hand every bad one to `inspection`.

    Args:
        chunks: The file's content.
        inspection: Who notes what is wrong.
    """
    import jsonlines

    lines = Lines(chunks)
    reader = jsonlines.Reader(lines, loads=json_text.loads)
    while True:
        try:
            value = reader.read(allow_none=True, skip_empty=True)
        except EOFError:
            return
        except jsonlines.InvalidLineError as error:
            if not blank(error.line):
                inspection.refuse(*fault_of(error, lines.number))
            continue
        except RecursionError:
            inspection.refuse("is nested too deeply", lines.number)
            continue
        if isinstance(value, dict):
            inspection.look(value, lines.number)
            yield lines.offset, lines.number, value
        else:
            inspection.refuse(f"is {NAMES[type(value)]}, not an object", lines.number)


def blank(line: str | bytes) -> bool:
    """Whether a line holds nothing but white space; `jsonlines` knows only that of ASCII where it is given bytes."""
    return isinstance(line, str) and not line.strip().strip("\ufeff")


def fault_of(error: Any, line: int) -> tuple[str, int, int | None]:
    """What is wrong with a line that `jsonlines` refused: the fault, the line, the column."""
    cause = error.__cause__
    if isinstance(cause, json.JSONDecodeError):
        return f"is not JSON: {cause.msg}", line, cause.colno
    if isinstance(cause, UnicodeDecodeError):
        before = bytes(cause.object)[: cause.start].decode("utf-8")
        return f"is not UTF-8: byte 0x{cause.object[cause.start]:02x}", line, len(before) + 1
    return f"cannot be read: {cause}", line, None  # such as an integer of more digits than Python takes


def parse(raw: bytes) -> Any:
    """
    The value of the first line.

    Raises:
        ValueError: If it is not JSON, or not UTF-8.
    """
    text = raw.splitlines()[0].decode("utf-8") if raw else ""
    return json_text.loads(text[1:] if text.startswith(SKIPPED_AT_START) else text)


class JsonlRows(Rows):
    """
    The rows of a JSONL file on this machine, read when they are looked at; from several threads at once, too.

    Args:
        path: The file.
        check: What else to look at in each row.
        unique_ids: Whether two rows may not have the same id ("1" and 1 are the same).

    Raises:
        MissingData, NotData, EmptyDataset: If there is no such file, or there are no rows in it.
        BadRows, BadSample, Faults: Whatever is wrong with its rows, all of it.
    """

    reads_anew = True

    def __init__(self, path: str | Path, *, check: Check | None = None, unique_ids: bool = True) -> None:
        path = Path(path).absolute()
        inspection = Inspection(str(path), check=check, unique_ids=unique_ids, advice=ADVICE)
        digest = Digest()
        self._offsets = array("Q")
        self._lines = LineNumbers()
        with open_local(path) as file:
            self._state = state_of(file.fileno())
            for offset, line, _ in read_rows(with_head(digest.watch(read_chunks(file, path)), path), inspection):
                self._offsets.append(offset)
                self._lines.add(line)
        inspection.finish(len(self._offsets))
        super().__init__(path, sha256=digest.sha256, bytes=digest.bytes)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._offsets)

    def line_of(self, index: int) -> int:
        return self._lines[index]

    def row(self, index: int) -> Row:
        descriptor = self._open()
        try:
            return self._read(descriptor, index)
        finally:
            os.close(descriptor)

    def __iter__(self) -> Iterator[Row]:
        descriptor = self._open()
        try:
            for index in range(len(self)):
                yield self._read(descriptor, index)
        finally:
            os.close(descriptor)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def _open(self) -> int:
        """A descriptor of the file, which still holds what it held."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            refuse_missing(Path(self.path), error)
        try:
            self._refuse_change(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _refuse_change(self, descriptor: int) -> None:
        """A file that was touched is read once more: what was added behind the rows, or written anew but the same, does no harm."""
        state = state_of(descriptor)
        if state == self._state:
            return
        with self._lock:
            digest, rest = Digest(), self.bytes
            while rest and (chunk := os.pread(descriptor, min(CHUNK_BYTES, rest), self.bytes - rest)):
                rest -= sum(map(len, digest.watch([chunk])))
            if digest.sha256 != self.sha256:
                raise changed(self.path)
            self._state = state

    def _read(self, descriptor: int, index: int) -> Row:
        start = self._offsets[index]
        end = self._offsets[index + 1] if index + 1 < len(self._offsets) else self.bytes
        try:
            row = parse(os.pread(descriptor, end - start, start))
        except ValueError as error:
            raise changed(f"{self.path}:{self.line_of(index)}") from error
        if not isinstance(row, dict):
            raise changed(f"{self.path}:{self.line_of(index)}")
        return row


def state_of(descriptor: int) -> tuple[int, int, int, int]:
    """What tells that a file was touched."""
    stat = os.fstat(descriptor)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def changed(place: object) -> DataError:
    """The error for a file that was changed under a run."""
    return DataError(
        f"{place} has changed since its rows were checked.", do="Leave data files alone while a run reads them; start the run again."
    )


def hold_jsonl(path_or_url: str | Path, name: str, *, check: Check | None = None, unique_ids: bool = True) -> ListRows:
    """
    The rows of a JSONL file that is compressed or lies elsewhere, held in memory.

    Args:
        path_or_url: The file.
        name: Its name, whose ending says whether it is compressed.
        check: As `JsonlRows`.
        unique_ids: As `JsonlRows`.

    Raises:
        DataError: As `JsonlRows`, or if the file is damaged or cannot be fetched.
    """
    where = shown(path_or_url)
    inspection = Inspection(where, check=check, unique_ids=unique_ids, advice=ADVICE)
    digest = Digest()
    rows, lines = list[Row](), LineNumbers()
    for _, line, row in read_rows(content(path_or_url, name, digest), inspection):
        rows.append(row)
        lines.add(line)
    inspection.finish(len(rows))
    return ListRows(where, rows, lines, sha256=digest.sha256, bytes=digest.bytes)


def content(path_or_url: str | Path, name: str, digest: Digest) -> Iterator[bytes]:
    """
    What a file holds, piece by piece, decompressed where its name says so.

    Args:
        path_or_url: The file.
        name: Its name, for its ending.
        digest: Is shown the bytes as they lie there.

    Raises:
        DataError: If it is not there, not data, or damaged.
    """
    where = shown(path_or_url)
    chunks = with_head(digest.watch(read_chunks(open_binary(path_or_url), where)), where)
    ending = compression_of(name)
    return with_head(decompressed(chunks, ending, where), where) if ending else chunks
