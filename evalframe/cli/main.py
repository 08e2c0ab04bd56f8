"""
`evalframe <command>`: everything beside running an eval.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from evalframe.cli.options import Parser, guarded, set_up_messages

COMMANDS = ("list", "show", "validate", "resume", "regrade", "cache")
"""Each is a module of `commands/`: HELP, add_arguments(parser), run(arguments) -> exit code."""


def parser() -> Parser:
    """The parser of the command."""
    made = Parser(
        prog="evalframe", description="Look at what can be run, take a run up again, grade one again. To run an eval: oaieval --help"
    )
    made.add_argument("--version", action="store_true", help="Print the version.")
    commands = made.add_subparsers(dest="command", metavar="command", parser_class=Parser)
    for name in COMMANDS:
        module = import_module(f"evalframe.cli.commands.{name}")
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        command.add_argument(
            "--registry_path", action="append", metavar="DIR", help="A registry beside the bundled one; may be given several times."
        )
        command.add_argument("--debug", action="store_true", help="Show tracebacks.")
        command.add_argument("--json", action="store_true", help="Print JSON.")
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    made = parser()
    arguments = made.parse(argv)
    if arguments.version:
        from evalframe.runs.provenance import own_version

        print(own_version())
        return 0
    if arguments.command is None:
        made.print_help()
        return 2
    return guarded(lambda: started(arguments), debug=arguments.debug)


def started(arguments: argparse.Namespace) -> int:
    """Run the command that the arguments name."""
    set_up_messages(debug=arguments.debug, log_to_file=getattr(arguments, "log_to_file", None))
    code: int = arguments.run(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main())
