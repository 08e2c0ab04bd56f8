"""
A clean stop: the first Ctrl-C, SIGTERM or closed terminal ends a run in order, the second at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from evalframe.core.limit import RunStopped

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STDERR = 2
AT_ONCE_S, AGAIN_S = 0.001, 1.0


class Interrupt:
    """
    Turns signals into a request to stop, for as many runs as watch.

    Attributes:
        signal: The first signal's number; None so far.
        last_words: What is written to stderr when a second one ends the process.

    The second signal ends the process there and then, with the exit code that shells give it (128 + its number): whatever a sample
    that was counted has recorded is with the kernel by then.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.last_words = "stopped at once"
        self._watching: list[Callable[[], None]] = []
        self._listens = False

    @property
    def exit_code(self) -> int | None:
        """What a shell expects of a process ended by the signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for a closed terminal."""
        return None if self.signal is None else 128 + self.signal

    def note(self, number: int) -> None:
        """Take a signal."""
        if self.signal is not None:
            with suppress(OSError):
                os.write(STDERR, f"\n{self.last_words}\n".encode("utf-8", "backslashreplace"))
            os._exit(128 + number)
        self.signal = number
        for watcher in list(self._watching):
            watcher()

    @contextmanager
    def watched_by(self, watcher: Callable[[], None]) -> Iterator[None]:
        """Call `watcher` at the first signal, in the signal's handler; at once, if it has come already."""
        self._watching.append(watcher)
        if self.signal is not None:
            watcher()
        try:
            yield
        finally:
            self._watching.remove(watcher)

    @contextmanager
    def listening(self) -> Iterator[Interrupt]:
        """
        Take the signals while the block runs. Off the main thread, where Python allows no handlers, and inside of another such block,
        this does nothing. A closed terminal that the process was told to ignore (nohup) stays ignored; Ctrl-C does not, since shells tell
        every background job of a script to ignore it.
        """
        if self._listens or threading.current_thread() is not threading.main_thread():
            yield self
            return

        def handle(number: int, _frame: FrameType | None) -> None:
            self.note(number)

        before: dict[int, Any] = {
            number: signal.signal(number, handle)
            for number in SIGNALS
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
        }
        self._listens = True
        try:
            yield self
        finally:
            self._listens = False
            for number, handler in before.items():
                if handler is not None:  # one that was not set from Python cannot be put back
                    signal.signal(number, handler)


def raise_here_after(seconds: float, *, where: Callable[[], bool]) -> bool:
    """
    Raise `RunStopped` on the main thread after so many seconds, and every second from then on: it is asking a sample itself, and nobody
    else could end that.

    Args:
        seconds: How long from now.
        where: Says whether it may be raised at this moment.

    Returns:
        Whether it will: not off the main thread, and not where the system knows no such alarm.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return False

    def stop(_number: int, _frame: FrameType | None) -> None:
        if where():
            raise RunStopped

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, AT_ONCE_S), AGAIN_S)
    return True


def raise_no_more() -> None:
    """Take that back."""
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
