"""
`evalframe regrade LOG`: grade recorded answers again, without asking any model.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from evalframe.cli.options import add_settings, given_settings, whoever_listens
from evalframe.cli.outcome import Outcome, add_outcome, announce, observer

if TYPE_CHECKING:
    from evalframe.core.event import Event
    from evalframe.runs.run import RunResult

NOT_HEEDED = (
    "resume", "registry_path", "debug", "completion_args", "timeout_s", "max_retries", "max_total_retry_s", "max_retry_after_s",
    "cache", "cache_dir", "message_limit", "turn_limit", "token_limit", "time_limit", "working_limit", "cost_limit", "max_cost",
    "max_total_tokens",
)  # fmt: skip
"""Settings of a run that have nothing to say where no model is asked."""
MOST_SHOWN = 20
"""Changed verdicts on the screen."""

HELP = "Grade the answers of a log again, without asking any model; write a new log, and tell which verdicts changed."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("log", help="the log whose answers are graded")
    parser.add_argument("--eval", metavar="NAME", help="grade them as this eval, over the same data (default: the log's own, as it is now)")
    add_settings(parser, without=NOT_HEEDED)
    add_outcome(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from evalframe.registry.registry import Registry
    from evalframe.runs.regrade import regrade

    outcome = Outcome.asked_for(arguments)
    registry = Registry()
    result = regrade(
        arguments.log,
        eval=arguments.eval,
        registry=registry,
        observer=observer(arguments),
        on_start=lambda prepared: announce(prepared, registry),
        **given_settings(arguments),
    )
    code = outcome.of(result)
    if not arguments.json:
        with whoever_listens():
            show_changes(result)
    return code


def show_changes(result: RunResult) -> None:
    """Print the first of the verdicts that changed."""
    from evalframe.reports.console import table

    changed = result.events("verdict_changed")
    if not len(changed):
        print("\nno verdict changed")
        return
    rows = [(named(event), str(event.data["before"]).lower(), str(event.data["after"]).lower()) for event in changed[:MOST_SHOWN]]
    more = (
        f"\n... and {len(changed) - MOST_SHOWN} more; all: jq 'select(.type == \"verdict_changed\")' LOG"
        if len(changed) > MOST_SHOWN
        else ""
    )
    print("\n" + table([("sample", "right before", "right now"), *rows]) + more)


def named(event: Event) -> str:
    """A sample, and its epoch where it is not the first."""
    return str(event.sample_id) if event.epoch == 1 else f"{event.sample_id} (epoch {event.epoch})"
