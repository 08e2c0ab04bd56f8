"""
What a log says of where it came from.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

FORMAT = 1
"""Of the log. A reader that knows this number can read the file."""


def provenance(folder: Path | None = None) -> dict[str, Any]:
    """Format, version, Python, platform, the folder the run was started in, and its git commit."""
    return {
        "format": FORMAT,
        "version": own_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "folder": str(folder or Path.cwd()),
        "git_commit": git_commit(folder or Path.cwd()),
    }


def own_version() -> str:
    """The installed version; "unknown" where the package runs without being installed."""
    try:
        return version("evalframe")
    except PackageNotFoundError:
        return "unknown"


def git_commit(folder: Path) -> str | None:
    """The commit checked out in `folder` or above it, read from git's own files; None outside of a checkout."""
    for place in (folder, *folder.parents):
        try:
            git = place / ".git"
            if git.is_file():  # a worktree or a submodule: "gitdir: <path>"
                git = (place / git.read_text(encoding="utf-8").partition(":")[2].strip()).resolve()
            if git.is_dir():
                return commit_of(git)
        except (OSError, UnicodeDecodeError):
            return None
    return None


def commit_of(git: Path) -> str | None:
    """What HEAD stands for in a git folder."""
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head or None
    reference = head.partition(":")[2].strip()
    common = git / "commondir"
    folders = [git, (git / common.read_text(encoding="utf-8").strip()).resolve()] if common.is_file() else [git]
    for folder in folders:
        if (folder / reference).is_file():
            return (folder / reference).read_text(encoding="utf-8").strip()
        if (folder / "packed-refs").is_file():
            for line in (folder / "packed-refs").read_text(encoding="utf-8").splitlines():
                commit, _, name = line.partition(" ")
                if name == reference:
                    return commit
    return None


def data_facts(rows: Sequence[Any]) -> dict[str, Any]:
    """What the log says of a data file: where it lies, what it holds."""
    facts: dict[str, Any] = {"path": str(getattr(rows, "path", "")), "rows": len(rows)}
    for name in ("sha256", "bytes"):
        if getattr(rows, name, None) is not None:
            facts[name] = getattr(rows, name)
    return facts
