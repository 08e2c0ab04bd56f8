"""
`evalframe cache`: what is kept of answers on this machine, and throwing it out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

from evalframe.cli.options import counted, say
from evalframe.core.errors import BadSetting
from evalframe.reports.console import harmless, table
from evalframe.runs.answers import kept_answers
from evalframe.runs.config import RunConfig, duration

HELP = "Tell what the cache of answers holds (stats), or throw answers out of it (clear)."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's own arguments."""
    parser.add_argument("action", choices=("stats", "clear"), help="what to do")
    parser.add_argument("--cache_dir", metavar="DIR", help="Folder of the cache (default: EVALFRAME_ANSWER_CACHE_DIR, else the user's).")
    parser.add_argument("--older_than", metavar="AGE", help="clear: only answers older than 30d, 12h, 90m, 45s.")
    parser.add_argument("--model", metavar="NAME", help="clear: only answers of this model.")
    parser.add_argument("--yes", action="store_true", help="clear: do not ask first.")


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked, and return the exit code."""
    given = {"cache_dir": arguments.cache_dir} if arguments.cache_dir else {}
    kept = kept_answers(RunConfig.resolve(given, os.environ).cache_dir)
    try:
        if arguments.action == "stats":
            show(kept.cache.stats(), as_json=arguments.json)
        else:
            gone = clear(kept.cache, arguments)
            print(json.dumps({"cleared": gone}) if arguments.json else f"{counted(gone, 'answer')} thrown out")
    finally:
        kept.close()
    return 0


def clear(cache: Any, arguments: argparse.Namespace) -> int:
    """
    Throw answers out, after asking.

    Raises:
        BadSetting: If nobody is there to be asked, or the age is none.
    """
    try:
        older_than_s = duration(arguments.older_than) if arguments.older_than else None
    except ValueError as error:
        raise BadSetting(f'--older_than takes {error}, not "{arguments.older_than}".') from None
    held = cache.stats()
    if not arguments.yes:
        if not sys.stdin.isatty():
            raise BadSetting(f"{counted(held['answers'], 'answer')} in {held['path']}: nobody is there to be asked.", do="Say --yes.")
        say(f"{counted(held['answers'], 'answer')} in {held['path']}. What is thrown out has to be paid for again. Go on? [y/N] ")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return 0
    gone: int = cache.clear(older_than_s=older_than_s, model=arguments.model)
    return gone


def show(held: dict[str, Any], *, as_json: bool) -> None:
    """Print what is kept."""
    if as_json:
        print(json.dumps(held, indent=2))
        return
    print(f"{held['path']}\n{counted(held['answers'], 'answer')}, {held['bytes']:,} bytes")
    if held["answers"]:
        print(f"the oldest of {day(held['oldest'])}, the newest of {day(held['newest'])}\n")
        print(table([("model", "answers"), *((harmless(model) or "(not known)", f"{times:,}") for model, times in held["models"].items())]))


def day(seconds: float) -> str:
    """A moment as its day, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
