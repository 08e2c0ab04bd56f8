"""
A recorder remembers. Whatever is recorded while a sample is in scope (`scope.py`) belongs to that sample.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from evalframe.core.completion import Usage, outcome_of_all
from evalframe.core.earlier import Earlier, Ended
from evalframe.core.event import Event
from evalframe.core.media import without_media
from evalframe.core.scope import SampleScope, current_scope, put_in_scope
from evalframe.core.specs import RunSpec


def default_recorder() -> Recorder | None:
    """The recorder in scope, if there is one."""
    scope = current_scope()
    return scope.recorder if scope else None


UNKNOWN = Usage(unknown=1)


class Recorder(ABC):
    """
    Base of all recorders: makes events, numbers them, and hands them to `write`.

    Args:
        run_spec: The run whose events these are.
        clock: Gives the time of an event.

    Attributes:
        keeps_media: Whether prompts are recorded with the pictures, sounds and files in them; if not, with their hashes.
    """

    keeps_media = False

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
        with put_in_scope(scope):
            yield scope

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
        scope = current_scope()
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
        if scope is not None and (scope.paused or scope.root.is_over):
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
            extra: Further keys; `model` and `usage` are added up for the sample. While it is graded, the answer is a judge's, and its
                event says so: role "judge".

        Raises:
            LimitReached: If the answer, which is in the log by then, took the sample past a limit.
        """
        scope = self._own_scope()
        if not isinstance(prompt, str) and not self.keeps_media:
            prompt = without_media(prompt)
        role = {"role": "judge"} if scope is not None and scope.root.is_grading else {}
        self.record_event("sampling", {"prompt": prompt, "sampled": sampled, **role, **extra}, sample_id)
        if scope is None:
            return
        model, spent, attempt = str(extra.get("model") or ""), UNKNOWN, scope.root
        if not role:
            told = extra.get("finish_reason"), extra.get("outcome")
            attempt.answered(sampled, outcome_of_all(sampled, *told, has_calls=bool(extra.get("tool_calls"))))
        if "usage" in extra:
            spent = Usage.from_dict(extra["usage"])
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


def record_event_if_in_scope(type: str, data: Any) -> None:
    """`record_event` where a sample is in scope; nothing elsewhere."""
    if recorder := default_recorder():
        recorder.record_event(type, data)


def pause() -> None:
    """`Recorder.pause` for the sample in scope."""
    _recorder().pause()


def unpause() -> None:
    """`Recorder.unpause` for the sample in scope."""
    _recorder().unpause()
