"""
Load the rows of a data set, by the ending of its name: .jsonl, .json, .csv, .tsv, each also compressed; from a path or a URL.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from evalframe.core.errors import BadRows, NotData
from evalframe.datasets.jsonl import NAMES, JsonlRows, content, hold_jsonl
from evalframe.datasets.rows import Check, Digest, Inspection, LineNumbers, ListRows, Row, Rows
from evalframe.datasets.tables import DELIMITERS, load_table
from evalframe.storage import json_text
from evalframe.storage.compression import STREAMS, compression_of, without_compression
from evalframe.storage.files import UTF8_BOM, local_path, shown

JSONL_ENDINGS = (".jsonl", ".ndjson")
KNOWN = f"Known are .jsonl, .json (a list of objects), .csv and .tsv, each also with {', '.join(STREAMS)}."


def load_rows(path_or_url: str | Path, *, check: Callable[[Any], str | None] | None = None, unique_ids: bool = True) -> Rows:
    """
    The rows of a data set, all of them looked at.

    Args:
        path_or_url: A path, or a URL.
        check: Says what is wrong with a row, as a phrase that goes on after "file:line"; None where nothing is.
        unique_ids: Whether two rows may not have the same "id" ("1" and 1 are the same).

    Returns:
        The rows. Those of a plain JSONL file on this machine are read when they are looked at, others are held in memory.

    Raises:
        MissingData, NotData, EmptyDataset: If there is no such file, or no rows in it.
        BadRows, BadSample, Faults: Whatever is wrong with its rows, all of it, with file:line:column.
    """
    path = local_path(path_or_url)
    name = path.name if path is not None else PurePosixPath(urlsplit(str(path_or_url)).path).name
    ending = PurePosixPath(without_compression(name)).suffix.lower()
    if ending in DELIMITERS:
        return load_table(path_or_url, name, delimiter=DELIMITERS[ending], check=check, unique_ids=unique_ids)
    if ending == ".json":
        return load_list(path_or_url, name, check=check, unique_ids=unique_ids)
    if ending not in JSONL_ENDINGS and not (path is not None and is_stream(path)):
        refuse_unknown(path_or_url, name)
    if path is not None and not compression_of(name) and not is_stream(path):
        return JsonlRows(path, check=check, unique_ids=unique_ids)
    return hold_jsonl(path_or_url, name, check=check, unique_ids=unique_ids)


def is_stream(path: Path) -> bool:
    """Whether this can be read only once, as <(command) of a shell can."""
    return path.exists() and not path.is_file() and not path.is_dir()


def refuse_unknown(path_or_url: str | Path, name: str) -> None:
    """
    Look into a file whose ending says nothing.

    Raises:
        NotData: If it does not begin like JSONL.
    """
    start = b""
    for chunk in content(path_or_url, name, Digest()):
        start = (start + chunk).removeprefix(UTF8_BOM).lstrip()
        if start:
            break
    if start and not start.startswith(b"{"):
        raise NotData(f"{shown(path_or_url)} is of no known format, and does not look like JSONL.", do=KNOWN)


def load_list(path_or_url: str | Path, name: str, *, check: Check | None = None, unique_ids: bool = True) -> ListRows:
    """The rows of a JSON file that holds a list of objects; raises as `load_rows`. The "line" of a row is its place in the list, from 1."""
    where = shown(path_or_url)
    digest = Digest()
    rows, lines = list[Row](), LineNumbers()
    inspection = Inspection(where, check=check, unique_ids=unique_ids, advice="Each row must be an object.", unit="row")
    for number, value in enumerate(read_list(b"".join(content(path_or_url, name, digest)), where), 1):
        if isinstance(value, dict):
            inspection.look(value, number)
            rows.append(value)
            lines.add(number)
        else:
            inspection.refuse(f"is {NAMES[type(value)]}, not an object", number)
    inspection.finish(len(rows))
    return ListRows(where, rows, lines, sha256=digest.sha256, bytes=digest.bytes)


def read_list(raw: bytes, name: str) -> list[Any]:
    """
    The list in a JSON file.

    Raises:
        BadRows: If it is not JSON.
        NotData: If it holds something else than a list.
    """
    raw = raw.removeprefix(UTF8_BOM)
    try:
        value = json_text.loads(raw) if raw.strip() else []
    except json.JSONDecodeError as error:
        several = error.msg == "Extra data" and raw.lstrip().startswith(b"{")
        do = "If it holds one object a line, name it .jsonl." if several else ()
        raise BadRows(f"{name}:{error.lineno}:{error.colno} is not JSON: {error.msg}.", do=do) from error
    except UnicodeDecodeError as error:
        line, column = raw.count(b"\n", 0, error.start) + 1, error.start - raw.rfind(b"\n", 0, error.start)
        raise BadRows(f"{name}:{line}:{column} is not UTF-8: byte 0x{raw[error.start]:02x}.", do="Save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise BadRows(f"{name} cannot be read: {error}.") from error
    if not isinstance(value, list):
        raise NotData(
            f"{name} holds {NAMES.get(type(value), 'an object')}, not a list of rows.", do="One object a line goes by the ending .jsonl."
        )
    return value


def get_jsonl(path: str | Path) -> list[Row]:
    """
    All rows of a JSONL file as a list; of a folder, those of all its .jsonl files, those of sub-folders too, in the order of their names.

    Args:
        path: A path, or a URL.

    Raises:
        DataError: As `load_rows`; but an "id" may stand in several rows.
    """
    folder = local_path(path)
    if folder is None or not folder.is_dir():
        return list(load_rows(path, unique_ids=False))
    files = sorted(Path(where) / name for where, _, names in os.walk(folder) for name in names if name.endswith(".jsonl"))
    return [row for file in files for row in load_rows(file, unique_ids=False)]
