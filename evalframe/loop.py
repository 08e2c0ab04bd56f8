"""
The loop: every sample of an eval is asked, in its order, with its randomness, in its scope; what becomes of it stands in the log.

Each concern is an object of its own, composed here:

    SampleOrder    which samples, in which order        (core/order.py)
    seeded         the randomness of a sample           (core/order.py)
    EpochPlan      how often each                       (resilience/epochs.py)
    Attempt        one try at one sample, and its end   (core/attempt.py)
    FailurePolicy  what errors mean                     (resilience/failures.py)
    Limits, Budget how far a sample goes, and a run     (resilience/limits.py)
    Interrupt      Ctrl-C, SIGTERM, a closed terminal   (resilience/interrupts.py)
    Executor       one at a time, threads, coroutines   (executors/)
    Tally          what it all comes to                 (core/tally.py)
    Observer       who is told of each end              (a progress bar)

What an earlier process has asked is taken from the recorder: it remembers.
"""

from __future__ import annotations

import inspect
import math
import os
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from evalframe.core.attempt import Attempt, input_hash
from evalframe.core.errors import EvalframeError, LogUnavailable, ModelUnavailable, Unpriced
from evalframe.core.executor import Executor, Stop
from evalframe.core.limit import Limit, LimitReached, RunStopped
from evalframe.core.observer import Asked, Observer
from evalframe.core.order import SampleOrder, seeded
from evalframe.core.price import Prices
from evalframe.core.recorder import Recorder
from evalframe.core.sample import copied
from evalframe.core.scope import SampleScope
from evalframe.core.steps import on_event_loop
from evalframe.core.tally import Tally
from evalframe.executors.backlog import Backlog
from evalframe.executors.coroutines import CoroutineExecutor, in_time, waited_for
from evalframe.executors.serial import SerialExecutor
from evalframe.executors.threads import ThreadExecutor
from evalframe.resilience.epochs import EpochPlan
from evalframe.resilience.failures import FailurePolicy
from evalframe.resilience.interrupts import Interrupt, raise_here_after, raise_no_more
from evalframe.resilience.limits import Budget, Limits, SampleWatch

WORKERS = 10
WORKERS_VARIABLE = "EVALS_THREADS"
SEQUENTIAL_VARIABLE = "EVALS_SEQUENTIAL"
THREADS, COROUTINES = "threads", "coroutines"
FORKED = 70
"""Exit code of a process that an eval has forked off and let run back into the loop."""
GRACE_S = 3.0
"""Seconds that samples in flight get after a first Ctrl-C."""


@dataclass(frozen=True)
class Crew:
    """
    What several runs of one process share: the workers, and who stops them.

    Args:
        executor: Workers that ask samples; None where each run asks one after the other.
        interrupt: Who turns signals into a stop of them all.
        runs: Who spreads the runs.
    """

    executor: Executor | None
    interrupt: Interrupt
    runs: Executor

    @classmethod
    def of(cls, *, workers: int, parallel: int, sequential: bool = False) -> Crew:
        """A crew that asks so many samples at once, of so many runs at once."""
        if sequential:
            return cls(None, Interrupt(), SerialExecutor())
        return cls(ThreadExecutor(workers), Interrupt(), ThreadExecutor(parallel) if parallel > 1 else SerialExecutor())

    def ranked(self, rank: int) -> Crew:
        """The same crew, for the run of a rank: workers prefer the samples of lower ranks."""
        executor = self.executor.ranked(rank) if isinstance(self.executor, ThreadExecutor) else self.executor
        return replace(self, executor=executor)

    def each(self, run: Callable[[Any], Any], items: Iterable[Any], stop: Stop) -> Iterator[Any]:
        """What `run(item)` comes to for each item, in the order of completion; what is under way at a signal is waited for."""
        with self.interrupt.listening(), self.interrupt.watched_by(lambda: stop.request(grace_s=math.inf)):
            yield from self.runs.map(run, Backlog(items), stop)


@dataclass
class Loop:
    """
    Runs the samples of an eval.

    Args:
        workers: Samples at once.
        sequential: Whether to ask one after the other on this thread, whatever `workers` says.
        coroutines: Whether evals that are written in steps run as tasks of an event loop.
        order: Which samples, in which order.
        epochs: How often each.
        holds: Whether a sample is asked at all: (index, epoch) -> bool; None for all that the order chooses.
        failure: What errors mean.
        limits: How far a sample may go.
        budget: What all of them together may spend.
        interrupt: Who turns signals into a stop.
        executor: Workers that this run shares with others; None for its own.
        observer: Who is told of each end; None for nobody.
        grace_s: Seconds that samples in flight get when the run is stopped.
        mask: Takes secrets out of a text.
        clock: Monotonic seconds.

    Attributes:
        tally: What the run comes to so far.
        fatal: Why the run was given up, if it was.
        used_up: Which limit of the run has ended it, if one has.
        passes: How often samples were asked so far; the second time they count as further epochs, with the randomness of the first.
    """

    workers: int = WORKERS
    sequential: bool = False
    coroutines: bool = False
    order: SampleOrder = field(default_factory=SampleOrder)
    epochs: EpochPlan = field(default_factory=EpochPlan)
    holds: Callable[[int, int], bool] | None = None
    failure: FailurePolicy = field(default_factory=FailurePolicy)
    limits: Limits = field(default_factory=Limits)
    budget: Budget = field(default_factory=Budget)
    interrupt: Interrupt = field(default_factory=Interrupt)
    executor: Executor | None = None
    observer: Observer | None = None
    grace_s: float = GRACE_S
    mask: Callable[[str], str] = str
    clock: Callable[[], float] = time.monotonic
    tally: Tally = field(default_factory=Tally)
    fatal: EvalframeError | None = None
    used_up: str | None = None
    passes: int = 0

    @classmethod
    def compose(cls, settings: Mapping[str, Any], *, prices: Prices, crew: Crew | None = None, **more: Any) -> Loop:
        """
        The loop that the settings of a run ask for.

        Args:
            settings: See `RunConfig`.
            prices: What models cost.
            crew: What this run shares with others.
            more: Further fields.

        Raises:
            BadSetting: If they do not fit together.
        """
        chosen = settings.__getitem__
        limits = Limits(
            message=chosen("message_limit"),
            turn=chosen("turn_limit"),
            token=chosen("token_limit"),
            time_s=chosen("time_limit"),
            working_s=chosen("working_limit"),
            cost_usd=chosen("cost_limit"),
        )
        return cls(
            workers=chosen("threads"),
            sequential=chosen("sequential"),
            coroutines=chosen("executor") == COROUTINES,
            order=SampleOrder(chosen("max_samples")),
            epochs=EpochPlan.of(chosen("epochs"), chosen("epochs_reducer")),
            failure=FailurePolicy(chosen("fail_on_error"), chosen("continue_on_fail"), chosen("retry_on_error"), chosen("score_on_error")),
            limits=limits,
            budget=Budget(chosen("max_cost"), chosen("max_total_tokens"), prices),
            grace_s=chosen("grace_s"),
            executor=crew.executor if crew else None,
            interrupt=crew.interrupt if crew else Interrupt(),
            **more,
        )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Loop:
        """The loop of an eval that is run by hand: threads as `EVALS_THREADS` says, one at a time with `EVALS_SEQUENTIAL`."""
        environ = os.environ if environ is None else environ
        threads = environ.get(WORKERS_VARIABLE, "")
        sequential = environ.get(SEQUENTIAL_VARIABLE, "").lower() in ("1", "true", "yes")
        return cls(workers=int(threads) if threads.isdecimal() and int(threads) > 0 else WORKERS, sequential=sequential)

    def run(self, asked: Asked, recorder: Recorder, samples: Sequence[Any], *, keep_results: bool = True) -> list[Any]:
        """
        Ask every sample that was not asked by an earlier process.

        Args:
            asked: The eval.
            recorder: Who remembers.
            samples: All rows; `order` chooses among them.
            keep_results: Whether what `eval_sample` returns is wanted back; if not, nothing of it is held in memory.

        Returns:
            Results in the order of `samples`, and of epochs within each, without those of samples that did not end well.

        Raises:
            LogUnavailable: If the log could not be kept.
        """
        return Pass(self, asked, recorder, samples, keep_results=keep_results).run()

    def tell(self, what: str, *of: Any) -> None:
        """Tell the observer; one that fails, since nobody reads its output any more, is told nothing further, and the run goes on."""
        if self.observer is None:
            return
        try:
            getattr(self.observer, what)(*of)
        except Exception:  # noqa: BLE001 - whatever it was, it is no reason to lose a run
            self.observer = None


@dataclass(slots=True)
class Task:
    """
    A sample that is to be asked.

    Args:
        index: Its place among all.
        epoch: Which repetition.
        tries: How often it was tried in this process.
        failed: The last of these attempts.
    """

    index: int
    epoch: int
    tries: int = 0
    failed: Attempt | None = None


MISSING = object()
"""Stands for the result of a sample that has none."""


class Pass:
    """
    One pass over the samples of an eval.

    Args:
        loop: Whose settings hold, and where it is booked.
        asked, recorder, samples, keep_results: As for `Loop.run`.
    """

    def __init__(self, loop: Loop, asked: Asked, recorder: Recorder, samples: Sequence[Any], *, keep_results: bool) -> None:
        self.loop = loop
        self.asked = asked
        self.recorder = recorder
        self.samples = samples
        self.indices = loop.order.indices(len(samples))
        self.results: list[Any] | None = [MISSING] * (len(samples) * loop.epochs.epochs) if keep_results else None
        self.stop = Stop(loop.clock)
        self.backlog = Backlog((), may_return=False)
        self._base = ".".join(asked.name.split(".")[:2])
        self._epochs_before = loop.passes * loop.epochs.epochs
        may_come_again = loop.epochs.epochs > 1 or loop.failure.retry_on_error > 0
        self._copies = may_come_again and not getattr(samples, "reads_anew", False)
        self._under_way: dict[tuple[int, int], Attempt] = {}
        self._booking = threading.Lock()
        self._process = os.getpid()
        self._has_alarm = self._is_asking = False

    def run(self) -> list[Any]:
        """See `Loop.run`."""
        loop = self.loop
        loop.passes += 1
        total = len(self.indices) * loop.epochs.epochs
        if loop.holds is not None:
            total = sum(loop.holds(*asked) for asked in loop.epochs.items(self.indices))
        loop.tally.counts.total += total
        loop.tell("begin", total)
        try:
            with loop.interrupt.listening(), loop.interrupt.watched_by(self._interrupted):
                done = self._take_up()
                if loop.tally.reused:
                    loop.tell("ended", loop.tally.counts)
                self._heed_budget()
                left = total - sum(done) if done is not None else total
                self.backlog = Backlog(self._tasks(done), may_return=loop.failure.retry_on_error > 0)
                work, executor = self._work(max(1, min(loop.workers, left)))
                for attempt in executor.map(work, self.backlog, self.stop):
                    if attempt.is_final:
                        loop.tell("ended", loop.tally.counts)
                    if attempt.status in ("completed", "limit"):
                        self._keep(attempt.index, attempt.scope.epoch - self._epochs_before, attempt.result)
        finally:
            if self._has_alarm:
                raise_no_more()
            self._leave_behind()
            loop.tell("finish")
        return [result for result in self.results or () if result is not MISSING]

    # ------------------------------------------------------------------ what is to be asked

    def _take_up(self) -> bytearray | None:
        """Which samples an earlier process has asked, one byte each; None for a run that is new. The others of its samples are left out."""
        earlier, loop = self.recorder.earlier(), self.loop
        if earlier is None:
            return None
        if loop.passes == 1:
            loop.tally.add_earlier(earlier)
            loop.budget.spend(earlier.usage)
            loop.budget.spend(earlier.judge_usage)
        done = bytearray(len(self.samples) * loop.epochs.epochs)
        is_same_file = earlier.all_read(getattr(self.samples, "sha256", None))  # then every row is what it was, and need not be looked at
        for index in self.indices:
            sha256 = ""
            for epoch in range(1, loop.epochs.epochs + 1):
                ended = self.recorder.ended(self._sample_id(index), self._epochs_before + epoch)
                if ended is None or ended.status not in ("completed", "limit"):
                    continue
                if not is_same_file:
                    sha256 = sha256 or input_hash(self.samples[index])
                    if not sha256.startswith(ended.input_sha256):
                        continue
                if self.results is not None:
                    data = ended.data()
                    if "result_lost" in data:
                        continue
                    self._keep(index, epoch, data.get("result"))
                done[self._slot(index, epoch)] = 1
                loop.tally.reuse(ended)
        if loop.tally.reused < earlier.ended:
            chosen = frozenset(self.indices)
            self.recorder.leave_out(lambda sample_id, epoch: self._stays(done, chosen, sample_id, epoch))
        return done

    def _tasks(self, done: bytearray | None) -> Iterator[Task]:
        for index, epoch in self.loop.epochs.items(self.indices):
            is_done = done is not None and done[self._slot(index, epoch)]
            if not is_done and (self.loop.holds is None or self.loop.holds(index, epoch)):
                yield Task(index, epoch)

    def _stays(self, done: bytearray, chosen: Container[int], sample_id: str, epoch: int) -> bool:
        """Whether what an earlier process has recorded of a sample still says something of this run: an answer that holds, or a failure."""
        base, _, number = sample_id.rpartition(".")
        if not 1 <= epoch - self._epochs_before <= self.loop.epochs.epochs:
            return True  # another pass knows
        if base != self._base or not number.isdecimal() or int(number) not in chosen:
            return False
        if done[self._slot(int(number), epoch - self._epochs_before)]:
            return True
        ended = self.recorder.ended(sample_id, epoch)
        return ended is not None and ended.status in ("error", "interrupted")  # until it is asked again

    def _sample_id(self, index: int) -> str:
        return f"{self._base}.{index}"

    def _slot(self, index: int, epoch: int) -> int:
        return index * self.loop.epochs.epochs + epoch - 1

    def _keep(self, index: int, epoch: int, result: Any) -> None:
        if self.results is not None:
            self.results[self._slot(index, epoch)] = result

    # ------------------------------------------------------------------ one attempt

    def _work(self, workers: int) -> tuple[Callable[[Task], Any], Executor]:
        """What a worker does with a task, and who spreads it."""
        asked = self.asked

        def on_thread(task: Task) -> Attempt:
            with self._attempt(task) as attempt:
                self._is_asking = True
                try:
                    result = asked.eval_sample(attempt.scope.sample, attempt.rng)
                finally:
                    self._is_asking = False
                    end_a_fork(self._process)
                attempt.result = waited_for(result) if inspect.isawaitable(result) else result
            return attempt

        async def as_task(task: Task) -> Attempt:
            with self._attempt(task) as attempt:
                sample, rng = attempt.scope.sample, attempt.rng
                asking = asked.eval_sample(sample, rng) if in_steps is None else on_event_loop(in_steps(sample, rng))
                attempt.result = await in_time(asking, attempt.scope)
            return attempt

        in_steps = asked.in_steps if self.loop.coroutines else None
        is_async = inspect.iscoroutinefunction(asked.eval_sample) or in_steps is not None
        work = as_task if is_async else on_thread
        if self.loop.executor is not None and not self.loop.sequential:
            return work, self.loop.executor
        if is_async:
            return work, CoroutineExecutor(1 if self.loop.sequential else workers)
        return work, SerialExecutor() if self.loop.sequential else ThreadExecutor(workers)

    @contextmanager
    def _attempt(self, task: Task) -> Iterator[Attempt]:
        """Put one sample in scope, and see it to its end, whatever happens inside."""
        try:
            attempt = self._begin(task)
            started = self.loop.clock()
            try:
                with self.recorder.in_scope(attempt.scope):
                    try:
                        yield attempt
                    except LimitReached as reached:
                        self._grade_what_there_is(attempt, reached.limit)
                    self._heed_limit(attempt)
            except LogUnavailable:
                raise
            except RunStopped:
                attempt.status = "interrupted"
            except BaseException as error:
                if self.stop.overdue and not isinstance(error, Exception):
                    raise  # the executor takes down what it leaves behind
                attempt.status, attempt.error = "error", error
            attempt.seconds = self.loop.clock() - started
            self._end(task, attempt)
        finally:
            self.backlog.done()

    def _begin(self, task: Task) -> Attempt:
        """A fresh attempt: a fresh copy of the sample, the same randomness, and what an attempt before it has paid for."""
        sample_id = self._sample_id(task.index)
        row = self.samples[task.index]
        epoch = self._epochs_before + task.epoch
        scope = SampleScope(self.recorder, sample_id, epoch, 1, copied(row) if self._copies else row)
        scope.watch = SampleWatch(self.loop.limits, scope, self.stop, self.loop.budget, clock=self.loop.clock)
        attempt = Attempt(scope, task.index, seeded(sample_id, self.asked.seed, task.epoch), self.loop.mask)
        ended = self.recorder.ended(sample_id, epoch)
        if task.failed is not None:
            before = task.failed.scope
            scope.attempt, scope.kept, scope.outcome = before.attempt + 1, before.kept, before.outcome if before.kept else None
        elif ended is not None:
            scope.attempt = ended.attempt + 1
            if ended.status in ("error", "interrupted") and attempt.asks(ended.input_sha256):
                scope.kept = ended.data().get("answers")
                scope.outcome = ended.outcome if scope.kept else None
        self._under_way[task.index, task.epoch] = attempt
        self.recorder.begin(scope)
        return attempt

    def _grade_what_there_is(self, attempt: Attempt, limit: Limit) -> None:
        """A limit has cut the sample: no model of it is asked any more, and the eval grades its last state."""
        attempt.limit = limit
        if attempt.scope.watch is not None:
            attempt.scope.watch.lift()
        attempt.result = self.asked.on_limit(attempt.scope.sample, attempt.rng, limit)
        if inspect.iscoroutine(attempt.result):
            attempt.result.close()
            raise TypeError("on_limit may not be async: it grades what there is, and waits for nobody")

    def _heed_limit(self, attempt: Attempt) -> None:
        """A limit that the eval's own code has caught is one all the same."""
        watch = attempt.scope.watch
        assert isinstance(watch, SampleWatch)
        attempt.limit = attempt.limit or watch.reached
        if attempt.limit is not None:
            attempt.status = "limit"

    def _end(self, task: Task, attempt: Attempt) -> None:
        """Write the end of an attempt, count it, and see what follows from it. Called by its worker."""
        if self._under_way.pop((task.index, task.epoch), None) is None:
            return  # it was left behind
        failure, task.tries = self.loop.failure, task.tries + 1
        is_fatal = isinstance(attempt.error, Unpriced) or (isinstance(attempt.error, ModelUnavailable) and not self._has_answered())
        attempt.is_final = not (attempt.error is not None and failure.tries_again(task.tries) and not is_fatal and not self.stop.requested)
        attempt.end(self.recorder)
        if not attempt.is_final:
            task.failed = attempt
            self.backlog.give_back(task)
        elif attempt.error is not None and failure.score_on_error:
            attempt.end_as_wrong(self.recorder)
        self._book(attempt, is_fatal=is_fatal)

    def _book(self, attempt: Attempt, *, is_fatal: bool) -> None:
        """Count an attempt that is in the log, and stop the others where it says that they would fail, or cost too much."""
        loop = self.loop
        with self._booking:
            loop.tally.add(attempt)
            counts = loop.tally.counts
            if is_fatal and isinstance(attempt.error, EvalframeError):
                loop.fatal = loop.fatal or attempt.error
                self.stop.request(grace_s=loop.grace_s)
            if loop.failure.must_stop(counts.error, counts.total):
                self.stop.request(grace_s=loop.grace_s)
            self._heed_budget()

    def _has_answered(self) -> bool:
        """Whether a model has answered in this process."""
        counts = self.loop.tally.counts
        return counts.completed + counts.limit > self.loop.tally.reused

    def _heed_budget(self) -> None:
        """Begin no sample past what the run may spend."""
        used_up = self.loop.budget.used_up()
        if used_up is not None:
            self.loop.used_up = self.loop.used_up or used_up
            self.stop.request(grace_s=math.inf)

    # ------------------------------------------------------------------ the end of a pass

    def _interrupted(self) -> None:
        """Begin nothing more, and say so."""
        self.stop.request(grace_s=self.loop.grace_s)
        if self.loop.sequential:
            self._has_alarm = raise_here_after(self.loop.grace_s, where=lambda: self._is_asking)
        self.loop.tell("stopping", self.loop.grace_s)

    def _leave_behind(self) -> None:
        """Samples still in flight are interrupted: what they still do is not recorded. What was to be tried again has failed."""
        try:
            for key in list(self._under_way):
                attempt = self._under_way.pop(key, None)
                if attempt is None:
                    continue
                attempt.scope.paused = True
                attempt.status = "interrupted"
                with self._booking:
                    self.loop.tally.add(attempt)
                attempt.end(self.recorder)
            for task in self.backlog.left():
                assert task.failed is not None
                self.loop.tally.fail(task.failed.message)
                if self.loop.failure.score_on_error:
                    task.failed.end_as_wrong(self.recorder)
        except LogUnavailable:
            return


def end_a_fork(process: int) -> None:
    """End this process if it is another one: an eval has forked it off, and forgot to end it, and it must not ask the samples once more."""
    if os.getpid() != process:
        os._exit(FORKED)
