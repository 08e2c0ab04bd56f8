"""
Several evals, one after the other, in this process; what succeeded is not run again.

Beside the logs lies a file of what has succeeded, one JSON line an eval. An eval is taken as done if the same completion function was
asked the same with the same settings, and neither its log is gone nor its data has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalframe.core.errors import BadLog, EvalframeError, LogUnavailable
from evalframe.core.specs import EvalSpec
from evalframe.logs.find import log_dir, safe
from evalframe.logs.run_log import RunLog
from evalframe.loop import Observer
from evalframe.registry.registry import Registry
from evalframe.runs.config import RunConfig
from evalframe.runs.prepare import Prepared
from evalframe.runs.run import CANCELLED, SUCCESS, RunResult, run_eval


@dataclass
class SetMember:
    """
    What became of one eval of a set; nothing, where the set was stopped before it.

    Args:
        eval_name: Its name.
        result: What it came to, if it was run now.
        done_before: The log of an earlier run that counts, if there is one.
        error: Why it could not begin, if it could not.
    """

    eval_name: str
    result: RunResult | None = None
    done_before: RunLog | None = None
    error: EvalframeError | None = None

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
        return self.result.exit_code if self.result is not None else 0

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


class Done:
    """
    The file of what has succeeded.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

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

    def add(self, fingerprint: str, member: SetMember) -> None:
        """Keep that an eval has succeeded."""
        if member.result is None or member.result.log_path is None:
            return
        entry = {"eval": member.eval_name, "fingerprint": fingerprint, "log": str(member.result.log_path)}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise LogUnavailable(
                f"cannot write {self.path}: {error.strerror or error}.", do="Choose another folder with --log_dir."
            ) from error


def run_set(
    completion_fn: str,
    eval_set: str,
    *,
    resume: bool = True,
    exit_on_error: bool = True,
    registry: Registry | None = None,
    observer: Callable[[], Observer | None] = lambda: None,
    on_member: Callable[[int, int, EvalSpec], None] = lambda _number, _total, _spec: None,
    on_start: Callable[[Prepared], None] | None = None,
    **settings: Any,
) -> Iterator[SetMember]:
    """
    Run the evals of a set; yields what became of each as soon as it is known.

    Args:
        completion_fn: Who is asked.
        eval_set: Name of the set.
        resume: Whether evals that have succeeded before are left out.
        exit_on_error: Whether to stop after the first that does not succeed.
        registry: Where names are looked up.
        observer: Makes the observer of each run.
        on_member: Told before each eval: its number, of how many, its spec.
        on_start: See `run_eval`.
        settings: See `RunConfig`.

    Raises:
        EvalframeError: If the set cannot begin.
    """
    config = RunConfig.resolve(settings, os.environ)
    if registry is None:
        registry = Registry()
    registry.add_registry_paths(config.registry_path)
    specs = registry.evals_of_set(eval_set)
    done = Done(log_dir(config.log_dir, {}) / f"{safe(eval_set)}_{safe(completion_fn)[:80]}.done.jsonl")
    logs = done.logs() if resume else {}
    for number, spec in enumerate(specs, 1):
        mark = fingerprint(completion_fn, spec, config)
        before = still_good(logs.get(mark))
        if before is not None:
            yield SetMember(spec.key, done_before=before)
            continue
        on_member(number, len(specs), spec)
        member = SetMember(spec.key)
        try:
            member.result = run_eval(
                completion_fn, spec, registry=registry, observer=observer(), on_start=on_start,
                **{**settings, "registry_path": None, "record_path": None},
            )  # fmt: skip
        except EvalframeError as error:
            member.error = error
        if member.succeeded:
            done.add(mark, member)
        yield member
        if member.was_cancelled or (exit_on_error and not member.succeeded):
            yield from (SetMember(left.key) for left in specs[number:])
            return


def fingerprint(completion_fn: str, spec: EvalSpec, config: RunConfig) -> str:
    """What must agree for an earlier run to stand for a new one."""
    bearing = {name: getattr(config, name) for name, known in RunConfig.settings().items() if known.bears_on_results}
    what = [completion_fn, spec.key, spec.cls, spec.args, str(spec.registry_path), bearing]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode("utf-8")).hexdigest()


def still_good(path: Path | None) -> RunLog | None:
    """The log, if it still tells of a success over data that has not changed since."""
    if path is None:
        return None
    try:
        log = RunLog(path)
    except (BadLog, OSError):
        return None
    data = log.spec.get("run_config", {}).get("data", [])
    return log if log.status == SUCCESS and all(unchanged(facts) for facts in data) else None


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
