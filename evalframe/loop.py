"""
The loop: every sample of an eval is asked, once, in its order, with its randomness, in its scope; what becomes of it stands in the log.

Each concern is an object of its own, composed here:

    SampleOrder    which samples, in which order
    seeded         the randomness of a sample
    Attempt        one try at one sample: its scope, its time, its end
    FailurePolicy  how many errors are too many        (resilience/failures.py)
    Interrupt      Ctrl-C and SIGTERM                   (resilience/interrupts.py)
    Executor       one at a time, threads, coroutines   (executors/)
    Observer       who is told of each end              (a progress bar)
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import random
import re
import threading
import time
import traceback
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from evalframe.core.completion import Usage
from evalframe.core.errors import EvalframeError, LogUnavailable, ModelUnavailable, described, message_of
from evalframe.core.executor import Executor, Stop
from evalframe.core.recorder import Recorder, SampleScope
from evalframe.executors.coroutines import CoroutineExecutor
from evalframe.executors.serial import SerialExecutor
from evalframe.executors.threads import ThreadExecutor
from evalframe.resilience.failures import FailurePolicy
from evalframe.resilience.interrupts import Interrupt

SHUFFLE_SEED = 123
"""The mould's: the order of samples is the same in every run, whatever the run's seed."""
WORKERS = 10
WORKERS_VARIABLE = "EVALS_THREADS"
SEQUENTIAL_VARIABLE = "EVALS_SEQUENTIAL"
GRACE_S = 3.0
"""Seconds that samples in flight get after a first Ctrl-C."""
DURATION = re.compile(r"\b\d+(\.\d+)? s\b")
DISTINCT_ERRORS = 100
"""Messages of errors that are counted apart; the rest is counted together."""


class Asked(Protocol):
    """What the loop needs of an eval."""

    name: str
    seed: int

    @property
    def eval_sample(self) -> Callable[..., Any]:
        """Asks one sample: (sample, rng) -> result; a function or a coroutine function."""
        ...


class Observer(Protocol):
    """Who is told how the loop gets on."""

    def begin(self, total: int) -> None:
        """The loop begins, with so many samples to go."""
        ...

    def ended(self, counts: SampleCounts) -> None:
        """A sample has ended, and is in the log."""
        ...

    def stopping(self, grace_s: float) -> None:
        """Someone has asked for a stop: samples in flight get so many seconds. Called in a signal handler."""
        ...

    def finish(self) -> None:
        """The loop ends."""
        ...


@dataclass(frozen=True)
class SampleOrder:
    """
    Which samples, and in which order: shuffled, then cut.

    Args:
        max_samples: How many at most; None for all.
    """

    max_samples: int | None = None

    def indices(self, total: int) -> array[int]:
        """Indices into `total` samples; four bytes each."""
        order = array("L" if total > 1 << 31 else "I", range(total))
        random.Random(SHUFFLE_SEED).shuffle(order)
        return order if self.max_samples is None else order[: self.max_samples]


def seeded(sample_id: str, seed: int, epoch: int = 1) -> random.Random:
    """The randomness of one sample: the mould's in epoch 1, another in each later epoch."""
    text = f"{sample_id}:{seed}" if epoch == 1 else f"{sample_id}:{seed}:{epoch}"
    return random.Random(text.encode("utf-8"))


def input_hash(sample: Any) -> str:
    """SHA-256 of a sample's content, the same for the same content: by it a resumed run knows what has changed."""
    return hashlib.sha256(json.dumps(sample, sort_keys=True, default=repr).encode("ascii")).hexdigest()


@dataclass
class SampleCounts:
    """
    What became of the samples.

    Args:
        total: How many there are to be asked.
        completed: Ended well.
        error: Ended in error.
        limit: Cut by a limit.
        interrupted: Begun and left behind.
        unscored: Among those that ended well or were cut: without any verdict, where verdicts were due.
    """

    total: int = 0
    completed: int = 0
    error: int = 0
    limit: int = 0
    interrupted: int = 0
    unscored: int = 0

    @property
    def ended(self) -> int:
        """Samples that are done with."""
        return self.completed + self.error + self.limit

    def to_line(self) -> dict[str, int]:
        """As the final report spells it."""
        line = {name: getattr(self, name) for name in ("total", "completed", "error", "limit", "unscored")}
        return {**line, "interrupted": self.interrupted} if self.interrupted else line


@dataclass
class Tally:
    """
    What a run comes to, added up as samples end.

    Args:
        counts: What became of the samples.
        usage: Tokens by model, errors included.
        errors: Messages of errors, their durations left out, and how often each.
        examples: The first of each, as it was.
        seconds, waiting_s: Of all samples together.
    """

    counts: SampleCounts = field(default_factory=SampleCounts)
    usage: dict[str, Usage] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    waiting_s: float = 0.0

    def add(self, attempt: Attempt) -> None:
        """Book the end of an attempt."""
        scope, status = attempt.scope, attempt.status
        setattr(self.counts, status, getattr(self.counts, status) + 1)
        if status in ("completed", "limit") and scope.unscored and not scope.scored:
            self.counts.unscored += 1
        for model, spent in scope.usage.items():
            self.usage[model] = self.usage[model] + spent if model in self.usage else spent
        self.seconds += attempt.seconds
        self.waiting_s += scope.waiting_s
        if attempt.error is not None:
            kind = DURATION.sub("… s", attempt.message)  # else no two failures would be alike
            kind = kind if kind in self.errors or len(self.errors) < DISTINCT_ERRORS else "other errors"
            self.errors[kind] += 1
            self.examples.setdefault(kind, attempt.message)


class Attempt:
    """One try at one sample."""

    def __init__(self, scope: SampleScope, index: int, rng: random.Random, secrets: Callable[[str], str]) -> None:
        self.scope = scope
        self.index = index
        self.rng = rng
        self.result: Any = None
        self.error: BaseException | None = None
        self.status = "completed"
        self.seconds = 0.0
        self._input_sha256 = input_hash(scope.sample)  # now, before the eval can change the row
        self._mask = secrets

    @property
    def message(self) -> str:
        """The error as it is shown, without secrets."""
        return self._mask(described(self.error)) if self.error is not None else ""

    def end(self, recorder: Recorder) -> None:
        """Write the line that ends the attempt; from then on it is on disk."""
        data: dict[str, Any] = {
            "status": self.status,
            "input_sha256": self._input_sha256,
            "seconds": round(self.seconds, 4),
            "waiting_seconds": round(self.scope.waiting_s, 4),
            "usage": {model: spent.to_dict() for model, spent in self.scope.usage.items()},
        }
        if self.error is not None:
            data["error"] = {
                "type": type(self.error).__name__,
                "message": self._mask(message_of(self.error)),
                "traceback": self._mask(traceback_of(self.error)),
            }
        elif self.result is not None and is_json(self.result):
            data["result"] = self.result
        recorder.end(self.scope, data)


def traceback_of(error: BaseException) -> str:
    """The traceback of any exception."""
    try:
        return "".join(traceback.format_exception(error))
    except Exception as failure:  # noqa: BLE001 - its message may be one that cannot be spelt
        return f"(its traceback cannot be spelt: {type(failure).__name__})"


def is_json(value: Any) -> bool:
    """Whether a value is one that JSON knows."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


MISSING = object()
"""Stands for the result of a sample that has none."""


@dataclass
class Loop:
    """
    Runs the samples of an eval.

    Args:
        workers: Samples at once.
        sequential: Whether to ask one after the other on this thread, whatever `workers` says.
        order: Which samples, in which order.
        failure: How many errors are too many.
        interrupt: Who turns signals into a stop.
        observer: Who is told of each end; None for nobody.
        grace_s: Seconds that samples in flight get when the run is stopped.
        mask: Takes secrets out of a text.
        clock: Monotonic seconds.

    Attributes:
        tally: What the run comes to so far.
        fatal: Why the run was given up, if it was.
    """

    workers: int = WORKERS
    sequential: bool = False
    order: SampleOrder = field(default_factory=SampleOrder)
    failure: FailurePolicy = field(default_factory=FailurePolicy)
    interrupt: Interrupt = field(default_factory=Interrupt)
    observer: Observer | None = None
    grace_s: float = GRACE_S
    mask: Callable[[str], str] = str
    clock: Callable[[], float] = time.monotonic
    tally: Tally = field(default_factory=Tally)
    fatal: EvalframeError | None = None
    _booking: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @classmethod
    def compose(cls, *, max_samples: int | None, fail_on_error: bool | float, continue_on_fail: bool, **more: Any) -> Loop:
        """A loop whose policies are made from settings; see `SampleOrder` and `FailurePolicy`."""
        return cls(order=SampleOrder(max_samples), failure=FailurePolicy(fail_on_error, continue_on_fail), **more)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Loop:
        """The loop of an eval that is run by hand: threads as `EVALS_THREADS` says, one at a time with `EVALS_SEQUENTIAL`."""
        environ = os.environ if environ is None else environ
        threads = environ.get(WORKERS_VARIABLE, "")
        sequential = environ.get(SEQUENTIAL_VARIABLE, "").lower() in ("1", "true", "yes")
        return cls(workers=int(threads) if threads.isdecimal() and int(threads) > 0 else WORKERS, sequential=sequential)

    def run(self, asked: Asked, recorder: Recorder, samples: Sequence[Any]) -> list[Any]:
        """
        Ask every sample.

        Args:
            asked: The eval.
            recorder: Who remembers.
            samples: All rows; `order` chooses among them.

        Returns:
            Results in the order of `samples`, without those of samples that did not end well.

        Raises:
            LogUnavailable: If the log could not be kept.
        """
        indices = self.order.indices(len(samples))
        self.tally.counts.total += len(indices)
        results: list[Any] = [MISSING] * len(samples)
        stop = Stop(self.clock)
        under_way: dict[int, Attempt] = {}
        work, executor = self._work(asked, recorder, samples, under_way, stop, workers=max(1, min(self.workers, len(indices))))
        self.interrupt.on_first = lambda _number: self._interrupted(stop)
        if self.interrupt.signal is not None:
            stop.request(grace_s=0.0)
        self._tell("begin", len(indices))
        try:
            with self.interrupt.listening():
                for attempt in executor.map(work, indices, stop):
                    self._tell("ended", self.tally.counts)
                    if attempt.status == "completed":
                        results[attempt.index] = attempt.result
        finally:
            self._leave_behind(recorder, under_way)
            self._tell("finish")
        return [result for result in results if result is not MISSING]

    def _work(
        self, asked: Asked, recorder: Recorder, samples: Sequence[Any], under_way: dict[int, Attempt], stop: Stop, *, workers: int
    ) -> tuple[Callable[[int], Any], Executor]:
        """What a worker does with an index, and who spreads it."""

        def on_thread(index: int) -> Attempt:
            with self._attempt(asked, recorder, samples, index, under_way, stop) as attempt:
                result = asked.eval_sample(attempt.scope.sample, attempt.rng)
                attempt.result = waited_for(result) if inspect.isawaitable(result) else result
            return attempt

        async def on_event_loop(index: int) -> Attempt:
            with self._attempt(asked, recorder, samples, index, under_way, stop) as attempt:
                attempt.result = await asked.eval_sample(attempt.scope.sample, attempt.rng)
            return attempt

        if inspect.iscoroutinefunction(asked.eval_sample):
            return on_event_loop, CoroutineExecutor(1 if self.sequential else workers)
        if self.sequential:
            return on_thread, SerialExecutor()
        return on_thread, ThreadExecutor(workers)

    @contextmanager
    def _attempt(
        self, asked: Asked, recorder: Recorder, samples: Sequence[Any], index: int, under_way: dict[int, Attempt], stop: Stop
    ) -> Iterator[Attempt]:
        """Put one sample in scope, and see it to its end, whatever happens inside."""
        base, split = asked.name.split(".")[:2]
        sample_id = f"{base}.{split}.{index}"
        scope = SampleScope(recorder, sample_id, sample=samples[index])
        attempt = Attempt(scope, index, seeded(sample_id, asked.seed), self.mask)
        under_way[index] = attempt
        recorder.begin(scope)
        started = self.clock()
        try:
            with recorder.in_scope(scope):
                yield attempt
        except LogUnavailable:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - told in the log; Ctrl-C comes as a signal, not here
            attempt.status, attempt.error = "error", error
        except BaseException:
            attempt.status = "interrupted"
            raise
        attempt.seconds = self.clock() - started
        if under_way.pop(index, None) is not None:
            attempt.end(recorder)
            self._book(attempt, stop)

    def _book(self, attempt: Attempt, stop: Stop) -> None:
        """Count an attempt that is in the log, and stop the others where it says that they would fail too. Called by its worker."""
        with self._booking:
            self.tally.add(attempt)
            counts = self.tally.counts
            if isinstance(attempt.error, ModelUnavailable) and not counts.completed:
                self.fatal = self.fatal or attempt.error
                stop.request(grace_s=self.grace_s)
            if self.failure.must_stop(counts.error, counts.total):
                stop.request(grace_s=self.grace_s)

    def _interrupted(self, stop: Stop) -> None:
        """Begin nothing more, and say so."""
        stop.request(grace_s=self.grace_s)
        self._tell("stopping", self.grace_s)

    def _tell(self, what: str, *of: Any) -> None:
        """Tell the observer; one that fails, since nobody reads its output any more, is told nothing further, and the run goes on."""
        if self.observer is None:
            return
        try:
            getattr(self.observer, what)(*of)
        except Exception:  # noqa: BLE001 - whatever it was, it is no reason to lose a run
            self.observer = None

    def _leave_behind(self, recorder: Recorder, under_way: dict[int, Attempt]) -> None:
        """Say of every sample still in flight that it was interrupted; what it still does is not recorded."""
        for index in list(under_way):
            attempt = under_way.pop(index, None)
            if attempt is None:
                continue
            attempt.scope.paused = True
            attempt.status = "interrupted"
            with self._booking:
                self.tally.add(attempt)
            try:
                attempt.end(recorder)
            except LogUnavailable:
                return


def waited_for(result: Awaitable[Any]) -> Any:
    """What an awaitable gives, where a plain function returned one."""
    import asyncio  # only now, since it takes long to import

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())
