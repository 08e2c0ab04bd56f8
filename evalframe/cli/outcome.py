"""
What a command says of a run: before it, while it goes on, and what came of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalframe.cli.options import say, whoever_listens

if TYPE_CHECKING:
    from evalframe.registry.registry import Registry
    from evalframe.runs.prepare import Prepared
    from evalframe.runs.progress import Bar, Lines
    from evalframe.runs.run import RunResult


def add_outcome(parser: argparse.ArgumentParser) -> None:
    """Give a parser the flags that say what is to be done with a run's outcome."""
    group = parser.add_argument_group("the outcome")
    group.add_argument(
        "--min",
        action="append",
        default=[],
        metavar="METRIC=NUMBER",
        help="Fail with exit code 1 if a metric is below; may be given several times.",
    )
    group.add_argument("--junit", metavar="FILE", help="Write each sample as a test case of a JUnit XML file.")


@dataclass(frozen=True)
class Outcome:
    """
    What is to be done with a run's outcome.

    Args:
        minimums: The least that metrics must reach.
        junit: A file for its samples as test cases.
        as_json: Whether the report is printed as JSON.
    """

    minimums: Mapping[str, float]
    junit: str | None
    as_json: bool

    @classmethod
    def asked_for(cls, arguments: argparse.Namespace) -> Outcome:
        """
        What the command line asks for, looked at before anything is paid.

        Raises:
            BadSetting: If it cannot be done.
        """
        from evalframe.analysis.gate import read_minimums

        minimums = read_minimums(arguments.min)
        if arguments.junit:
            from evalframe.cli.junit import check_place

            check_place(arguments.junit)
        return cls(minimums, arguments.junit, arguments.json)

    def of(self, result: RunResult) -> int:
        """Show a result, write what is to be written, and return the command's exit code."""
        from evalframe.analysis.gate import below_minimum

        with whoever_listens():
            show(result, as_json=self.as_json)
        if self.junit:
            from evalframe.cli.junit import write_outcomes

            write_outcomes(result, self.junit)
        failures = below_minimum(result.report, self.minimums)
        for failure in failures:
            say(failure)
        return result.exit_code or bool(failures)


def how_to_go_on(result: RunResult) -> str:
    """What takes the run up again, where there is something left of it."""
    if not result.can_be_resumed or result.log_path is None:
        return ""
    from evalframe.runs.run import resume_command

    return f"to go on with what is left: {resume_command(result.log_path)}"


def observer(arguments: argparse.Namespace, name: str = "") -> Bar | Lines | None:
    """Who shows progress; `name` tells several runs apart."""
    import os

    from evalframe.runs.config import RunConfig
    from evalframe.runs.progress import progress

    given = {"show_progress": arguments.show_progress} if arguments.show_progress else {}
    return progress(RunConfig.resolve(given, os.environ).show_progress, name=name)


def announce(prepared: Prepared, registry: Registry) -> None:
    """Say what is about to happen, and where the log lies."""
    for warning in (*registry.warnings, *prepared.warnings):
        say(f"warning: {warning}")
    config, names = prepared.config, ", ".join(prepared.run_spec.completion_fns)
    workers = "one after the other" if config.sequential else f"{config.threads} at once"
    tries = f"{config.max_retries + 1} tries within {config.max_total_retry_s:g} s" if config.max_retries else "1 try"
    begins = f"{prepared.run_spec.eval_name} with {names}: samples {workers}; a call gets {tries}, of {config.timeout_s:g} s each"
    say(f"{begins}\nlog: {prepared.log_path or 'none (dry run)'}{', taken up again' if prepared.resume else ''}")


def show(result: RunResult, *, as_json: bool) -> None:
    """Print the report on stdout, and what else should be read on stderr."""
    log_path = str(result.log_path) if result.log_path else None
    if as_json:
        import json

        outcome = {
            "eval": result.run_spec.eval_name, "completion_fns": result.run_spec.completion_fns, "status": result.status,
            "reason": result.reason, "samples": result.counts.to_line(), "reused": result.reused, "report": result.report, "log": log_path,
        }  # fmt: skip
        print(json.dumps(outcome, ensure_ascii=True, indent=2, default=str))
    else:
        from evalframe.reports.console import report_text

        title = f"{result.run_spec.eval_name} with {', '.join(result.run_spec.completion_fns)}"
        print(
            report_text(
                title,
                result.report,
                result.counts.to_line(),
                log_path=log_path,
                status=result.status,
                reason=result.reason,
                seconds=result.seconds,
                reused=result.reused,
            )
        )
    for notice in (*result.notices, how_to_go_on(result)):
        if notice:
            say(notice)
