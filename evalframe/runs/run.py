"""
One run: what can be checked is checked, the log is opened, the eval is run, the report is written, whatever happens.
"""

from __future__ import annotations

import logging
import math
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalframe.core.completion import OUTCOMES, CompletionFn, Usage
from evalframe.core.errors import EvalFailed, EvalframeError, LogUnavailable, described
from evalframe.core.event import Event
from evalframe.core.observer import Observer
from evalframe.core.price import Prices
from evalframe.core.recorder import Recorder
from evalframe.core.specs import EvalSpec, RunSpec
from evalframe.core.tally import SampleCounts, Tally
from evalframe.eval import Eval
from evalframe.loop import Crew, Loop
from evalframe.recorders.console import ConsoleRecorder
from evalframe.recorders.http import HttpRecorder
from evalframe.recorders.jsonl import JsonlRecorder
from evalframe.recorders.memory import MemoryRecorder
from evalframe.recorders.tee import TeeRecorder
from evalframe.registry.registry import Registry
from evalframe.runs.prepare import Prepared, prepare
from evalframe.runs.source import Regrading

logger = logging.getLogger("evalframe")

LONGEST_REASON = 1000
"""Characters."""
SUCCESS, ERROR, CANCELLED = "success", "error", "cancelled"


@dataclass
class RunResult:
    """
    What a run came to.

    Args:
        report: Numbers by name; what the log calls final_report.
        status: "success", "error" or "cancelled".
        counts: What became of the samples.
        reason: Why it is no success: one sentence; "" for a success.
        exit_code: What a command that does just this run returns.
        log_path: The log; None for a dry run.
        run_spec: What was run.
        recorder: Who remembers the events.
        seconds: How long it took.
        errors: Messages of samples' errors, and how often each.
        reused: Samples that an earlier process of the run has asked.
        notices: What else a person should read.
        endpoints: What the log keeps of the endpoints that were asked: options that a model does not take, how often it was too much.
    """

    report: dict[str, Any]
    status: str
    counts: SampleCounts
    reason: str
    exit_code: int
    log_path: Path | None
    run_spec: RunSpec
    recorder: Recorder = field(repr=False)
    seconds: float = 0.0
    errors: Mapping[str, int] = field(default_factory=dict)
    reused: int = 0
    notices: tuple[str, ...] = ()
    endpoints: tuple[Mapping[str, Any], ...] = ()

    @property
    def can_be_resumed(self) -> bool:
        """Whether there is something left that a resumed run would ask."""
        counts = self.counts
        is_there = self.log_path is not None and self.log_path.exists()
        return is_there and self.status != SUCCESS and counts.completed + counts.limit < counts.total

    def events(self, type: str) -> Sequence[Event]:
        """The events of a type that count."""
        return self.recorder.get_events(type)

    def raise_for_status(self) -> RunResult:
        """
        Itself, if the run was a success.

        Raises:
            EvalFailed: If it was not, with the reason.
        """
        if self.status != SUCCESS:
            raise EvalFailed(self.reason, do=f"Its log: {self.log_path}" if self.log_path else ())
        return self


def run_eval(
    completion_fn: str | CompletionFn | Sequence[str | CompletionFn],
    eval: str | EvalSpec,
    *,
    registry: Registry | None = None,
    observer: Observer | None = None,
    on_start: Callable[[Prepared], None] | None = None,
    crew: Crew | None = None,
    source: Regrading | None = None,
    **settings: Any,
) -> RunResult:
    """
    Run an eval, or take its run up again with `resume=`.

    Args:
        completion_fn: Who is asked: a name, several parted by commas, a callable, or a list of these.
        eval: What is asked: a name in the registry, or a spec.
        registry: Where names are looked up; by default the bundled registry, one's own and `registry_path`.
        observer: Who is told of each sample's end, such as a progress bar.
        on_start: Called once everything is checked and before the first request.
        crew: What this run shares with others that go on beside it.
        source: The log whose answers this run stands on.
        settings: See `RunConfig`.

    Returns:
        The result, also of a run that failed or was interrupted; see `RunResult.raise_for_status`.

    Raises:
        EvalframeError: If the run cannot begin. Every fault that can be found without asking a model is told at once.
    """
    prepared = prepare(completion_fn, eval, registry=registry, settings=settings, crew=crew, source=source)
    recorder, log, delivery = open_recorder(prepared)
    try:
        if on_start:
            on_start(prepared)
        return conduct(prepared, recorder, log, delivery, observer=observer)
    finally:
        recorder.close()
        if prepared.who.answers is not None:
            prepared.who.answers.close()


def open_recorder(prepared: Prepared) -> tuple[Recorder, Recorder, HttpRecorder | None]:
    """The recorder of the run, the part of it that is the log, and the part that sends events elsewhere, if any."""
    config, run_spec = prepared.config, prepared.run_spec
    first: Recorder
    if prepared.log_path is None:
        first = MemoryRecorder(run_spec)
    else:
        first = JsonlRecorder(
            run_spec,
            prepared.log_path,
            resume=prepared.resume,
            secrets=prepared.secrets,
            show_epoch=config.epochs > 1,
            fsync=config.fsync,
        )
    observers: list[Recorder] = []
    delivery = None
    if config.dry_run and config.dry_run_logging:
        observers.append(ConsoleRecorder(run_spec, sys.stderr, secrets=prepared.secrets))
    if config.http_run and config.http_run_url:
        delivery = HttpRecorder(
            run_spec,
            config.http_run_url,
            batch_size=config.http_batch_size,
            fail_percent_threshold=config.http_fail_percent_threshold,
            secrets=prepared.secrets,
        )
        observers.append(delivery)
    recorder = TeeRecorder(first, *observers) if observers else first
    recorder.keeps_media = config.log_media
    return recorder, first, delivery


def conduct(
    prepared: Prepared, recorder: Recorder, log: Recorder, delivery: HttpRecorder | None, *, observer: Observer | None
) -> RunResult:
    """Run the eval and write its report, whatever happens."""
    asked, loop = prepared.eval, prepared.loop
    asked.loop, loop.observer = loop, observer
    if prepared.log_path is not None:
        loop.interrupt.last_words = f"stopped at once. To go on: {resume_command(prepared.log_path)}"
    started = time.monotonic()
    with loop.interrupt.listening():
        report, failure = attempted(asked, recorder, prepared)
        report = completed_report(report, loop, prepared.prices)
        if prepared.source is not None and not failure:
            report |= prepared.source.compared(recorder)
        status, reason = verdict(report, loop, failure)
        result = RunResult(
            report=report,
            status=status,
            counts=loop.tally.counts,
            reason=one_line(reason),
            exit_code=(loop.interrupt.exit_code if status == CANCELLED else None) or (0 if status == SUCCESS else 1),
            log_path=prepared.log_path,
            run_spec=prepared.run_spec,
            recorder=recorder,
            seconds=time.monotonic() - started,
            errors={loop.tally.examples[kind]: times for kind, times in loop.tally.errors.most_common()},
            reused=loop.tally.reused,
            notices=tuple(notices_of([*prepared.who.functions, prepared.who.answers])),
            endpoints=tuple(endpoints_of(prepared.who.functions)),
        )
        finish(result, recorder, log, delivery, loop.tally)
    return result


def attempted(asked: Eval, recorder: Recorder, prepared: Prepared) -> tuple[dict[str, Any], str]:
    """The eval's own report, and what kept it from one."""
    try:
        return checked_report(asked, asked.run(recorder)), ""
    except LogUnavailable as error:
        return partial_report(asked, recorder), str(error)
    except Exception as error:
        logger.debug("the eval raised", exc_info=True)
        return {}, prepared.secrets.mask(blamed(error))


def checked_report(asked: Eval, report: Any) -> dict[str, Any]:
    """
    A report as numbers by name.

    Raises:
        EvalFailed: If it is none.
    """
    if report is not None and not isinstance(report, Mapping):
        raise EvalFailed(f"{type(asked).__name__}.run() gave a {type(report).__name__}, not numbers by name.")
    return {str(name): value for name, value in (report or {}).items()}


def partial_report(asked: Eval, recorder: Recorder) -> dict[str, Any]:
    """The report over what is in the log, of an eval that can tell one; nothing of another."""
    report = getattr(asked, "report", None)
    try:
        return checked_report(asked, report(recorder)) if callable(report) else {}
    except Exception:
        logger.debug("no partial report", exc_info=True)
        return {}


def one_line(text: str) -> str:
    """A reason as one line of bounded length: an exception may quote a model, and a model may write what looks like our report."""
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_REASON else f"{flat[:LONGEST_REASON]} …"


def blamed(error: Exception) -> str:
    """An exception of an eval's own code, with the place it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    if isinstance(error, EvalframeError):
        return str(error)
    return f"the eval itself raised {described(error)}{where}. Samples that were answered are in the log."


def completed_report(report: dict[str, Any], loop: Loop, prices: Prices) -> dict[str, Any]:
    """The eval's report without what is no number, with both readings where samples ended in error, and with what was spent."""
    report = {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in report.items()}
    accuracy, n, errors = report.get("accuracy"), report.get("n"), loop.tally.counts.error
    if errors and isinstance(n, int) and (accuracy is None or isinstance(accuracy, int | float)) and loop.epochs.epochs == 1:
        if loop.failure.score_on_error:
            kept = n - errors
            report["accuracy_errors_left_out"] = accuracy * n / kept if kept > 0 and accuracy is not None else None
            report["accuracy_errors_left_out_n"] = kept
        else:
            report["accuracy_errors_as_wrong"] = (accuracy or 0.0) * n / (n + errors)
            report["accuracy_errors_as_wrong_n"] = n + errors
    tally = loop.tally
    if tally.outcomes:
        told = {**tally.outcomes, "error": tally.counts.error}
        report["outcomes"] = {name: told[name] for name in (*OUTCOMES, "error") if told.get(name)}
    for name, usage in (("usage", tally.usage), ("judge_usage", tally.judge_usage)):
        if usage:
            report[name] = {model: {**spent.to_dict(), "cost_usd": cost(model, spent, prices)} for model, spent in usage.items()}
    return report


def cost(model: str, spent: Usage, prices: Prices) -> float | None:
    """What tokens cost in US dollars; None where the model has no price, or one that cannot be read."""
    try:
        price = prices(model)
    except EvalframeError:
        return None
    dollars = price.cost_usd(spent) if price is not None else None
    return None if dollars is None else round(dollars, 9)


def notices_of(parts: Sequence[Any]) -> list[str]:
    """What completion functions have to tell at the end of a run: answers from the cache, how often they were throttled."""
    said = []
    for part in parts:
        notices = getattr(part, "notices", None)
        said += [str(notice) for notice in notices()] if callable(notices) else []
    return list(dict.fromkeys(said))


def endpoints_of(functions: Sequence[Any]) -> list[Mapping[str, Any]]:
    """What functions have to tell of their endpoints for the log; most often nothing."""
    told = (getattr(function, "endpoint_facts", None) for function in functions)
    return [facts for facts in (tell() for tell in told if callable(tell)) if facts]


def resume_command(log_path: Path) -> str:
    """The command that takes a run up again."""
    return f"evalframe resume {shlex.quote(str(log_path))}"


def verdict(report: Mapping[str, Any], loop: Loop, failure: str) -> tuple[str, str]:
    """How the run ended, and why that is no success."""
    counts = loop.tally.counts
    if loop.interrupt.signal is not None and counts.ended < counts.total:
        return CANCELLED, f"interrupted after {counts.ended} of {counts.total} samples."
    if failure:
        return ERROR, failure
    if loop.fatal is not None:
        return ERROR, f"given up, since every sample would fail: {loop.mask(str(loop.fatal))}"
    if counts.error and loop.failure.has_failed(counts.error, counts.total):
        stopped = f" Stopped after {counts.ended} of {counts.total}." if counts.ended < counts.total else ""
        return ERROR, failed_samples(loop.tally) + stopped
    if loop.used_up is not None and counts.ended < counts.total:
        return CANCELLED, f"{loop.used_up}; stopped after {counts.ended} of {counts.total} samples."
    if counts.total and not counts.completed and not counts.limit:
        return ERROR, failed_samples(loop.tally)
    if "accuracy" in report and report["accuracy"] is None:
        return ERROR, f"none of {counts.total} samples got a verdict; there is no accuracy to report."
    return SUCCESS, ""


def failed_samples(tally: Tally) -> str:
    """How many samples failed, and of what most of all."""
    (kind, times), *_ = tally.errors.most_common(1) or [("", 0)]
    counts = tally.counts
    often = f" Most often ({times}): {tally.examples[kind]}" if kind else ""
    return f"{counts.error} of {counts.total} samples failed.{often}"


def finish(result: RunResult, recorder: Recorder, log: Recorder, delivery: HttpRecorder | None, tally: Tally) -> None:
    """Write the last line, and bring everything to where it belongs."""
    try:
        recorder.flush()
        if delivery is not None and delivery.failed:
            set_failed(result, "too many events could not be delivered.")
        recorder.record_final_report(result.report, **last_line(result, tally))
        recorder.flush()
    except LogUnavailable as error:
        set_failed(result, str(error))
    if isinstance(recorder, TeeRecorder):
        result.notices += tuple(recorder.faults)
    if delivery is not None:
        delivery.close()
        if delivery.failed and result.status == SUCCESS:
            set_failed(result, "too many events could not be delivered.")
            log.record_final_report(result.report, **last_line(result, tally))  # the last one counts
        result.notices += tuple(said for said in (delivery.summary(),) if said)


def set_failed(result: RunResult, reason: str) -> None:
    """Turn a success into an error; what was none before keeps its own reason and exit code."""
    if result.status == SUCCESS:
        result.status, result.reason, result.exit_code = ERROR, reason, 1


def last_line(result: RunResult, tally: Tally) -> dict[str, Any]:
    """What stands beside the final report in the log's last line."""
    line: dict[str, Any] = {
        "status": result.status,
        "samples": result.counts.to_line(),
        "seconds": round(result.seconds, 3),
        "waiting_seconds": round(tally.waiting_s, 3),
    }
    line |= {name: number for name, number in (("reused", tally.reused), ("retried", tally.retried)) if number}
    if result.endpoints:
        line["endpoints"] = list(result.endpoints)
    return {**line, "reason": result.reason} if result.reason else line
