"""
Several evals in this process, over one crew of workers; what succeeded is not run again, and what did not is taken up where it ended.

Beside the logs lies the set's ledger, one JSON line for each run that began and each that succeeded. A run counts for an eval if the
same completion function was asked the same with the same settings.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalframe.core.errors import BadLog, EvalFailed, EvalframeError, LogUnavailable, described
from evalframe.core.executor import Stop
from evalframe.core.observer import Observer
from evalframe.core.secrets import names_secret
from evalframe.core.specs import EvalSpec
from evalframe.logs.find import log_dir, safe
from evalframe.logs.run_log import RunLog
from evalframe.loop import Crew
from evalframe.registry.env import read_env
from evalframe.registry.registry import Registry
from evalframe.runs.config import PARALLEL, RunConfig
from evalframe.runs.prepare import Prepared
from evalframe.runs.run import CANCELLED, SUCCESS, RunResult, run_eval

logger = logging.getLogger("evalframe")

LEDGER_SUFFIX = ".set.jsonl"
REPORTED, REPORTED_OF_ERRORS = ("epochs_reducer",), ("fail_on_error", "score_on_error")
"""Settings that bear on the report of a run that is done; and those that do where samples ended in error."""


@dataclass
class SetMember:
    """
    What became of one eval of a set; nothing, where the set was stopped before it.

    Args:
        eval_name: Its name.
        number: Its place in the set, from 1.
        result: What it came to, if it was run now.
        done_before: The log of an earlier run that counts, if there is one.
        error: Why it could not begin, if it could not.
        stopped_by: The exit code of the signal that stopped the set before it, if one did.
    """

    eval_name: str
    number: int
    result: RunResult | None = None
    done_before: RunLog | None = None
    error: EvalframeError | None = None
    stopped_by: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether this eval is done."""
        return self.done_before is not None or (self.result is not None and self.result.status == SUCCESS)

    @property
    def was_cancelled(self) -> bool:
        """Whether someone stopped it, and so the set."""
        return self.result is not None and self.result.status == CANCELLED

    @property
    def exit_code(self) -> int:
        """What it contributes to the set's exit code."""
        if self.error is not None:
            return self.error.exit_code
        return self.result.exit_code if self.result is not None else self.stopped_by

    def line(self) -> tuple[str, str, str, str, str]:
        """What a table says of it: name, status, accuracy, samples, errors."""
        if self.error is not None:
            return self.eval_name, "could not begin", "", "", ""
        if self.result is not None:
            report, status, samples = self.result.report, self.result.status, self.result.counts.to_line()
        elif self.done_before is not None:
            report, status, samples = self.done_before.final_report or {}, "done before", self.done_before.samples or {}
        else:
            return self.eval_name, "not begun", "", "", ""
        accuracy = report.get("accuracy")
        shown = f"{accuracy:.4f}" if isinstance(accuracy, int | float) else ""
        return self.eval_name, status, shown, str(samples.get("total", "")), str(samples.get("error", ""))


class Ledger:
    """
    The file of what was begun and what has succeeded.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def logs(self) -> dict[str, Path]:
        """The latest log by fingerprint."""
        if not self.path.exists():
            return {}
        found = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
                found[entry["fingerprint"]] = Path(entry["log"])
            except (ValueError, KeyError, TypeError):
                continue  # a line torn by a crash: that eval is run again
        return found

    def add(self, eval_name: str, fingerprint: str, log: Path | None) -> None:
        """
        Keep that a run has begun, before it asks anything.

        Raises:
            LogUnavailable: If it cannot be written.
        """
        if log is None:
            return
        entry = {"eval": eval_name, "fingerprint": fingerprint, "log": str(log)}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, self.path.open("a+b") as file:
                is_torn = file.tell() > 0 and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n"
                file.write(b"\n" * is_torn + json.dumps(entry).encode("ascii") + b"\n")
        except OSError as error:
            raise LogUnavailable(
                f"cannot write {self.path}: {error.strerror or error}.", do="Choose another folder with --log_dir."
            ) from error


def run_set(
    completion_fn: str,
    eval_set: str,
    *,
    resume: bool = True,
    exit_on_error: bool = False,
    parallel: int = PARALLEL,
    registry: Registry | None = None,
    observer: Callable[[str], Observer | None] = lambda _name: None,
    on_member: Callable[[int, int, EvalSpec], None] = lambda _number, _total, _spec: None,
    on_start: Callable[[Prepared], None] | None = None,
    **settings: Any,
) -> Iterator[SetMember]:
    """
    Run the evals of a set; yields what became of each as soon as it is known.

    Args:
        completion_fn: Who is asked.
        eval_set: Name of the set.
        resume: Whether evals that have succeeded before are left out, and others are taken up where they ended.
        exit_on_error: Whether to begin no further eval after the first that does not succeed.
        parallel: Evals at once; they share the workers, the earlier ones first.
        registry: Where names are looked up.
        observer: Makes the observer of each run, from the eval's name.
        on_member: Told before each eval: its number, of how many, its spec.
        on_start: See `run_eval`.
        settings: See `RunConfig`.

    Raises:
        EvalframeError: If the set cannot begin.
    """
    config = RunConfig.resolve(settings, os.environ)
    registry = registry if registry is not None else Registry()
    registry.add_registry_paths(config.registry_path)
    specs = registry.evals_of_set(eval_set)
    ledger = Ledger(log_dir(config.log_dir, {}) / f"{safe(eval_set)}_{safe(completion_fn)[:80]}{LEDGER_SUFFIX}")
    crew = Crew.of(workers=config.threads, parallel=parallel, sequential=config.sequential)
    given = {**settings, "record_path": None}
    run = SetRun(completion_fn, config, registry, ledger, ledger.logs() if resume else {}, crew, observer, on_start, given)
    stop, left = Stop(), {number: spec.key for number, spec in enumerate(specs, 1)}

    def member(numbered: tuple[int, EvalSpec]) -> SetMember:
        number, spec = numbered
        return run.done_before(number, spec) or run.member(number, spec, lambda: on_member(number, len(specs), spec))

    for ended in crew.each(member, enumerate(specs, 1), stop):
        del left[ended.number]
        if exit_on_error and not ended.succeeded:
            stop.request(grace_s=math.inf)
        yield ended
    for number, eval_name in left.items():
        yield SetMember(eval_name, number, stopped_by=crew.interrupt.exit_code or 0)


@dataclass(frozen=True)
class SetRun:
    """
    A set that is being run; see `run_set`.

    Args:
        logs: The latest log by fingerprint; empty where nothing is taken up.
        settings: Of each run.
    """

    completion_fn: str
    config: RunConfig
    registry: Registry
    ledger: Ledger
    logs: Mapping[str, Path]
    crew: Crew
    observer: Callable[[str], Observer | None]
    on_start: Callable[[Prepared], None] | None
    settings: Mapping[str, Any]

    def done_before(self, number: int, spec: EvalSpec) -> SetMember | None:
        """An eval that has succeeded before."""
        before = still_good(self.logs.get(self._mark(spec)))
        if before is not None:
            asked = RunConfig.resolve(self.settings, os.environ, spec.run).to_dict()
            bearing = REPORTED + (REPORTED_OF_ERRORS if (before.samples or {}).get("error") else ())
            told = {name: before.settings.get(name) for name in bearing}
            if told != json.loads(json.dumps({name: asked[name] for name in bearing})):
                return None  # its report would be another one; what was asked is in its log
        return SetMember(spec.key, number, done_before=before) if before is not None else None

    def member(self, number: int, spec: EvalSpec, begins: Callable[[], None]) -> SetMember:
        """Run one eval: from where its log ended, if it has one that can be taken up."""
        member, mark = SetMember(spec.key, number), self._mark(spec)
        log = self.logs.get(mark)
        begins()
        try:
            if log is not None and log.exists():
                try:
                    member.result = self._run(number, spec, mark, resume=str(log))
                except BadLog as error:
                    logger.info("%s begins anew: %s", spec.key, error)
            if member.result is None:
                member.result = self._run(number, spec, mark)
        except EvalframeError as error:
            member.error = error
        except Exception as error:
            logger.debug("an eval of the set raised", exc_info=True)
            member.error = EvalFailed(f"{spec.key} could not be run: {described(error)}.")
        return member

    def _mark(self, spec: EvalSpec) -> str:
        return fingerprint(self.completion_fn, spec, self.config, endpoints(self.completion_fn, self.registry))

    def _run(self, number: int, spec: EvalSpec, mark: str, **more: Any) -> RunResult:
        def begin(prepared: Prepared) -> None:
            self.ledger.add(spec.key, mark, prepared.log_path)
            if self.on_start is not None:
                self.on_start(prepared)

        return run_eval(
            self.completion_fn,
            spec,
            registry=self.registry,
            observer=self.observer(spec.key),
            on_start=begin,
            crew=self.crew.ranked(number),
            **{**self.settings, **more},
        )


def endpoints(completion_fn: str, registry: Registry) -> list[Any]:
    """Where the completion functions ask, as far as their arguments and the environment tell; no secret among it."""
    found: list[Any] = [os.environ.get("OPENAI_BASE_URL")]
    for name in completion_fn.split(","):
        try:
            arguments = read_env(registry.resolve_completion_fn(name.strip()).args, missing_ok=True)
        except EvalframeError:
            continue  # told when the run begins
        found.append({key: value for key, value in arguments.items() if not names_secret(key)})
    return found


def fingerprint(completion_fn: str, spec: EvalSpec, config: RunConfig, asked_at: list[Any]) -> str:
    """What must agree for an earlier run to stand for a new one."""
    bearing = {name: getattr(config, name) for name, known in RunConfig.settings().items() if known.bears_on_results}
    what = [completion_fn, asked_at, spec.key, spec.cls, spec.args, str(spec.registry_path), bearing]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode("utf-8")).hexdigest()


def still_good(path: Path | None) -> RunLog | None:
    """The log, if it still tells of a success over data that has not changed since."""
    if path is None:
        return None
    try:
        log = RunLog(path)
    except (BadLog, OSError):
        return None
    return log if log.status == SUCCESS and all(unchanged(facts) for facts in log.data) else None


def unchanged(facts: Mapping[str, Any]) -> bool:
    """Whether a data file is what it was."""
    path = Path(str(facts.get("path")))
    if "sha256" not in facts or "://" in str(facts.get("path")):
        return True
    try:
        with path.open("rb") as file:
            return bool(hashlib.file_digest(file, "sha256").hexdigest() == facts["sha256"])
    except OSError:
        return False
