"""
A recorder remembers. Whatever is recorded while a sample is in scope belongs to that sample.

The scope is a context variable, so that each thread and each task has its own, and leaving one restores the one outside, whatever
happened inside.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from evalframe.core.completion import Usage
from evalframe.core.event import Event
from evalframe.core.limit import Watch
from evalframe.core.prompts import Prompt
from evalframe.core.specs import RunSpec


@dataclass(slots=True, eq=False)
class SampleScope:
    """
    One attempt at one sample, and what it has cost so far.

    Args:
        recorder: Who remembers it.
        sample_id: "<base>.<split>.<index>".
        epoch: Which repetition, from 1.
        attempt: Which try, from 1.
        sample: The row itself.
        usage: Tokens by model.
        waiting_s: Seconds spent waiting for others: back-off and rate limits.
        paused: Whether recording is switched off.
        scored, unscored: Verdicts given, and verdicts that could not be given.
        turns: Answers of models so far.
        answer: The last of them, as it was recorded.
        kept: Answers that an earlier attempt was given and that were not graded yet; nobody is asked for them again.
        watch: What holds the attempt to its limits; None for no limits.
        memo: What a completion function needs to remember of this attempt, by a key of its own.
        outer: The attempt that this scope was opened in, by the eval's own code; what happens is booked there.
    """

    recorder: Recorder
    sample_id: str
    epoch: int = 1
    attempt: int = 1
    sample: Any = None
    usage: dict[str, Usage] = field(default_factory=dict)
    waiting_s: float = 0.0
    paused: bool = False
    scored: int = 0
    unscored: int = 0
    turns: int = 0
    answer: Any = None
    kept: list[str] | None = None
    watch: Watch | None = None
    memo: dict[Any, Any] = field(default_factory=dict)
    outer: SampleScope | None = None

    @property
    def root(self) -> SampleScope:
        """The attempt itself, however many scopes were opened in it."""
        return self if self.outer is None else self.outer.root

    def spend(self, model: str, spent: Usage) -> None:
        """Book the tokens of a call."""
        self.usage[model] = self.usage[model] + spent if model in self.usage else spent


@dataclass(frozen=True, slots=True)
class Ended:
    """
    How the last attempt at a sample ended, as the log of an earlier process tells.

    Args:
        attempt: Which try it was, from 1.
        status: "completed", "error", "limit" or "interrupted".
        input_sha256: Of the row that was asked; its first 16 characters.
        is_unscored: Whether no verdict could be given.
        data: Reads the `sample` event's data.
    """

    attempt: int
    status: str
    input_sha256: str
    is_unscored: bool
    data: Callable[[], Mapping[str, Any]]


@dataclass(slots=True)
class Earlier:
    """
    What earlier processes have spent on a run that is taken up again.

    Args:
        usage: Tokens by model, of all attempts.
        seconds, waiting_s: Of all attempts together.
        ended: Samples and epochs whose last attempt counts.
        data: Of each of these processes, the SHA-256 of every data file that it read.
    """

    usage: dict[str, Usage] = field(default_factory=dict)
    seconds: float = 0.0
    waiting_s: float = 0.0
    ended: int = 0
    data: list[frozenset[str]] = field(default_factory=list)

    def all_read(self, sha256: object) -> bool:
        """Whether every one of them read the data file with this hash."""
        return bool(self.data) and all(sha256 in files for files in self.data)


_scope: ContextVar[SampleScope | None] = ContextVar("evalframe_sample_scope", default=None)


def current_scope() -> SampleScope | None:
    """The sample in scope, if there is one."""
    return _scope.get()


def default_recorder() -> Recorder | None:
    """The recorder in scope, if there is one."""
    scope = _scope.get()
    return scope.recorder if scope else None


class Recorder(ABC):
    """
    Base of all recorders: makes events, numbers them, and hands them to `write`.

    Args:
        run_spec: The run whose events these are.
        clock: Gives the time of an event.
    """

    def __init__(self, run_spec: RunSpec, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.run_spec = run_spec
        self._clock = clock
        self._numbers = itertools.count()

    # ------------------------------------------------------------------ what an implementation does

    @abstractmethod
    def write(self, event: Event) -> None:
        """
        Take an event. It is in nobody's power to change it afterwards: an implementation copies or encodes it before it returns.

        Raises:
            LogUnavailable: If it cannot be kept.
        """

    @abstractmethod
    def get_events(self, type: str) -> Sequence[Event]:
        """
        The events of a type that count: those outside of any attempt, and those of each sample's last ended attempt unless it ended
        in error; see `Attempts`. In the order of recording.
        """

    def write_line(self, line: Mapping[str, Any]) -> None:
        """Take a line that is no event, such as the final report."""

    def begin(self, scope: SampleScope) -> None:
        """An attempt at a sample begins."""

    def end(self, scope: SampleScope, data: Mapping[str, Any]) -> None:
        """An attempt at a sample ends: `data` is its `sample` event. When this returns, all of the attempt is on disk."""
        self._emit("sample", dict(data), scope.sample_id, scope)

    def earlier(self) -> Earlier | None:
        """What earlier processes have recorded of this run; None for a run that is new."""
        return None

    def ended(self, sample_id: str, epoch: int) -> Ended | None:
        """How the last attempt of an earlier process at a sample ended, if there was one."""
        return None

    def leave_out(self, is_kept: Callable[[str, int], bool]) -> int:
        """
        Let the samples of earlier processes for which `is_kept(sample_id, epoch)` is false count no more, and say so in the log.

        Returns:
            How many they were.
        """
        return 0

    def flush(self) -> None:
        """Bring to disk whatever is not there yet."""

    def close(self) -> None:
        """Flush, and let go of files and threads. Closing twice is fine."""

    # ------------------------------------------------------------------ scope

    @contextmanager
    def as_default_recorder(self, sample_id: str) -> Iterator[SampleScope]:
        """Put a sample in scope. Inside of an attempt at another, what models are asked is booked there, too."""
        outer = self._own_scope()
        inner = SampleScope(self, sample_id)
        if outer is not None:
            inner.outer, inner.epoch, inner.watch = outer, outer.epoch, outer.watch
        with self.in_scope(inner) as scope:
            yield scope

    @contextmanager
    def in_scope(self, scope: SampleScope) -> Iterator[SampleScope]:
        """Put an attempt in scope."""
        token = _scope.set(scope)
        try:
            yield scope
        finally:
            _scope.reset(token)

    def current_sample_id(self) -> str | None:
        """The sample in scope of this recorder."""
        scope = self._own_scope()
        return scope.sample_id if scope else None

    def pause(self) -> None:
        """Record nothing for the sample in scope until `unpause`."""
        if scope := self._own_scope():
            scope.paused = True

    def unpause(self) -> None:
        """Record again."""
        if scope := self._own_scope():
            scope.paused = False

    def is_paused(self) -> bool:
        """Whether recording is switched off for the sample in scope."""
        scope = self._own_scope()
        return scope is not None and scope.paused

    def _own_scope(self) -> SampleScope | None:
        scope = _scope.get()
        return scope if scope is not None and scope.recorder is self else None

    # ------------------------------------------------------------------ recording

    def record_event(self, type: str, data: Any = None, sample_id: str | None = None) -> None:
        """
        Record an event of any type.

        Args:
            type: Its type.
            data: JSON values; others are spelt as text.
            sample_id: The sample; by default the one in scope.

        Raises:
            ValueError: If no sample is in scope and none is given.
        """
        scope = self._own_scope()
        if scope is not None and sample_id not in (None, scope.sample_id):
            scope = None
        if scope is None and sample_id is None:
            raise ValueError(f'record_event("{type}") needs a sample: call it inside eval_sample, or pass sample_id=')
        if scope is not None and scope.paused:
            return
        self._emit(type, data, scope.sample_id if scope else sample_id, scope)

    def _emit(self, type: str, data: Any, sample_id: str | None, scope: SampleScope | None) -> None:
        self.write(
            Event(
                self.run_spec.run_id,
                next(self._numbers),
                sample_id,
                type,
                data,
                self.run_spec.created_by,
                str(self._clock()),
                scope.epoch if scope else 1,
                scope.attempt if scope else 1,
            )
        )

    def record_match(self, correct: bool, *, expected: Any = None, picked: Any = None, sample_id: str | None = None, **extra: Any) -> None:
        """
        Record a verdict.

        Args:
            correct: Whether the answer is right; a real bool.
            expected: The right answer, or right answers; a list of one is unwrapped.
            picked: What was taken for the answer.
            sample_id: By default the sample in scope.
            extra: Further keys of the event.
        """
        if not isinstance(correct, bool):
            raise TypeError(f"record_match takes a bool for `correct`, not {type(correct).__name__}: {correct!r}")
        if isinstance(expected, list) and len(expected) == 1:
            expected = expected[0]
        if scope := self._own_scope():
            scope.root.scored += 1
        self.record_event("match", {"correct": correct, "expected": expected, "picked": picked, **extra}, sample_id)

    def record_unscored(self, reason: str, *, sample_id: str | None = None, **extra: Any) -> None:
        """Record that no verdict could be given, and why."""
        if scope := self._own_scope():
            scope.root.unscored += 1
        self.record_event("unscored", {"reason": reason, **extra}, sample_id)

    def record_sampling(self, prompt: Any, sampled: Any, sample_id: str | None = None, **extra: Any) -> None:
        """
        Record what a model answered to a prompt.

        Args:
            prompt: As it was sent.
            sampled: The answer, or answers.
            sample_id: By default the sample in scope.
            extra: Further keys; `model` and `usage` are added up for the sample.

        Raises:
            LimitReached: If the answer, which is in the log by then, took the sample past a limit.
        """
        scope = self._own_scope()
        self.record_event("sampling", {"prompt": prompt, "sampled": sampled, **extra}, sample_id)
        if scope is None:
            return
        model, spent, attempt = str(extra.get("model") or ""), Usage.from_dict(extra.get("usage")), scope.root
        attempt.turns += 1
        attempt.answer = sampled
        if "usage" in extra:
            attempt.spend(model, spent)
        if scope.watch is not None:
            scope.watch.after_call(model, spent)

    def record_embedding(self, prompt: Any, embedding_type: str, sample_id: str | None = None, **extra: Any) -> None:
        """Record that an embedding of `prompt` was made."""
        self.record_event("embedding", {"prompt": prompt, "embedding_type": embedding_type, **extra}, sample_id)

    def record_function_call(self, name: str, arguments: Any, return_value: Any, sample_id: str | None = None, **extra: Any) -> None:
        """Record that a function was called."""
        self.record_event("function_call", {"name": name, "arguments": arguments, "return_value": return_value, **extra}, sample_id)

    def record_cond_logp(self, prompt: Any, completion: Any, logp: float, sample_id: str | None = None, **extra: Any) -> None:
        """Record the log-likelihood of `completion` after `prompt`."""
        self.record_event("cond_logp", {"prompt": prompt, "completion": completion, "logp": logp, **extra}, sample_id)

    def record_pick_option(self, prompt: Any, options: Any, picked: Any, sample_id: str | None = None, **extra: Any) -> None:
        """Record which of the options was picked."""
        self.record_event("pick_option", {"prompt": prompt, "options": options, "picked": picked, **extra}, sample_id)

    def record_raw(self, data: Any) -> None:
        """Record a row of data as it is."""
        self.record_event("raw_sample", data)

    def record_metrics(self, **kwargs: Any) -> None:
        """Record numbers by name for the sample in scope."""
        self.record_event("metrics", kwargs)

    def record_error(self, msg: str, error: BaseException | None = None, **kwargs: Any) -> None:
        """Record an error that did not end the sample: `msg` says what was tried."""
        told = {"type": type(error).__name__, "message": str(error)} if error is not None else {}
        self.record_event("error", {"msg": msg, **told, **kwargs})

    def record_extra(self, data: Any, sample_id: str | None = None) -> None:
        """Record anything else."""
        self.record_event("extra", data, sample_id)

    def record_final_report(self, final_report: Any, **line: Any) -> None:
        """Record the report that ends the run; `line` holds further keys of its line, such as `status`."""
        self.write_line({"final_report": final_report, "run_id": self.run_spec.run_id, **line})

    # ------------------------------------------------------------------ reading back

    def get_metrics(self) -> list[Any]:
        """The data of all `metrics` events that count."""
        return [event.data for event in self.get_events("metrics")]

    def get_scores(self, key: str) -> list[Any]:
        """One number of all `metrics` events that count."""
        return [event.data[key] for event in self.get_events("metrics")]


class NoRecorder(RuntimeError):
    """A module function was called with no sample in scope."""


def _recorder() -> Recorder:
    recorder = default_recorder()
    if recorder is None:
        raise NoRecorder("no sample is in scope: call this inside eval_sample, or the recorder's own method with sample_id=")
    return recorder


def record_event(type: str, data: Any = None, sample_id: str | None = None) -> None:
    """`Recorder.record_event` for the sample in scope."""
    _recorder().record_event(type, data, sample_id)


def record_match(correct: bool, *, expected: Any = None, picked: Any = None, **extra: Any) -> None:
    """`Recorder.record_match` for the sample in scope."""
    _recorder().record_match(correct, expected=expected, picked=picked, **extra)


def record_unscored(reason: str, **extra: Any) -> None:
    """`Recorder.record_unscored` for the sample in scope."""
    _recorder().record_unscored(reason, **extra)


def record_sampling(prompt: Any, sampled: Any, **extra: Any) -> None:
    """`Recorder.record_sampling` for the sample in scope."""
    _recorder().record_sampling(prompt, sampled, **extra)


def record_embedding(prompt: Any, embedding_type: str, **extra: Any) -> None:
    """`Recorder.record_embedding` for the sample in scope."""
    _recorder().record_embedding(prompt, embedding_type, **extra)


def record_function_call(name: str, arguments: Any, return_value: Any, **extra: Any) -> None:
    """`Recorder.record_function_call` for the sample in scope."""
    _recorder().record_function_call(name, arguments, return_value, **extra)


def record_cond_logp(prompt: Any, completion: Any, logp: float, **extra: Any) -> None:
    """`Recorder.record_cond_logp` for the sample in scope."""
    _recorder().record_cond_logp(prompt, completion, logp, **extra)


def record_pick_option(prompt: Any, options: Any, picked: Any, **extra: Any) -> None:
    """`Recorder.record_pick_option` for the sample in scope."""
    _recorder().record_pick_option(prompt, options, picked, **extra)


def record_raw(data: Any) -> None:
    """`Recorder.record_raw` for the sample in scope."""
    _recorder().record_raw(data)


def record_metrics(**extra: Any) -> None:
    """`Recorder.record_metrics` for the sample in scope."""
    _recorder().record_metrics(**extra)


def record_error(msg: str, error: BaseException | None = None, **extra: Any) -> None:
    """`Recorder.record_error` for the sample in scope."""
    _recorder().record_error(msg, error, **extra)


def record_extra(data: Any) -> None:
    """`Recorder.record_extra` for the sample in scope."""
    _recorder().record_extra(data)


def record_sampling_if_in_scope(prompt: Any, sampled: Any, **extra: Any) -> None:
    """`record_sampling` where a sample is in scope; nothing elsewhere, as when a completion function is tried by hand."""
    if recorder := default_recorder():
        recorder.record_sampling(prompt, sampled, **extra)


def note_waiting(seconds: float) -> None:
    """Book seconds of the sample in scope as waiting, not working."""
    if scope := _scope.get():
        scope.root.waiting_s += seconds


def before_call(prompt: Prompt) -> None:
    """
    A model is about to be asked. Whoever asks one calls this first; a call too many of it does no harm.

    Raises:
        LimitReached: If the sample in scope may not ask any more.
    """
    scope = _scope.get()
    if scope is not None and scope.watch is not None:
        scope.watch.before_call(1 if isinstance(prompt, str) else len(prompt))


def time_left_s() -> float | None:
    """Seconds that a call for the sample in scope may still take; None for no end."""
    scope = _scope.get()
    return scope.watch.left_s() if scope is not None and scope.watch is not None else None


def refuse_late() -> None:
    """
    Look at the clock of the sample in scope.

    Raises:
        LimitReached: If its time is over.
    """
    scope = _scope.get()
    late = scope.watch.late() if scope is not None and scope.watch is not None else None
    if late is not None:
        raise late


def lift_limits() -> None:
    """What follows for the sample in scope is grading, which no limit cuts."""
    scope = _scope.get()
    if scope is not None and scope.watch is not None:
        scope.watch.lift()


def wait_for(seconds: float, sleep: Callable[[float], None]) -> None:
    """
    Wait for others, and book it as waiting; no longer than the sample in scope may take, or the run goes on.

    Args:
        seconds: How long.
        sleep: Waits, where no sample with limits is in scope.

    Raises:
        LimitReached: If the sample's time is over before that.
        RunStopped: If the run is stopped before that.
    """
    scope = _scope.get()
    if scope is None or scope.watch is None:
        sleep(seconds)
        note_waiting(seconds)
    else:
        scope.watch.wait(seconds)  # books what it has waited


def pause() -> None:
    """`Recorder.pause` for the sample in scope."""
    _recorder().pause()


def unpause() -> None:
    """`Recorder.unpause` for the sample in scope."""
    _recorder().unpause()
