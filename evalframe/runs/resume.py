"""
Taking a run up again: which log, and whether what is asked now is what it tells of.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalframe.core.errors import BadLog, BadSetting
from evalframe.core.secrets import MASK, Secrets
from evalframe.core.specs import RunSpec
from evalframe.logs.find import logs_in
from evalframe.logs.run_log import RunLog
from evalframe.runs.config import RunConfig
from evalframe.runs.provenance import provenance

DIFFERENCES_SHOWN = 5
PLACES = frozenset({"registry_path", "group"})
"""What an eval's spec in the log says of where it stood; it may have moved."""


def resumed_log(resume: str | bool, *, record_path: str | None, folder: Path, names: Sequence[str], eval_name: str) -> RunLog:
    """
    The log that is to be taken up.

    Args:
        resume: Its path, or true for the newest that fits.
        record_path: The log's path, where it is given besides.
        folder: Where logs lie.
        names: Who is asked.
        eval_name: What is asked.

    Raises:
        BadLog: If there is none, or none that can be taken up.
        BadSetting: If two are named.
    """
    if (
        isinstance(resume, str)
        and record_path is not None
        and Path(resume).expanduser().absolute() != Path(record_path).expanduser().absolute()
    ):
        raise BadSetting(f"--resume names {resume}, and --record_path {record_path}.", do="Leave one of them out.")
    named = resume if isinstance(resume, str) else record_path
    if named is not None:
        log = RunLog(Path(named).expanduser())
    else:
        fitting = (
            path for path, spec in logs_in(folder) if spec.get("eval_name") == eval_name and spec.get("completion_fns") == list(names)
        )
        newest = next(fitting, None)
        if newest is None:
            raise BadLog(
                f"no log in {folder} tells of {eval_name} with {', '.join(names)}: there is nothing to take up.",
                do="Name one with --resume LOG, or its folder with --log_dir; without --resume the run begins anew.",
            )
        log = RunLog(newest)
    if not log.written_by.get("format"):
        raise BadLog(f"{log.path} was not written by evalframe: it does not tell which samples have ended, so it cannot be taken up.")
    return log


@dataclass(frozen=True)
class AskedBy:
    """
    How a log's run was asked for.

    Args:
        completion_fns: Who is asked.
        eval_name: What is asked.
        settings: As for `run_eval`.
        folder: Where it was begun; None where the log does not tell, or it is gone.
    """

    completion_fns: list[str]
    eval_name: str
    settings: dict[str, Any]
    folder: Path | None


def asked_by(path: str | Path, given: Mapping[str, Any]) -> AskedBy:
    """
    What takes the run of a log up again.

    Args:
        path: The log.
        given: Settings that hold in place of the log's.

    Raises:
        BadLog: If it is no log, or one of a completion function that has no name.
    """
    log = RunLog(Path(path).expanduser())
    told, spec = log.settings, log.spec
    if not isinstance(spec.get("eval_name"), str) or not isinstance(spec.get("completion_fns"), list):
        raise BadLog(f"{log.path} does not tell what was asked of whom, so its run cannot be taken up.")
    nameless = [one.get("class") for one in mappings(told.get("completion_fns")) if "name" not in one]
    if nameless:
        raise BadLog(
            f"the run of {log.path} was started from Python, with {', '.join(map(str, nameless))}: a command cannot make that again.",
            do=f'Take it up where it was started: run_eval(..., resume="{log.path}").',
        )
    hidden = ("resume", "record_path", "log_dir", "completion_args", "extra_eval_params", "log_to_file", "debug", "show_progress")
    settings = {name: told[name] for name in RunConfig.settings() if name not in hidden and told.get(name) is not None}
    masked = [name for name, value in settings.items() if MASK in json.dumps(value) and name not in given]
    if masked:
        raise BadSetting(
            f"{', '.join(f'--{name}' for name in masked)} of {log.path} held a secret, which the log does not keep.",
            do="Give it again, or switch it off.",
        )
    folder = Path(str(log.written_by.get("folder") or ""))
    return AskedBy(
        [str(name) for name in spec.get("completion_fns") or ()],
        str(spec.get("eval_name")),
        {**settings, **given, "resume": str(log.path)},
        folder if folder.is_absolute() and folder.is_dir() else None,
    )


def secrets_missing(log: RunLog, given: Mapping[str, Any]) -> Iterator[BadSetting]:
    """The settings that held a secret, which a log never does, and that were not given again."""
    for name in ("completion_args", "extra_eval_params"):
        hidden = [key for key, value in (log.settings.get(name) or {}).items() if MASK in json.dumps(value)]
        if hidden and given.get(name) is None:
            yield BadSetting(
                f"--{name} of {log.path} held a secret ({', '.join(hidden)}), which the log does not keep.", do=f"Give --{name} again."
            )


def check_agreement(log: RunLog, config: RunConfig, spec: RunSpec) -> dict[str, Any]:
    """
    Hold what is asked now against what the log tells.

    Returns:
        Settings that differ and may: their values now.

    Raises:
        BadLog: If what differs bears on results, naming it.
    """
    now, then = as_logged(spec.to_line()), log.spec
    settings_now, settings_then = now["run_config"], log.settings
    named = (
        ("completion function", then.get("completion_fns"), now["completion_fns"]),
        ("eval", then.get("eval_name"), now["eval_name"]),
    )
    made = (
        ("completion function", parts_of(settings_then.get("completion_fns")), parts_of(settings_now["completion_fns"])),
        ("eval", without_places(settings_then.get("eval_spec")), without_places(settings_now["eval_spec"])),
        ("plan", settings_then.get("plan"), settings_now["plan"]),
    )
    differences = [told(*pair) for pair in named if told(*pair)] or [told(*pair) for pair in made if told(*pair)]
    changed = {}
    for name, known in RunConfig.settings().items():
        before, after = settings_then.get(name), settings_now.get(name)
        if before == after or name in ("resume", "record_path", "log_dir"):
            continue
        if name not in settings_then or not known.bears_on_results or (known.may_grow and has_grown(before, after)):
            changed[name] = after
        elif known.may_grow:
            differences.append(f"{name} was {shown(before)} and is {shown(after)}; it may grow, not shrink")
        else:
            differences.append(f"{name} was {shown(before)} and is {shown(after)}")
    if differences:
        rest = f" And {len(differences) - DIFFERENCES_SHOWN} more." if len(differences) > DIFFERENCES_SHOWN else ""
        raise BadLog(
            f"{log.path} cannot be taken up: what bears on its results has changed. {'; '.join(differences[:DIFFERENCES_SHOWN])}.{rest}",
            do=("To go on with that run, ask it the same.", "For another question begin a run of its own: leave out --resume."),
        )
    return changed


def as_logged(line: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as the log gives it back."""
    read: dict[str, Any] = json.loads(json.dumps(line, default=str))
    return read


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list; none where there is no list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def parts_of(completion_fns: Any) -> Any:
    """Class and arguments of each completion function, without its name, which is compared by itself."""
    return [{key: value for key, value in one.items() if key != "name"} for one in mappings(completion_fns)]


def without_places(value: Any) -> Any:
    """A spec without where it stood."""
    return {name: item for name, item in value.items() if name not in PLACES} if isinstance(value, Mapping) else value


def told(what: str, before: Any, after: Any) -> str:
    """How two values differ; "" where they do not. Of mappings only the keys that differ are told."""
    if before == after:
        return ""
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return "; ".join(filter(None, (told(what, one, other) for one, other in zip(before, after, strict=True))))
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        return "; ".join(told(f"{what}: {key}", before.get(key), after.get(key)) for key in keys)
    return f"{what} was {shown(before)} and is {shown(after)}"


def shown(value: Any) -> str:
    """A value in few characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return "not set" if value is None else text if len(text) <= 120 else f"{text[:120]}…"


def has_grown(before: Any, after: Any) -> bool:
    """Whether there is more of it; None is all there is."""
    return after is None or (isinstance(before, int) and isinstance(after, int) and after > before)


def resume_line(changed: Mapping[str, Any], spec: RunSpec, secrets: Secrets) -> dict[str, Any]:
    """What the log says of a process that takes its run up."""
    line = {
        "at": str(datetime.now(UTC)),
        "command": " ".join(map(shlex.quote, sys.argv)),
        "changed": dict(changed),
        "data": as_logged({"data": spec.run_config["data"]})["data"],
        "evalframe": provenance(),
    }
    told: dict[str, Any] = secrets.mask_values(line)
    return told
