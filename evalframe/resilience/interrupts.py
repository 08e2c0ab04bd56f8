"""
A clean stop: the first Ctrl-C or SIGTERM ends a run in order, the second at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """
    Turns signals into a request.

    Args:
        on_first: Called in the signal handler, with the signal's number, at the first one.

    The second signal ends the process there and then, with the exit code that shells give it (128 + its number): whatever a sample
    that was counted has recorded is with the kernel by then.
    """

    def __init__(self, on_first: Callable[[int], None] | None = None) -> None:
        self.signal: int | None = None
        self.on_first = on_first

    @property
    def exit_code(self) -> int | None:
        """What a shell expects of a process ended by the signal: 130 for Ctrl-C, 143 for SIGTERM."""
        return None if self.signal is None else 128 + self.signal

    def note(self, number: int) -> None:
        """Take a signal."""
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number
        if self.on_first is not None:
            self.on_first(number)

    @contextmanager
    def listening(self) -> Iterator[Interrupt]:
        """Take the signals while the block runs. Off the main thread, where Python allows no handlers, this does nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return

        def handle(number: int, _frame: FrameType | None) -> None:
            self.note(number)

        before: dict[int, Any] = {number: signal.signal(number, handle) for number in SIGNALS}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
