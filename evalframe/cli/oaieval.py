"""
`oaieval <completion_fn> <eval>`: run one eval.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalframe.cli.options import Parser, add_settings, given_settings, guarded, say, set_up_messages, whoever_listens

if TYPE_CHECKING:
    from evalframe.registry.registry import Registry
    from evalframe.runs.prepare import Prepared
    from evalframe.runs.progress import Bar, Lines
    from evalframe.runs.run import RunResult

DESCRIPTION = "Run an eval: ask a model every question of a data set, grade the answers, keep a log that explains every point."
EPILOG = """\
exit codes: 0 done; 1 the run or a threshold failed; 2 the question was wrong; 130 and 143 interrupted.
Wrong answers alone never fail a run. What there is to run: evalframe list
"""


def parser() -> Parser:
    """The parser of the command."""
    made = Parser(prog="oaieval", usage="%(prog)s [options] completion_fn eval", description=DESCRIPTION, epilog=EPILOG)
    made.add_argument(
        "completion_fn",
        help="who is asked: a model's name (openai/..., local/smollm2, a bare name for OPENAI_BASE_URL), an entry of the registry, "
        "or several parted by commas",
    )
    made.add_argument("eval", help="what is asked: the name of an eval, see evalframe list")
    add_settings(made)
    outcome = made.add_argument_group("the outcome")
    outcome.add_argument(
        "--min",
        action="append",
        default=[],
        metavar="METRIC=NUMBER",
        help="Fail with exit code 1 if a metric is below; may be given several times.",
    )
    outcome.add_argument("--junit", metavar="FILE", help="Write each sample as a test case of a JUnit XML file.")
    outcome.add_argument("--json", action="store_true", help="Print the report as JSON.")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = parser().parse(argv)
    return guarded(lambda: run(arguments), debug=bool(arguments.debug))


def run(arguments: argparse.Namespace) -> int:
    """Run the eval that the arguments name."""
    from evalframe.analysis.gate import below_minimum, read_minimums
    from evalframe.registry.registry import Registry
    from evalframe.runs.run import run_eval

    set_up_messages(debug=bool(arguments.debug), log_to_file=arguments.log_to_file)
    minimums = read_minimums(arguments.min)
    if arguments.junit:
        from evalframe.cli.junit import check_place

        check_place(arguments.junit)
    registry = Registry()
    result = run_eval(
        arguments.completion_fn,
        arguments.eval,
        registry=registry,
        observer=observer(arguments),
        on_start=lambda prepared: announce(prepared, registry),
        **given_settings(arguments),
    )
    with whoever_listens():
        show(result, as_json=arguments.json)
    if arguments.junit:
        from evalframe.cli.junit import write_outcomes

        write_outcomes(result, arguments.junit)
    for failure in below_minimum(result.report, minimums):
        say(failure)
        result.exit_code = result.exit_code or 1
    return result.exit_code


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


if __name__ == "__main__":
    sys.exit(main())
