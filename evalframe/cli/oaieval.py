"""
`oaieval <completion_fn> <eval>`: run one eval.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from evalframe.cli.options import Parser, add_settings, given_settings, guarded, set_up_messages
from evalframe.cli.outcome import Outcome, add_outcome, announce, observer

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
    add_outcome(made)
    made.add_argument("--json", action="store_true", help="Print the report as JSON.")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = parser().parse(argv)
    return guarded(lambda: run(arguments), debug=bool(arguments.debug))


def run(arguments: argparse.Namespace) -> int:
    """Run the eval that the arguments name."""
    from evalframe.registry.registry import Registry
    from evalframe.runs.run import run_eval

    set_up_messages(debug=bool(arguments.debug), log_to_file=arguments.log_to_file)
    outcome = Outcome.asked_for(arguments)
    registry = Registry()
    result = run_eval(
        arguments.completion_fn,
        arguments.eval,
        registry=registry,
        observer=observer(arguments),
        on_start=lambda prepared: announce(prepared, registry),
        **given_settings(arguments),
    )
    return outcome.of(result)


if __name__ == "__main__":
    sys.exit(main())
