"""
Progress on stderr: a bar where someone watches, a line now and then where a file does.
"""

from __future__ import annotations

import math
import os
import sys
import time
from contextlib import suppress
from typing import Any, TextIO

from evalframe.core.errors import BadSetting
from evalframe.core.tally import SampleCounts
from evalframe.runs.config import NO, YES

LINE_EVERY_S = 10.0
"""Seconds between two lines where no terminal listens."""
SAID_S = 0.5
"""Seconds within which runs that stop together say so once."""


_said_stopping_at = [-math.inf]


def say_stopping(stream: TextIO, grace_s: float) -> None:
    """Say, past all buffers since this is called in a signal handler, that the run is stopping; once, where several runs are."""
    now = time.monotonic()
    if now - _said_stopping_at[0] < SAID_S:
        return
    _said_stopping_at[0] = now
    text = f"\nstopping: samples in flight get {grace_s:g} s; a second Ctrl-C stops at once\n"
    with suppress(OSError, ValueError):
        os.write(stream.fileno(), text.encode("ascii"))


class Bar:
    """
    A bar that is drawn again and again, for a terminal.

    Args:
        stream: Where it is drawn.
        name: What is run, where several runs go on at once.
    """

    def __init__(self, stream: TextIO, name: str = "") -> None:
        self._stream = stream
        self._name = name
        self._bar: Any = None
        self._shown = SampleCounts()

    def begin(self, total: int) -> None:
        """See `Observer`."""
        from tqdm import tqdm

        self._bar = tqdm(total=total, unit="sample", desc=self._name or None, file=self._stream, dynamic_ncols=True, leave=True)

    def ended(self, counts: SampleCounts) -> None:
        """See `Observer`."""
        if counts.error != self._shown.error:
            self._bar.set_postfix_str(f"errors: {counts.error}", refresh=False)
        self._bar.update(counts.ended - self._shown.ended)
        self._shown = SampleCounts(**vars(counts))

    def stopping(self, grace_s: float) -> None:
        """See `Observer`."""
        say_stopping(self._stream, grace_s)

    def finish(self) -> None:
        """See `Observer`."""
        if self._bar is not None:
            self._bar.close()


class Lines:
    """
    A plain line at the start, every ten seconds, and at the end; no control codes.

    Args:
        stream: Where they are written.
        name: What is run, where several runs go on at once.
    """

    def __init__(self, stream: TextIO, name: str = "") -> None:
        self._stream = stream
        self._name = f"{name}: " if name else ""
        self._said_at = 0.0
        self._counts = SampleCounts()

    def begin(self, total: int) -> None:
        """See `Observer`."""
        self._counts = SampleCounts(total=total)
        self._said_at = time.monotonic()

    def ended(self, counts: SampleCounts) -> None:
        """See `Observer`."""
        self._counts = counts
        if time.monotonic() - self._said_at >= LINE_EVERY_S:
            self._say()

    def stopping(self, grace_s: float) -> None:
        """See `Observer`."""
        say_stopping(self._stream, grace_s)

    def finish(self) -> None:
        """See `Observer`."""
        self._say()

    def _say(self) -> None:
        counts = self._counts
        errors = f", {counts.error} of them in error" if counts.error else ""
        print(f"{self._name}{counts.ended} of {counts.total} samples done{errors}", file=self._stream, flush=True)
        self._said_at = time.monotonic()


def progress(show: str, stream: TextIO | None = None, *, name: str = "") -> Bar | Lines | None:
    """
    Who shows progress.

    Args:
        show: "auto", or a yes or a no.
        stream: stderr, unless told otherwise.
        name: What is run, where several runs go on at once.

    Raises:
        BadSetting: If `show` is none of these.
    """
    stream = stream or sys.stderr
    choice = show.strip().lower()
    if choice in NO:
        return None
    if choice not in YES and choice != "auto":
        raise BadSetting(f'show_progress takes auto, true or false, not "{show}".')
    return Bar(stream, name) if stream.isatty() else Lines(stream, name)
