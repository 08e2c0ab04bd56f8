"""
The settings of a run. A setting is a field of `RunConfig`, which alone holds its default, flag, environment variable and help.

A value is taken from the command line or the call, else from the environment, else from the eval's spec (`run: {...}`), else from the
default. What held is in the log. A run that is taken up again has the values of its log for whatever bears on results, unless the
command line or the call says otherwise.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evalframe.core.errors import BadSetting, EvalframeError, Faults, closest
from evalframe.logs.find import LOG_DIR_VARIABLE
from evalframe.loop import COROUTINES, GRACE_S, SEQUENTIAL_VARIABLE, THREADS, WORKERS, WORKERS_VARIABLE

LONGEST_S = 1e8
"""Three years; beyond it, some systems take no time limit."""
MOST_EPOCHS = 1_000_000
MOST_THREADS = 10_000
"""Beyond it a machine would have to hold more stacks than it can."""
PARALLEL = 4
"""Evals of a set at once."""
YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"0", "false", "no", "off"})


# ---------------------------------------------------------------------- how a value is read


def boolean(value: Any) -> bool:
    """True or false, also as text."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in YES or text in NO:
        return text in YES
    raise ValueError("true or false")


def whole(least: int, most: int | None = None) -> Callable[[Any], int]:
    """A whole number, at least so large, and at most so large."""
    bounds = f"at least {least}" if most is None else f"from {least} to {most:,}"

    def read(value: Any) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int) or number < least or (most is not None and number > most):
            raise ValueError(f"a whole number, {bounds}")
        return number

    return read


def seconds(value: Any) -> float:
    """Seconds, more than none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not 0 < number <= LONGEST_S:
        raise ValueError(f"a number of seconds above 0, {LONGEST_S:,.0f} at most")
    return number


UNITS_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}


def duration(value: Any) -> float | None:
    """Seconds, also as 30d, 12h, 90m or 45s; None for "never"."""
    told = str(value).strip().lower()
    if told == "never":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([dhms]?)", told)
    number = float(found[1]) * UNITS_S[found[2]] if found and not isinstance(value, bool) else math.nan
    if not 0 < number <= LONGEST_S:
        raise ValueError("an age such as 30d, 12h, 90m or 45s, or never")
    return number


def dollars(value: Any) -> float:
    """US dollars, more than none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number) or number <= 0:
        raise ValueError("a number of US dollars above 0")
    return number


def tolerance(value: Any) -> bool | float:
    """True, false, a share between 0 and 1, or a count."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("true", "yes", "on", "false", "no", "off"):
        return text in YES
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0 or (number >= 1 and number != int(number)):
        raise ValueError("true, false, a share such as 0.1, or a whole number of samples")
    return int(number) if number == int(number) else number


def text(value: Any) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("text")
    return value


def anything(value: Any) -> str:
    """Text, perhaps empty."""
    return str(value)


def one_of(*known: str) -> Callable[[Any], str]:
    """One of these words."""

    def read(value: Any) -> str:
        word = str(value).strip().lower()
        if word not in known:
            raise ValueError(" or ".join(known))
        return word

    return read


def texts(value: Any) -> tuple[str, ...]:
    """Several texts."""
    return (str(value),) if isinstance(value, str) or not isinstance(value, list | tuple) else tuple(str(item) for item in value)


def names(value: Any) -> tuple[str, ...]:
    """Several names, parted by commas."""
    return tuple(name.strip() for text in texts(value) for name in text.split(",") if name.strip())


def path_or_newest(value: Any) -> str | bool:
    """A path, or true for the newest that fits."""
    return value if isinstance(value, bool) else str(value) or True


PYTHON_WORDS = {"True": True, "False": False, "None": None}
"""Spellings that people who write Python use for JSON's words."""


def argument_value(value: str) -> Any:
    """A value as JSON would read it, True, False and None beside; all else stays text."""
    if value in PYTHON_WORDS:
        return PYTHON_WORDS[value]
    try:
        return json.loads(value)
    except ValueError:
        return value


def arguments(value: Any) -> dict[str, Any]:
    """
    Arguments by name: a mapping, a JSON object, or "name=value,name=value" with JSON values.

    A comma inside brackets, braces or quotes does not part: stop=["a","b"],max_tokens=10.
    """
    if isinstance(value, Mapping):
        return dict(value)
    given = str(value).strip()
    if not given:
        return {}
    if given.startswith("{"):
        try:
            whole_object = json.loads(given)
        except ValueError as error:
            raise ValueError(f"name=value,name=value or a JSON object ({error})") from None
        return dict(whole_object)
    found: dict[str, Any] = {}
    for part in split_outside_brackets(given):
        name, equals, raw = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f'name=value,name=value or a JSON object; "{part}" has no name or no "="')
        found[name.strip()] = argument_value(raw.strip())
    return found


def split_outside_brackets(given: str) -> list[str]:
    """Split at commas that stand in no bracket, brace or double quote."""
    parts, depth, quoted, escaped = [""], 0, False, False
    for character in given:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character in "[{") - (character in "]}")
        if character == "," and depth <= 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


# ---------------------------------------------------------------------- the settings


@dataclass(frozen=True)
class Setting:
    """
    What is known of a setting beside its name.

    Args:
        help: One sentence; shown by --help and in the docs.
        read: Makes a value of what was given; raises ValueError("what it takes").
        group: Heading it stands under.
        variable: Environment variable.
        metavar: How --help calls its value.
        switch: Whether it is a flag with a --no- twin.
        many: Whether the flag may be given several times.
        flag: How it is spelt, where it is not --name.
        optional: Whether the flag may stand without a value, which then means "yes".
        bears_on_results: Whether two runs that differ in it may differ in their numbers.
        may_grow: Whether a run that is taken up again may have more of it, though it bears on results: what there is stays.
    """

    help: str
    read: Callable[[Any], Any]
    group: str
    variable: str | None = None
    metavar: str | None = None
    switch: bool = False
    many: bool = False
    flag: str | None = None
    optional: bool = False
    bears_on_results: bool = False
    may_grow: bool = False


def setting(default: Any, read: Callable[[Any], Any], group: str, help: str, **more: Any) -> Any:
    """A field of `RunConfig`."""
    metadata = {"setting": Setting(help, read, group, **more)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


RUN, MODEL, LOG, ERRORS, LIMITS = "what is run", "the model", "the log", "errors", "limits (a sample that reaches one is cut, and graded)"
SCREEN, HTTP = "the screen", "sending events elsewhere"
OF_THE_MACHINE = frozenset({LOG, SCREEN, HTTP})


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Every setting of a run, resolved."""

    extra_eval_params: Mapping[str, Any] = setting(
        {}, arguments, RUN, "Arguments for the eval, over those of its spec: name=value,name=value; values are read as JSON.",
        metavar="NAME=VALUE,...", bears_on_results=True,
    )  # fmt: skip
    max_samples: int | None = setting(
        None,
        whole(1),
        RUN,
        "Ask this many samples at most; the same ones in every run.",
        metavar="N",
        bears_on_results=True,
        may_grow=True,
    )
    seed: int = setting(20220722, whole(0), RUN, "Source of all randomness inside samples.", metavar="N", bears_on_results=True)
    epochs: int = setting(
        1, whole(1, MOST_EPOCHS), RUN, "Ask each sample this many times, each time with other randomness.",
        variable="EVALFRAME_EPOCHS", metavar="N", bears_on_results=True, may_grow=True,
    )  # fmt: skip
    epochs_reducer: tuple[str, ...] = setting(
        ("mean",), names, RUN,
        "What else than their mean to report of a sample's epochs: median, mode, max, at_least_2, pass_at_2, pass_2 (for 2 any number "
        "up to epochs); several parted by commas.",
        variable="EVALFRAME_EPOCHS_REDUCER", metavar="NAME,...",
    )  # fmt: skip
    registry_path: tuple[str, ...] = setting(
        (), texts, RUN, "A registry of your own beside the bundled one; may be given several times.", metavar="DIR", many=True
    )
    threads: int = setting(WORKERS, whole(1, MOST_THREADS), RUN, "Samples at once.", variable=WORKERS_VARIABLE, metavar="N")
    executor: str = setting(
        THREADS, one_of(THREADS, COROUTINES), RUN,
        "How samples are spread: threads, or coroutines of one event loop (extra async) for evals that are written so; others stay on "
        "threads.",
        variable="EVALFRAME_EXECUTOR", metavar="NAME",
    )  # fmt: skip
    sequential: bool = setting(False, boolean, RUN, "Ask one sample after the other.", variable=SEQUENTIAL_VARIABLE, switch=True)

    completion_args: Mapping[str, Any] = setting(
        {}, arguments, MODEL,
        "Arguments for the completion function and options for the model, such as temperature=0,max_tokens=64; values are read as JSON.",
        metavar="NAME=VALUE,...", bears_on_results=True,
    )  # fmt: skip
    timeout_s: float = setting(
        300.0, seconds, MODEL, "Wall-clock seconds for one attempt at a call.", variable="EVALS_THREAD_TIMEOUT", metavar="SECONDS"
    )
    max_retries: int = setting(
        7, whole(0), MODEL, "Tries after the first for a call that failed in passing (429, 5xx, lost connections).", metavar="N"
    )
    max_total_retry_s: float = setting(900.0, seconds, MODEL, "Seconds that all tries of one call may take together.", metavar="SECONDS")
    max_retry_after_s: float = setting(
        120.0, seconds, MODEL, "The most that is believed of what a server asks to wait (Retry-After).", metavar="SECONDS"
    )
    cache: bool | None = setting(
        None, boolean, MODEL, "Take answers that the same question got before from a cache on this machine.",
        variable="EVALFRAME_CACHE", switch=True,
    )  # fmt: skip
    cache_dir: str | None = setting(
        None, text, MODEL, "Folder of that cache, which naming it switches on (default: ~/.cache/evalframe/answers).",
        variable="EVALFRAME_ANSWER_CACHE_DIR", metavar="DIR",
    )  # fmt: skip

    cache_expiry: float | None = setting(
        None, duration, MODEL, "Ask anew for what the cache has had for longer: 30d, 12h, 90m, 45s, or never.",
        variable="EVALFRAME_CACHE_EXPIRY", metavar="AGE",
    )  # fmt: skip

    record_path: str | None = setting(None, text, LOG, "The log's file; it must not exist yet.", metavar="FILE")
    resume: str | bool = setting(
        False, path_or_newest, LOG,
        "Take up the run of this log: ask only what is missing, has failed or has changed; without a path, the newest log that fits.",
        metavar="LOG", optional=True,
    )  # fmt: skip
    log_dir: str | None = setting(
        None, text, LOG, "Folder for logs whose file is not named (default: ./evallogs).", variable=LOG_DIR_VARIABLE, metavar="DIR"
    )
    user: str = setting("", anything, LOG, "Who runs this; stands in every event as created_by.", metavar="NAME")
    fsync: bool = setting(
        False, boolean, LOG, "Bring each finished sample to the disk's platter: safe against loss of power, slower.", switch=True
    )
    log_media: bool = setting(False, boolean, LOG, "Keep pictures, sounds and files of prompts in the log; else their hashes.", switch=True)
    visible: bool | None = setting(None, boolean, LOG, "Kept in the log, as in openai/evals; nothing else heeds it.", switch=True)
    dry_run: bool = setting(
        False, boolean, LOG, "Run without a log. The model is asked all the same: use dummy or echo to spend nothing.",
        switch=True, flag="--dry-run",
    )  # fmt: skip
    dry_run_logging: bool = setting(
        True, boolean, LOG, "Show the events of a dry run on the screen.", switch=True, flag="--dry-run-logging"
    )

    fail_on_error: bool | float = setting(
        True, tolerance, ERRORS,
        "When errors fail the run: true (any), false (never), more than a share (0.1), or more than so many samples (5).",
        variable="EVALFRAME_FAIL_ON_ERROR", metavar="RULE",
    )  # fmt: skip
    continue_on_fail: bool = setting(
        True, boolean, ERRORS, "Ask every sample even when the run has failed already.", variable="EVALFRAME_CONTINUE_ON_FAIL", switch=True
    )
    retry_on_error: int = setting(
        0, whole(0), ERRORS, "More attempts for a sample that ended in error, each at the back of the queue.",
        variable="EVALFRAME_RETRY_ON_ERROR", metavar="N",
    )  # fmt: skip
    score_on_error: bool = setting(
        False, boolean, ERRORS, "Count a sample that ended in error as wrong, instead of leaving it out of the metrics.",
        variable="EVALFRAME_SCORE_ON_ERROR", switch=True,
    )  # fmt: skip
    grace_s: float = setting(GRACE_S, seconds, ERRORS, "Seconds that samples in flight get after a first Ctrl-C.", metavar="SECONDS")

    message_limit: int | None = setting(
        None, whole(1), LIMITS, "Messages of a sample's conversation, answers included.", metavar="N", bears_on_results=True
    )
    turn_limit: int | None = setting(None, whole(1), LIMITS, "Answers of models to a sample.", metavar="N", bears_on_results=True)
    token_limit: int | None = setting(None, whole(1), LIMITS, "Input and output tokens for a sample.", metavar="N", bears_on_results=True)
    time_limit: float | None = setting(
        None, seconds, LIMITS, "Seconds for a sample, waiting included.", metavar="SECONDS", bears_on_results=True
    )
    working_limit: float | None = setting(
        None,
        seconds,
        LIMITS,
        "Seconds for a sample, without waiting for rate limits and back-off.",
        metavar="SECONDS",
        bears_on_results=True,
    )
    cost_limit: float | None = setting(
        None, dollars, LIMITS, "US dollars for a sample; every model needs a price.", metavar="USD", bears_on_results=True
    )
    max_cost: float | None = setting(
        None,
        dollars,
        LIMITS,
        "US dollars for the whole run: past them no sample is begun; the run can be resumed with more.",
        metavar="USD",
    )
    max_total_tokens: int | None = setting(None, whole(1), LIMITS, "Input and output tokens for the whole run, likewise.", metavar="N")

    show_progress: str = setting(
        "auto",
        anything,
        SCREEN,
        "Whether to show progress on stderr: auto, true, false.",
        variable="EVALS_SHOW_EVAL_PROGRESS",
        metavar="WHEN",
    )
    debug: bool = setting(False, boolean, SCREEN, "Show tracebacks, and what goes on inside.", switch=True)
    log_to_file: str | None = setting(None, text, SCREEN, "Write messages to this file instead of stderr.", metavar="FILE")

    local_run: bool = setting(True, boolean, HTTP, "Keep the log on this machine; always so.", switch=True, flag="--local-run")
    http_run: bool = setting(
        False, boolean, HTTP, "Also send events to a URL; the log on this machine stays whole.", switch=True, flag="--http-run"
    )
    http_run_url: str | None = setting(None, text, HTTP, "The URL that events are posted to.", metavar="URL", flag="--http-run-url")
    http_batch_size: int = setting(100, whole(1), HTTP, "Events in one request.", metavar="N", flag="--http-batch-size")
    http_fail_percent_threshold: int = setting(
        5, whole(0), HTTP, "Per cent of events that may stay undelivered without failing the run.", metavar="N",
        flag="--http-fail-percent-threshold",
    )  # fmt: skip

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """All settings by name, in the order of the help."""
        return {item.name: item.metadata["setting"] for item in dataclasses.fields(cls)}

    @classmethod
    def resolve(
        cls,
        given: Mapping[str, Any],
        environ: Mapping[str, str],
        asked_for: Mapping[str, Any] | None = None,
        logged: Mapping[str, Any] | None = None,
    ) -> RunConfig:
        """
        The settings that hold.

        Args:
            given: By the command line or the call; None counts as not given.
            environ: The environment.
            asked_for: By the eval's spec.
            logged: By the log of the run that is taken up again: whatever of it bears on results holds, where nothing is given.

        Raises:
            Faults: Names that are no settings, and values that settings do not take.
        """
        settings, values, faults = cls.settings(), {}, list[EvalframeError]()
        for source, where in ((asked_for or {}, 'the eval\'s "run:"'), (given, "")):
            faults += [unknown_setting(name, settings, where) for name in source if name not in settings]
        faults += [
            BadSetting(f'"{name}" is not for an eval\'s "run:" to say: it is about this machine, not about the eval.', do=f"Say --{name}.")
            for name in asked_for or {}
            if name in settings and (settings[name].group in OF_THE_MACHINE or name == "registry_path")
        ]
        for name, known in settings.items():
            value, where = given.get(name), known.flag or f"--{name}"
            if value is None and logged is not None and known.bears_on_results and name in logged:
                value, where = logged[name], f'"{name}" in the log'
                if value is None:
                    continue
            if value is None and environ.get(known.variable or ""):
                value, where = environ[known.variable or ""], str(known.variable)
            if value is None:
                value, where = (asked_for or {}).get(name), f'"{name}" in the eval\'s "run:"'
            if value is None:
                continue
            try:
                values[name] = known.read(value)
            except ValueError as error:
                faults.append(BadSetting(f'{where} takes {error}, not "{value}".'))
        if faults:
            raise faults[0] if len(faults) == 1 else Faults(faults)
        return cls(**values)

    @property
    def has_limits(self) -> bool:
        """Whether samples, or the run, may go only so far."""
        return any(getattr(self, name) is not None for name, known in self.settings().items() if known.group == LIMITS)

    def to_dict(self) -> dict[str, Any]:
        """All settings by name."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}


def unknown_setting(name: str, settings: Mapping[str, Setting], where: str) -> BadSetting:
    """The error for a name that is no setting."""
    near = closest(name, settings)
    return BadSetting(
        f'there is no setting "{name}"{" (asked for by " + where + ")" if where else ""}.',
        do=f"Closest: {', '.join(near)}." if near else f"Settings: {', '.join(settings)}.",
    )
