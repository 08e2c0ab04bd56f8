"""
Answers of models by the SHA-256 of what was asked: one SQLite file, for as many threads and processes as there are.

Covers: a process killed in the middle of a write, which loses that answer and no other; several processes at once; a file that cannot be
used, which is told when it is opened. Of a question only its hash is written, and of the keys of accounts nothing.
Does not cover: a disk that fails later; `get` and `put` then say so. Processes that are forked off an open cache; they find nothing in it
and keep nothing, since SQLite's locks do not survive a fork. Answers are thrown out only by `clear`.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalframe.core.errors import BadSetting
from evalframe.storage import json_text
from evalframe.storage.files import is_url

if TYPE_CHECKING:
    from sqlite3 import Connection

FILE_NAME = "answers.sqlite"
APPLICATION_ID = 0x65766672
"""Marks a SQLite file as ours: "evfr"."""
FORMAT = 2
"""Since 2 each answer stands with when it was put and with its model; those of format 1 count as put when the file was brought to 2."""
BUSY_TIMEOUT_S = 30.0
"""How long a write waits for other processes; each of theirs takes less than a millisecond."""
AGAIN_S = 0.01
CHECKED_BYTES = 1 << 25
"""A file up to this size is looked through when it is opened, which takes a tenth of a second at most."""


class AnswerCache:
    """
    Keeps answers in a file of a folder.

    Args:
        folder: Made if it is not there.
        expires_s: Seconds after which an answer is given no more; None for never.
        now: Seconds since 1970.
        busy_timeout_s: How long to wait for other processes that write.

    Attributes:
        path: The file.

    Raises:
        BadSetting: If the file cannot be used.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        expires_s: float | None = None,
        now: Callable[[], float] = time.time,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        self.path = Path(folder).expanduser() / FILE_NAME
        self._expires_s = expires_s
        self._now = now
        self._busy_timeout_s = busy_timeout_s
        if is_url(folder):
            raise BadSetting(f"cannot use the cache {folder}: it is a URL.", do="Name a folder on this machine.")
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._connection = self._open()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path.parent)!r})"

    def __enter__(self) -> AnswerCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: str) -> dict[str, Any] | None:
        """
        What was kept under a key; None where nothing was, nothing that can be read, or something that has expired.

        Raises:
            BadSetting: If the file cannot be read any more.
        """
        oldest = 0.0 if self._expires_s is None else self._now() - self._expires_s
        row = self._run("SELECT value FROM answers WHERE key = ? AND at >= ?", (key, oldest))
        try:
            value = json_text.loads(row[0]) if row else None
        except (JSONDecodeError, UnicodeDecodeError, RecursionError, AttributeError, TypeError):
            return None  # somebody else's hand was in it; the next `put` mends it
        return value if isinstance(value, dict) else None

    def put(self, key: str, value: Mapping[str, Any], *, model: str | None = None) -> None:
        """
        Keep a JSON object under a key, in place of what was there. When this returns, no end of the process can lose it.

        Raises:
            BadSetting: If it cannot be written.
        """
        row = (key, json_text.dumps(value), self._now(), model)
        self._run("INSERT OR REPLACE INTO answers (key, value, at, model) VALUES (?, ?, ?, ?)", row)

    def stats(self) -> dict[str, Any]:
        """
        What is kept: path, bytes of the file, answers in all and by model ("" where it is not known), when the oldest and the newest were
        put (seconds since 1970; None where there are none).

        Raises:
            BadSetting: If the file cannot be read any more.
        """
        rows = self._all("SELECT coalesce(model, ''), count(*), min(at), max(at) FROM answers GROUP BY 1 ORDER BY 2 DESC, 1", ())
        return {
            "path": str(self.path),
            "bytes": self.path.stat().st_size,
            "answers": sum(row[1] for row in rows),
            "models": {row[0]: row[1] for row in rows},
            "oldest": min((row[2] for row in rows), default=None),
            "newest": max((row[3] for row in rows), default=None),
        }

    def clear(self, *, older_than_s: float | None = None, model: str | None = None) -> int:
        """
        Throw answers out, and give their room back where nobody else has the file open.

        Args:
            older_than_s: Only those that were put longer ago.
            model: Only those of this model.

        Returns:
            How many they were.

        Raises:
            BadSetting: If the file cannot be written.
        """
        before = math.inf if older_than_s is None else self._now() - older_than_s
        gone = self._all("DELETE FROM answers WHERE at <= ? AND (? IS NULL OR model = ?) RETURNING 1", (before, model, model))
        with suppress(BadSetting):  # others are at work in it; the room is used again
            self._all("VACUUM", ())
            self._all("PRAGMA wal_checkpoint(TRUNCATE)", ())
        return len(gone)

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        if os.getpid() == self._process:
            with self._lock:
                self._connection.close()

    def _run(self, statement: str, values: Sequence[Any]) -> Any:
        """The first row that a statement gives, which is a transaction of its own."""
        return next(iter(self._all(statement, values)), None)

    def _all(self, statement: str, values: Sequence[Any]) -> list[Any]:
        """Every row that a statement gives, which is a transaction of its own."""
        import sqlite3

        if os.getpid() != self._process:
            return []
        try:
            with self._lock:
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(str(error)) from error

    def _open(self) -> Connection:
        """
        Open the file, make it where it is not there, and write to it, so that a fault shows now.

        Raises:
            BadSetting: If that fails.
        """
        try:
            import sqlite3
        except ImportError as error:  # Python can be built without it
            raise self._unusable(f"this Python has no SQLite ({error})") from error
        connection: Connection | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(str(self.path), timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False)
            self._claim(connection)
            self._write_ahead(connection)
            self._look_through(connection)
        except (OSError, ValueError, sqlite3.Error, BadSetting) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, BadSetting):
                raise
            raise self._unusable(getattr(error, "strerror", None) or str(error)) from error
        return connection

    def _claim(self, connection: Connection) -> None:
        """Make of an empty file what it should be, and of another program's nothing; closing the connection takes back what was begun."""
        connection.execute("BEGIN IMMEDIATE")
        mark, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if mark != APPLICATION_ID and (mark or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]):
            raise self._unusable("it was made by another program")
        if mark == APPLICATION_ID and version > FORMAT:
            raise self._unusable(f"it was made by a newer evalframe (format {version}, and this one knows {FORMAT})")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS answers "
            "(key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL, at REAL NOT NULL DEFAULT 0, model TEXT)"
        )
        if "at" not in {row[1] for row in connection.execute("PRAGMA table_info(answers)")}:
            connection.execute("ALTER TABLE answers ADD COLUMN at REAL NOT NULL DEFAULT 0")
            connection.execute("ALTER TABLE answers ADD COLUMN model TEXT")
            connection.execute("UPDATE answers SET at = ?", (self._now(),))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")  # a real write, each time: a full disk shows here
        connection.execute("COMMIT")

    def _look_through(self, connection: Connection) -> None:
        """Find damage now, where that does not take long."""
        if self.path.stat().st_size <= CHECKED_BYTES:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise self._unusable(f"it is damaged ({' '.join(str(found).split())})")

    def _write_ahead(self, connection: Connection) -> None:
        """
        Let readers and a writer be at work at once, where the file system can do that (a network's cannot).

        A commit then waits for no platter: no end of a process harms it; a loss of power may cost the last answers, and no others.
        """
        if patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0], self._busy_timeout_s) == "wal":
            connection.execute("PRAGMA synchronous = NORMAL")

    def _unusable(self, reason: str) -> BadSetting:
        return BadSetting(
            f"cannot use the cache {self.path}: {reason.rstrip('.')}.",
            do=("Name another folder with --cache_dir.", "Or delete the file: what it holds is asked again.", "Or run without --cache."),
        )


def patiently(step: Callable[[], Any], timeout_s: float) -> Any:
    """
    What `step` returns; tried again while another process holds the file, since SQLite itself does not wait before a change of its mode.

    Returns:
        None where the file system cannot do it.
    """
    import sqlite3

    ends = time.monotonic() + timeout_s
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            code = (error.sqlite_errorcode or 0) & 0xFF
            if code in (sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_IOERR):
                return None
            if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() >= ends:
                raise
        time.sleep(AGAIN_S)
