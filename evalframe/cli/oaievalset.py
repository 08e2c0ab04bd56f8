"""
`oaievalset <completion_fn> <eval_set>`: run the evals of a set.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from evalframe.cli.options import Parser, add_settings, given_settings, guarded, say, set_up_messages, whoever_listens
from evalframe.cli.outcome import announce, observer, show
from evalframe.runs.config import PARALLEL

DESCRIPTION = "Run the evals of a set in this process. What has succeeded before is not run again; what has not is taken up where it ended."
EPILOG = """\
exit codes: 0 all evals done; 1 a run failed; 2 the question was wrong; 130 and 143 interrupted.
What there is to run: evalframe list eval_sets
"""


def parser() -> Parser:
    """The parser of the command."""
    made = Parser(prog="oaievalset", usage="%(prog)s [options] model eval_set", description=DESCRIPTION, epilog=EPILOG)
    made.add_argument("completion_fn", metavar="model", help="who is asked, as for oaieval")
    made.add_argument("eval_set", help="the name of a set, see evalframe list eval_sets")
    made.add_argument(
        "--resume", action=argparse.BooleanOptionalAction, default=True,
        help="Leave out evals that have succeeded before, and take up the others where they ended (default: yes).",
    )  # fmt: skip
    made.add_argument(
        "--exit-on-error", action=argparse.BooleanOptionalAction, default=False, help="Begin no further eval after the first that fails."
    )
    made.add_argument(
        "--parallel", type=int, default=PARALLEL, metavar="N",
        help=f"Evals at once; they share the workers, the earlier ones first (default: {PARALLEL}).",
    )  # fmt: skip
    made.add_argument("--json", action="store_true", help="Print the reports as JSON, one a run.")
    add_settings(made, without=("record_path", "resume"))
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = parser().parse(argv)
    return guarded(lambda: run(arguments), debug=bool(arguments.debug))


def run(arguments: argparse.Namespace) -> int:
    """Run the set that the arguments name."""
    from evalframe.core.errors import BadSetting, described
    from evalframe.registry.registry import Registry
    from evalframe.reports.console import table
    from evalframe.runs.eval_set import run_set

    set_up_messages(debug=bool(arguments.debug), log_to_file=arguments.log_to_file)
    if arguments.parallel < 1:
        raise BadSetting(f"--parallel takes a whole number from 1, not {arguments.parallel}.")
    registry = Registry()
    lines, codes = dict[int, tuple[str, ...]](), [0]
    for member in run_set(
        arguments.completion_fn,
        arguments.eval_set,
        resume=arguments.resume,
        exit_on_error=arguments.exit_on_error,
        registry=registry,
        parallel=arguments.parallel,
        observer=lambda name: observer(arguments, name),
        on_member=lambda number, total, spec: say(f"\n{number} of {total}: {spec.key}"),
        on_start=lambda prepared: announce(prepared, registry),
        **{name: value for name, value in given_settings(arguments).items() if name != "resume"},
    ):
        codes.append(member.exit_code)
        if member.result is not None:
            with whoever_listens():
                show(member.result, as_json=arguments.json)
        if member.error is not None:
            say(described(member.error))
        if member.done_before is not None:
            say(f"{member.eval_name} is done already: {member.done_before.path}")
        lines[member.number] = member.line()
    if not arguments.json:
        with whoever_listens():
            print("\n" + table([("eval", "status", "accuracy", "samples", "errors"), *(lines[number] for number in sorted(lines))]))
    left = [line[0] for _, line in sorted(lines.items()) if line[1] not in ("success", "done before")]
    if left:
        say(f"not done: {', '.join(left)}. The same command runs what is missing.")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
