"""
Items on a pool of threads, which several runs may share.

Covers: a million items with no list of them; workers that hang (they are daemons, so none can keep the process alive); several maps at
once over the same threads, by their rank: the next one gets the workers that those before it have no item for.
Does not cover: stopping a thread from outside; what is left behind runs on until it ends by itself or the process does.
"""

from __future__ import annotations

import inspect
import threading
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from evalframe.core.executor import LATER, NOTHING, Source, Stop
from evalframe.executors.outcomes import Outcomes

LATER_S = 0.02
"""How soon a worker without an item looks again for one that came back."""


class Job:
    """One call of `map`: its work, its items, how many of them are under way."""

    def __init__(self, work: Callable[[Any], Any], items: Source, stop: Stop, rank: int) -> None:
        self.rank = rank
        self.work = work
        self.items = items
        self.stop = stop
        self.outcomes = Outcomes()
        self.running = 0
        self.is_over = False
        self.is_left = False


class ThreadExecutor:
    """
    Run items on threads; they are started when there is something to do, and end when there is nothing left.

    Args:
        workers: Threads, for all maps together.
    """

    def __init__(self, workers: int = 10) -> None:
        self.workers = workers
        self._jobs: list[Job] = []
        self._live = 0
        self._changed = threading.Condition()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workers})"

    def map(self, work: Callable[[Any], Any], items: Source, stop: Stop, *, rank: int = 0) -> Iterator[Any]:
        """See `Executor`; workers prefer maps of lower rank, and among equals the older one."""
        if inspect.iscoroutinefunction(work):
            from evalframe.executors.coroutines import on_shared_loop  # only now, since asyncio takes long to import

            work = on_shared_loop(work)
        job = Job(work, items, stop, rank)
        with self._changed:
            insort(self._jobs, job, key=lambda other: other.rank)
            self._start_missing()
            self._changed.notify_all()
        return self._outcomes(job)

    def ranked(self, rank: int) -> RankedExecutor:
        """These threads, for maps of a rank."""
        return RankedExecutor(self, rank)

    def _outcomes(self, job: Job) -> Iterator[Any]:
        try:
            yield from job.outcomes.drain(1, job.stop)
        finally:
            self._leave(job)

    def _start_missing(self) -> None:
        for _ in range(self.workers - self._live):
            self._live += 1
            threading.Thread(target=self._run, name="evalframe-worker", daemon=True).start()

    def _run(self) -> None:
        job: Job | None = None
        while (found := self._next(job)) is not None:
            job, item = found
            try:
                outcome = job.work(item)
            except BaseException as error:  # noqa: BLE001 - handed on to the thread that waits, which raises it
                self._fail(job, error)
            else:
                job.outcomes.put(outcome)

    def _next(self, done: Job | None) -> tuple[Job, Any] | None:
        """End what this worker has done, and find its next item; None where there is nothing left to wait for."""
        with self._changed:
            if done is not None:
                done.running -= 1
                self._end_if_over(done)
                if done.is_left:
                    return None  # another thread has taken this one's place
            while self._jobs:
                for job in list(self._jobs):
                    item = NOTHING if job.stop.requested else job.items.take()
                    if item is NOTHING:
                        self._jobs.remove(job)
                        job.is_over = True
                        self._end_if_over(job)
                    elif item is not LATER:
                        job.running += 1
                        return job, item
                if self._jobs:
                    self._changed.wait(LATER_S)
            self._live -= 1
            return None

    def _end_if_over(self, job: Job) -> None:
        if job.is_over and not job.running:
            job.outcomes.ended()

    def _fail(self, job: Job, error: BaseException) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
            job.is_over = True
            job.outcomes.ended(error)

    def _leave(self, job: Job) -> None:
        """Nobody waits for a job any more: threads that hang in it are replaced, for the others' sake."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
            job.is_over = True
            if job.running and not job.is_left:
                job.is_left = True
                self._live -= job.running
                if self._jobs:
                    self._start_missing()


@dataclass(frozen=True)
class RankedExecutor:
    """
    Threads that are shared, for maps of one rank.

    Args:
        threads: They.
        rank: Lower goes first.
    """

    threads: ThreadExecutor
    rank: int

    def map(self, work: Callable[[Any], Any], items: Source, stop: Stop) -> Iterator[Any]:
        """See `Executor`."""
        return self.threads.map(work, items, stop, rank=self.rank)
