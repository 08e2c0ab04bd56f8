"""
Tables: CSV (RFC 4180) and TSV, whose first line names the columns.

Covers: UTF-8 with or without BOM; cells in double quotes, which may hold commas, line ends and doubled quotes; every row with a cell too
many or too few and every misplaced quote, told with its line and column. A cell is text, but for one of `input` that begins with [{, which
is a list of chat messages in JSON.
Does not cover: other separators, tables without names, Parquet.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from evalframe.core.errors import BadRows
from evalframe.datasets.jsonl import content
from evalframe.datasets.rows import Check, Digest, Inspection, LineNumbers, ListRows, Row
from evalframe.storage import json_text
from evalframe.storage.files import UTF8_BOM, shown

DELIMITERS = {".csv": ",", ".tsv": "\t"}
LONGEST_CELL = (1 << 31) - 1
"""Characters; Python's own limit of 131,072 is too low for prompts."""
ADVICE = 'Write a cell that holds a separator, a quote or a line end in double quotes, each quote in it doubled: "{""answer"": 2}"'


def load_table(path_or_url: str | Path, name: str, *, delimiter: str, check: Check | None = None, unique_ids: bool = True) -> ListRows:
    """
    Read a table.

    Args:
        path_or_url: The file.
        name: Its name, whose ending says whether it is compressed.
        delimiter: What stands between two cells.
        check: What else to look at in each row.
        unique_ids: Whether two rows may not have the same id.

    Raises:
        MissingData, NotData, EmptyDataset: If there is no such file, or there are no rows in it.
        BadRows, BadSample, Faults: Whatever is wrong with its rows, all of it.
    """
    where = shown(path_or_url)
    digest = Digest()
    raw = b"".join(content(path_or_url, name, digest)).removeprefix(UTF8_BOM)
    inspection = Inspection(where, check=check, unique_ids=unique_ids, advice=ADVICE)
    rows, lines = list[Row](), LineNumbers()
    for line, row in Table(decoded(raw, where), delimiter, inspection).rows():
        inspection.look(row, line)
        rows.append(row)
        lines.add(line)
    inspection.finish(len(rows))
    return ListRows(where, rows, lines, sha256=digest.sha256, bytes=digest.bytes)


def decoded(raw: bytes, name: str) -> str:
    """
    The text of a table.

    Raises:
        BadRows: With every line that is not UTF-8.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        inspection = Inspection(name, advice="Save the table as UTF-8 (in a spreadsheet program: CSV UTF-8).")
    for number, line in enumerate(raw.splitlines(), 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            inspection.refuse(f"is not UTF-8: byte 0x{line[error.start]:02x}", number, len(line[: error.start].decode("utf-8")) + 1)
    inspection.finish(1)
    raise AssertionError("one of the lines is not UTF-8")


class Table:
    """
    Reads records and makes rows of them; hands to `inspection` what cannot be one.

    Args:
        text: The whole table.
        delimiter: What stands between two cells.
        inspection: Who notes what is wrong.
    """

    def __init__(self, text: str, delimiter: str, inspection: Inspection) -> None:
        csv.field_size_limit(LONGEST_CELL)
        self._inspection = inspection
        self._delimiter = delimiter
        self._source = io.StringIO(text, newline="")
        self._taken: list[str] = []
        self._line = 0

    def rows(self) -> Iterator[tuple[int, Row]]:
        """
        Yield (line, row).

        Raises:
            BadRows: If the columns have no names of their own.
        """
        columns: list[str] = []
        for line, cells in self._records():
            if not columns:
                columns = self._named(line, cells)
            elif len(cells) != len(columns):
                self._refuse_ragged(line, cells, columns)
            elif (row := self._row(line, cells, columns)) is not None:
                yield line, row

    def _lines(self) -> Iterator[str]:
        """The lines, at LF, CR LF and CR, each noted as taken by the record under way."""
        for line in self._source:
            self._taken.append(line)
            yield line

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (line, cells) for each record that is no blank line."""
        reader = csv.reader(self._lines(), delimiter=self._delimiter, strict=True)
        columns: list[str] = []
        while True:
            begins = self._line + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                self._refuse_quote(begins, str(error), columns)
                continue
            finally:
                self._line += len(self._taken)
                record, self._taken = self._taken, []
            if any(part.strip() for part in record):
                columns = columns or cells
                yield begins, cells

    def _named(self, line: int, cells: list[str]) -> list[str]:
        """The names of the columns."""
        columns = [cell.strip() for cell in cells]
        nameless = [str(number) for number, name in enumerate(columns, 1) if not name]
        twice = [name for name, times in Counter(columns).items() if times > 1 and name]
        if nameless or twice:
            faults = [f"names no column {', '.join(nameless)}"] * bool(nameless) + [f"names twice: {', '.join(twice)}"] * bool(twice)
            place = self._inspection.place(line)
            raise BadRows(f"{place} {' and '.join(faults)}.", do="The first line must give each column a name of its own.")
        return columns

    def _row(self, line: int, cells: list[str], columns: list[str]) -> Row | None:
        row: Row = dict(zip(columns, cells, strict=True))
        text = row.get("input")
        if isinstance(text, str) and text.startswith("[{"):
            try:
                row["input"] = json_text.loads(text)
            except json.JSONDecodeError as error:
                self._inspection.refuse(f'column "input" begins like a list of messages, but is not JSON: {error}', line)
                return None
        return row

    def _refuse_ragged(self, line: int, cells: list[str], columns: list[str]) -> None:
        if len(cells) < len(columns):
            missing = ", ".join(f'"{name}"' for name in columns[len(cells) :])
            fault = f"has {len(cells)} of {len(columns)} cells; there is none for column {missing}"
        else:
            fault = (
                f"has {len(cells)} cells for {len(columns)} columns; a cell of column "
                f'"{self._torn(cells, columns)}" seems to hold a separator that is not in quotes'
            )
        self._inspection.refuse(fault, line)

    @staticmethod
    def _torn(cells: list[str], columns: list[str]) -> str:
        """The column whose cell was most likely cut at a separator: the first that looks like the beginning of JSON, else the last."""
        torn = next((name for name, cell in zip(columns, cells, strict=False) if cell.lstrip()[:1] in ("{", "[")), None)
        return torn or columns[-1]

    def _refuse_quote(self, begins: int, error: str, columns: list[str]) -> None:
        """Tell a quoting fault of the record that was being read."""
        index, line, unclosed = misplaced_quote("".join(self._taken), self._delimiter)
        name = f'column "{columns[index]}"' if index < len(columns) else f"cell {index + 1}"
        fault = "opens a quote that is never closed" if unclosed else f"goes on after its closing quote ({error})"
        self._inspection.refuse(f"{name} {fault}", begins + line)


def misplaced_quote(record: str, delimiter: str) -> tuple[int, int, bool]:
    """
    Where a record breaks the rules of quoting.

    Args:
        record: From its beginning to where reading broke off.
        delimiter: What stands between two cells.

    Returns:
        The index of the cell, the number of line ends before that cell, and whether the cell is never closed.
    """
    index, lines, position = 0, 0, 0
    while position < len(record):
        if record[position] == '"':
            end = closing_quote(record, position)
            after = record[end + 1 : end + 2]
            if end < 0 or after not in ("", delimiter, "\r", "\n"):
                return index, lines, end < 0
            lines += len(record[position:end].replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1
            position = end + 1
        following = record.find(delimiter, position)
        if following < 0:
            break
        index, position = index + 1, following + 1
    return index, lines, False


def closing_quote(record: str, opening: int) -> int:
    """Where the cell that opens with a quote at `opening` closes; -1 where it never does."""
    position = record.find('"', opening + 1)
    while position >= 0 and record[position + 1 : position + 2] == '"':
        position = record.find('"', position + 2)
    return position
