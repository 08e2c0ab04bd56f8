"""
Items on a pool of threads.

Covers: a million items with no list of them; workers that hang (they are daemons, so none can keep the process alive).
Does not cover: stopping a thread from outside; what is left behind runs on until it ends by itself or the process does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from evalframe.core.executor import Stop
from evalframe.executors.outcomes import Outcomes

NOTHING = object()
"""Stands for "no item left"."""


@dataclass(frozen=True)
class ThreadExecutor:
    """
    Run items on threads.

    Args:
        workers: Threads.
    """

    workers: int = 10

    def map(self, work: Callable[[Any], Any], items: Iterable[Any], stop: Stop) -> Iterator[Any]:
        """See `Executor`."""
        outcomes, source, taking = Outcomes(), iter(items), threading.Lock()

        def take() -> Any:
            with taking:
                return NOTHING if stop.requested else next(source, NOTHING)

        def run() -> None:
            try:
                while (item := take()) is not NOTHING:
                    outcomes.put(work(item))
            except BaseException as error:  # noqa: BLE001 - handed on to the thread that waits, which raises it
                outcomes.ended(error)
            else:
                outcomes.ended()

        for number in range(self.workers):
            threading.Thread(target=run, name=f"evalframe-worker-{number}", daemon=True).start()
        return outcomes.drain(self.workers, stop)
