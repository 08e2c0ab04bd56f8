"""
What all commands share: flags made from `RunConfig`, errors shown to a person, messages on stderr.
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import logging
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from evalframe.core.errors import BadSetting, EvalframeError, closest, described
from evalframe.core.secrets import Secrets
from evalframe.reports.console import harmless
from evalframe.runs.config import RunConfig, Setting

LOG_SUFFIX = ".jsonl"
UNEXPECTED = 1
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """
    A parser that says in one line what is wrong, and takes - and _ in flags for the same.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=Help, **more)

    def parse(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Parse arguments; an error ends the process with exit code 2."""
        ready_streams()
        words = [self._canonical(word) for word in (sys.argv[1:] if argv is None else argv)]
        optional = {flag for flag, action in self._option_string_actions.items() if action.nargs == "?"}
        return self.parse_args(list(bound(words, optional)))

    def _canonical(self, word: str) -> str:
        flag, equals, value = word.partition("=")
        if not flag.startswith("--") or flag in self._option_string_actions:
            return word
        for known in self._option_string_actions:
            if known.replace("-", "_") == flag.replace("-", "_"):
                return known + equals + value
        return word

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and end the process."""
        unknown = message.removeprefix("unrecognized arguments: ").split("=")[0].split(" ")[0]
        near = closest(unknown, self._option_string_actions, most=1) if message.startswith("unrecognized") else []
        hint = f" Closest: {near[0]}." if near else ""
        print(f"{self.prog}: error: {harmless(message)}.{hint} All: {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def bound(words: Sequence[str], flags: Collection[str]) -> Iterator[str]:
    """
    The words, with flags whose value may be missing bound to it: "--resume model eval" names a model, "--resume a.jsonl" a log.
    """
    left = iter(words)
    for word in left:
        if word not in flags:
            yield word
            continue
        after = next(left, None)
        if after is not None and (after.endswith(LOG_SUFFIX) or (Path(after).exists() and not Path(after).is_dir())):
            yield f"{word}={after}"
            continue
        yield f"{word}="
        if after is not None:
            yield from bound([after, *left], flags)


def ready_streams() -> None:
    """Make stdout and stderr take any text in any locale, and be there even where the caller has closed them."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open for as long as the process lives
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


class Help(argparse.HelpFormatter):
    """Help in a width that fits a page."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=110)


def add_settings(parser: argparse.ArgumentParser, *, without: Sequence[str] = ()) -> None:
    """Give a parser a flag for each setting of a run."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    defaults = {item.name: item.default for item in dataclasses.fields(RunConfig)}
    for name, known in RunConfig.settings().items():
        if name in without:
            continue
        if known.group not in groups:
            groups[known.group] = parser.add_argument_group(known.group)
        default, variable = defaults[name], f" [{known.variable}]" if known.variable else ""
        said = default_text(default, known)
        options: dict[str, Any] = {"dest": name, "default": None, "help": (known.help + said + variable).replace("%", "%%")}
        if known.switch:
            options["action"] = argparse.BooleanOptionalAction
        else:
            options["metavar"] = known.metavar
            if known.optional:
                options |= {"nargs": "?", "const": True}
            if known.many:
                options["action"] = "append"
        groups[known.group].add_argument(known.flag or f"--{name}", **options)


def default_text(default: Any, known: Setting) -> str:
    """What the help says of a default; nothing of one that means "not given"."""
    if known.switch:
        return " (default: yes)" if default is True else ""
    if default in (None, "", (), {}) or default is dataclasses.MISSING:
        return ""
    return f" (default: {str(default).lower() if isinstance(default, bool) else default})"


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line gives."""
    return {name: getattr(arguments, name) for name in RunConfig.settings() if getattr(arguments, name, None) is not None}


class HarmlessFormatter(logging.Formatter):
    """Control characters in messages are spelt out: a server, or a model, may have written them."""

    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record))


def set_up_messages(*, debug: bool, log_to_file: str | None) -> None:
    """Send our messages to stderr, or to a file."""
    logger = logging.getLogger("evalframe")
    try:
        handler: logging.Handler = logging.FileHandler(log_to_file, encoding="utf-8") if log_to_file else logging.StreamHandler(sys.stderr)
    except OSError as error:
        raise BadSetting(f"--log_to_file cannot be written: {log_to_file}: {error.strerror or error}.") from error
    handler.setFormatter(HarmlessFormatter("%(asctime)s %(message)s" if log_to_file else "%(message)s"))
    for before in logger.handlers:
        before.close()
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if debug else logging.INFO)
    logger.propagate = False
    logging.raiseExceptions = False  # where nobody reads stderr any more, there is nobody to tell that either


def counted(number: int, noun: str) -> str:
    """So many of a thing: "1 eval", "2 evals"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(message: str) -> None:
    """Tell a person something that is no result."""
    logging.getLogger("evalframe").info(harmless(message))


@contextmanager
def whoever_listens() -> Iterator[None]:
    """Print; where the reader of a pipe has gone or the terminal is closed, what comes after this goes on all the same."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if not is_unheard(error):
            raise
        say_no_more()


def is_unheard(error: Exception) -> bool:
    """Whether an error only tells that nobody reads the output any more."""
    return isinstance(error, OSError) and error.errno in (errno.EPIPE, errno.EIO)


def say_no_more() -> None:
    """Send stdout nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def guarded(command: Callable[[], int], *, debug: bool) -> int:
    """
    Run a command; whatever goes wrong is told in words.

    Returns:
        The exit code: that of the command, 2 where the question was wrong, 1 where something broke, 130 after Ctrl-C.
    """
    secrets = Secrets.from_environment(os.environ)
    try:
        code = command()
        sys.stdout.flush()
    except EvalframeError as error:
        show_error(described(error), secrets, debug=debug)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a defect of ours, told without a traceback unless asked for
        if is_unheard(error):
            say_no_more()
            return 0
        show_error(f"evalframe met an error of its own: {described(error)}. Run again with --debug to see where.", secrets, debug=debug)
        return UNEXPECTED
    return code


def show_error(message: str, secrets: Secrets, *, debug: bool) -> None:
    """Print an error on stderr."""
    if debug:
        print(harmless(secrets.mask(traceback.format_exc())), file=sys.stderr)
    print(harmless(secrets.mask(message)), file=sys.stderr)
