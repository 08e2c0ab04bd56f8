"""
Items as tasks of one event loop, for evals whose `eval_sample` is `async def`.

The loop has a thread of its own, so that it runs beside one that is running already (a notebook), and so that the thread that waits for
outcomes can be interrupted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from evalframe.core.executor import Stop
from evalframe.executors.outcomes import POLL_S, Outcomes


@dataclass(frozen=True)
class CoroutineExecutor:
    """
    Run items as tasks.

    Args:
        workers: Tasks at once.
    """

    workers: int = 10

    def map(self, work: Callable[[Any], Any], items: Iterable[Any], stop: Stop) -> Iterator[Any]:
        """See `Executor`; `work` is a coroutine function. Tasks that are left behind are cancelled."""
        import asyncio  # here, since it takes longer to import than the rest of the run together

        outcomes, source = Outcomes(), iter(items)

        async def worker() -> None:
            while not stop.requested and (item := next(source, NOTHING)) is not NOTHING:
                outcomes.put(await work(item))

        async def crowd() -> None:
            tasks = {asyncio.ensure_future(worker()) for _ in range(self.workers)}
            while tasks and not stop.overdue:
                ended, tasks = await asyncio.wait(tasks, timeout=POLL_S, return_when=asyncio.FIRST_EXCEPTION)
                for task in ended:
                    task.result()

        def run() -> None:
            try:
                asyncio.run(crowd())
            except BaseException as error:  # noqa: BLE001 - handed on to the thread that waits, which raises it
                outcomes.ended(error)
            else:
                outcomes.ended()

        threading.Thread(target=run, name="evalframe-event-loop", daemon=True).start()
        return outcomes.drain(1, stop)


NOTHING = object()
"""Stands for "no item left"."""
