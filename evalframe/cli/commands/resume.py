"""
`evalframe resume LOG`: take a run up again, as its log says it was asked.
"""

from __future__ import annotations

import argparse
import os
from contextlib import chdir
from pathlib import Path

from evalframe.cli.options import add_settings, given_settings, say
from evalframe.cli.outcome import Outcome, add_outcome, announce, observer

HELP = "Take a run up again where it ended: ask only what is missing, has failed or has changed."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("log", help="the log; the run goes on in the same file")
    add_settings(parser, without=("resume", "record_path", "log_dir", "dry_run", "dry_run_logging", "registry_path", "debug"))
    add_outcome(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from evalframe.registry.registry import Registry
    from evalframe.runs.resume import asked_by
    from evalframe.runs.run import run_eval

    for name in ("junit", "cache_dir"):  # they lie where the command is given, not where the run was begun
        if getattr(arguments, name):
            setattr(arguments, name, str(Path(getattr(arguments, name)).expanduser().absolute()))
    if arguments.registry_path:
        arguments.registry_path = [str(Path(path).expanduser().absolute()) for path in arguments.registry_path]
    outcome = Outcome.asked_for(arguments)
    again = asked_by(arguments.log, given_settings(arguments))
    registry = Registry()
    folder = again.folder if again.folder is not None and again.folder != Path.cwd() else None
    if folder is not None:
        say(f"in {folder}, where it was begun")
    with chdir(folder or os.curdir):
        result = run_eval(
            again.completion_fns,
            again.eval_name,
            registry=registry,
            observer=observer(arguments),
            on_start=lambda prepared: announce(prepared, registry),
            **again.settings,
        )
        return outcome.of(result)
