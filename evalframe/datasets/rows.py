"""
Rows of a data set, and everything that is wrong with them, told at once.
"""

from __future__ import annotations

import copy
import hashlib
from abc import abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from evalframe.core.errors import BadRows, BadSample, DataError, EmptyDataset, EvalFailed, Faults, described

Row = dict[str, Any]
Check = Callable[[Row], str | None]
"""Says what is wrong with a row, as a phrase that goes on after "file:line"; None where nothing is."""

TOLD = 20
"""Faults that are told in full; the rest is counted."""


class Rows(Sequence[Row]):
    """
    The rows of a file. Each look at a row gives a dict of its own, which may be changed at will.

    Args:
        path: The file, or its URL.
        sha256: Of the file as it lies there, compressed or not; hexadecimal.
        bytes: Its size.
    """

    reads_anew = False
    """Whether each look at a row gives a new one, which its reader may change."""

    def __init__(self, path: str | Path, *, sha256: str, bytes: int) -> None:
        self.path = path
        self.sha256 = sha256
        self.bytes = bytes

    @abstractmethod
    def line_of(self, index: int) -> int:
        """The line of the file, from 1, in which a row begins."""

    @abstractmethod
    def row(self, index: int) -> Row:
        """A row; `index` is within range and not negative."""

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self.row(each) for each in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"row {index} of {self.path}, which has {len(self)} rows")
        return self.row(position)

    def __iter__(self) -> Iterator[Row]:
        return (self.row(index) for index in range(len(self)))

    def __add__(self, other: Sequence[Row]) -> list[Row]:
        return [*self, *other] if isinstance(other, Rows | list | tuple) else NotImplemented

    def __radd__(self, other: Sequence[Row]) -> list[Row]:
        return [*other, *self] if isinstance(other, list | tuple) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows | list):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} rows of {self.path}>"


class ListRows(Rows):
    """
    Rows held in memory.

    Args:
        path, sha256, bytes: As `Rows`.
        rows: The rows.
        lines: The line of each.
    """

    def __init__(self, path: str | Path, rows: Sequence[Row], lines: LineNumbers, *, sha256: str, bytes: int) -> None:
        super().__init__(path, sha256=sha256, bytes=bytes)
        self._rows = rows
        self._lines = lines

    def __len__(self) -> int:
        return len(self._rows)

    def line_of(self, index: int) -> int:
        return self._lines[index]

    def row(self, index: int) -> Row:
        return copy.deepcopy(self._rows[index])


class LineNumbers:
    """
    The line of each row. Where every line is a row it is the row's index and one, so only the lines that are none are kept.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._lines = 0
        self._passed = array("Q")

    def add(self, line: int) -> None:
        """The next row stands in this line."""
        for _ in range(line - self._lines - 1):
            self._passed.append(self._rows)
        self._rows, self._lines = self._rows + 1, line

    def __getitem__(self, index: int) -> int:
        index = range(self._rows)[index]
        return index + 1 + bisect_right(self._passed, index)

    def __len__(self) -> int:
        return self._rows


class Digest:
    """
    Passes bytes on and knows in the end what they were.

    Attributes:
        bytes: How many.
    """

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.bytes = 0

    def watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks."""
        for chunk in chunks:
            self._sha256.update(chunk)
            self.bytes += len(chunk)
            yield chunk

    @property
    def sha256(self) -> str:
        """Of all bytes so far, hexadecimal."""
        return self._sha256.hexdigest()


class Inspection:
    """
    Looks at each row of a file, and raises in the end whatever was found.

    Args:
        name: The file, as it is to be named.
        check: What else to look at.
        unique_ids: Whether two rows may not have the same id.
        advice: What to do about rows that cannot be read.
        unit: What rows are counted in: "line", or "row" where they do not stand on lines.
    """

    def __init__(self, name: str, *, check: Check | None = None, unique_ids: bool = True, advice: str = "", unit: str = "line") -> None:
        self.name = name
        self._check = check
        self._unique_ids = unique_ids
        self._advice = advice
        self._unit = unit
        self._line_of_id: dict[str, int] = {}
        self._unreadable = FaultList()
        self._repeated = FaultList()
        self._unusable = FaultList()

    def refuse(self, fault: str, line: int, column: int | None = None) -> None:
        """A row, or what should be one, cannot be read: `fault` goes on after "file:line:column"."""
        self._unreadable.add(f"{self.place(line, column)} {fault}")

    def look(self, row: Row, line: int) -> None:
        """
        Look at a row.

        Raises:
            EvalFailed: If the check itself fails.
        """
        if self._unique_ids and "id" in row:
            self._note_id(row["id"], line)
        if self._check is None:
            return
        try:
            complaint = self._check(row)
        except DataError as error:
            complaint = f"is no good: {error}"
        except Exception as error:
            raise EvalFailed(f"the check of {self.place(line)} raised {described(error)}.") from error
        if complaint:
            self._unusable.add(f"{self.place(line)} {complaint}")

    def place(self, line: int, column: int | None = None) -> str:
        """Where something stands."""
        if self._unit != "line":
            return f"{self.name}, {self._unit} {line}"
        return f"{self.name}:{line}" if column is None else f"{self.name}:{line}:{column}"

    def _note_id(self, name: object, line: int) -> None:
        if not isinstance(name, str | int) or isinstance(name, bool):
            return
        first = self._line_of_id.setdefault(str(name), line)
        if first != line:
            self._repeated.add(f'{self.place(line)} has the id "{name}", which {self._unit} {first} has already')

    def finish(self, rows: int) -> None:
        """
        Raise what was found.

        Args:
            rows: How many good rows there are.

        Raises:
            BadRows: Rows that cannot be read, and ids that are given twice.
            BadSample: Rows that the check refused.
            Faults: Several of these.
            EmptyDataset: If there is no row at all.
        """
        found: list[DataError] = []
        if self._unreadable:
            found.append(BadRows(self._unreadable.told(), do=self._advice))
        if self._repeated:
            found.append(BadRows(self._repeated.told(), do="Give each row an id of its own, or leave the ids out."))
        if self._unusable:
            found.append(BadSample(self._unusable.told()))
        if len(found) > 1:
            raise Faults(found)
        if found:
            raise found[0]
        if not rows:
            raise EmptyDataset(f"{self.name} holds no rows.", do="Check that it is the right file, and that it was written to its end.")


class FaultList:
    """Faults of which the first are told and the rest is counted."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._count = 0

    def add(self, fault: str) -> None:
        """One more, without a full stop."""
        self._count += 1
        if self._count <= TOLD:
            self._first.append(fault.rstrip("."))

    def __bool__(self) -> bool:
        return self._count > 0

    def told(self) -> str:
        """All of them as one text: one a line where there are several."""
        more = self._count - len(self._first)
        lines = [f"{fault}." for fault in self._first]
        return "\n".join([*lines, f"... and {more} more."] if more else lines)
