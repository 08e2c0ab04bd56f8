"""
Where logs lie and what they are called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalframe.storage.event_log import spec_of

LOG_DIR = "./evallogs"
LOG_DIR_VARIABLE = "EVALFRAME_LOG_DIR"
LONGEST_NAME = 150
"""Characters of a log's name, ending included."""
UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")
SUFFIX = ".jsonl"


def safe(name: str) -> str:
    """A name in the alphabet A-Z a-z 0-9 . _ + -, and not hidden."""
    return UNSAFE.sub("-", name).strip("-.") or "x"


def log_name(run_id: str, completion_fn: str, eval_name: str) -> str:
    """
    A log's name: `YYYYMMDD-HHMMSS_<completion_fn>_<eval>_<6 random>.jsonl`.

    The run's id begins with the time and ends with what is random; the names between them are cut so that the whole stays short.
    """
    when, _, token = run_id.rpartition("_")
    room = LONGEST_NAME - len(when) - len(token) - len(SUFFIX) - 3
    tested, asked = safe(completion_fn.rsplit("://", 1)[-1].rsplit("@", 1)[-1]), safe(eval_name)
    asked = asked[: max(room - len(tested), room // 2)]
    tested = tested[: room - len(asked)]
    return f"{when}_{tested}_{asked}_{token}{SUFFIX}"


def log_dir(given: str | None, environ: Mapping[str, str]) -> Path:
    """The folder for logs: as given, else as the environment says, else ./evallogs."""
    return Path(given or environ.get(LOG_DIR_VARIABLE) or LOG_DIR).expanduser().absolute()


def logs_in(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The logs in a folder and the runs they tell of, the newest first."""

    def age(path: Path) -> float:
        try:
            return -path.stat().st_mtime
        except OSError:
            return 0.0

    for path in sorted(folder.glob(f"*{SUFFIX}"), key=age):
        with suppress(OSError):
            spec = spec_of(path)
            if spec is not None:
                yield path, spec
