"""
Items as tasks of one event loop, for evals whose `eval_sample` is `async def`.

The loop has a thread of its own, so that it runs beside one that is running already (a notebook), and so that the thread that waits for
outcomes can be interrupted.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evalframe.core.executor import LATER, NOTHING, Source, Stop
from evalframe.core.scope import SampleScope
from evalframe.executors.outcomes import POLL_S, Outcomes

CLOSING_S = 1.0
"""Seconds that connections get to be closed at the end of the process."""
LATER_S = 0.02
"""How soon a worker without an item looks again for one that came back."""


@dataclass(frozen=True)
class CoroutineExecutor:
    """
    Run items as tasks.

    Args:
        workers: Tasks at once.
    """

    workers: int = 10

    def map(self, work: Callable[[Any], Any], items: Source, stop: Stop) -> Iterator[Any]:
        """See `Executor`; `work` is a coroutine function. Tasks that are left behind are cancelled."""
        import asyncio  # here, since it takes longer to import than the rest of the run together

        outcomes = Outcomes()

        async def worker() -> None:
            while not stop.requested and (item := items.take()) is not NOTHING:
                if item is LATER:
                    await asyncio.sleep(LATER_S)
                else:
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


_shared: list[Any] = []
_sharing = threading.Lock()


def on_shared_loop(work: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Any]:
    """
    Work on one event loop, for threads that wait for it: so evals written as coroutines share a pool of threads with the others, and
    what they hold (a client, a lock) stays on one loop.
    """
    import asyncio

    with _sharing:
        if not _shared:
            _shared.append(asyncio.new_event_loop())
            threading.Thread(target=_shared[0].run_forever, name="evalframe-event-loop", daemon=True).start()
            atexit.register(close_what_is_open, _shared[0])

    async def once(item: Any) -> Any:
        return await work(item)

    return lambda item: asyncio.run_coroutine_threadsafe(once(item), _shared[0]).result()


def close_what_is_open(loop: Any) -> None:
    """Let what lives on an event loop close its connections, before the process ends and takes the loop along."""
    import asyncio

    with suppress(Exception):  # whatever it is, the process ends
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result(timeout=CLOSING_S)


async def in_time(asked: Awaitable[Any], scope: SampleScope) -> Any:
    """
    What an awaitable gives, if the sample's time limit leaves it the time.

    Raises:
        LimitReached: If not.
    """
    import asyncio  # only now, since it takes long to import

    left_s = scope.watch.left_s() if scope.watch is not None else None
    try:
        async with asyncio.timeout(left_s):
            return await asked
    except TimeoutError:
        late = scope.watch.late() if scope.watch is not None else None
        if late is None:
            raise
        raise late from None


def waited_for(result: Awaitable[Any]) -> Any:
    """What an awaitable gives, where a plain function returned one."""
    import asyncio  # only now, since it takes long to import

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())
