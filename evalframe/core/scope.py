"""
The sample in scope: one attempt at it, what it has cost so far, how far it may go.

The scope is a context variable, so that each thread and each task has its own, and leaving one restores the one outside, whatever
happened inside. Whoever asks a model calls `before_call` first, and waits by `wait_for`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evalframe.core.completion import Usage, add_usage
from evalframe.core.limit import Watch
from evalframe.core.prompts import Prompt

if TYPE_CHECKING:
    from evalframe.core.recorder import Recorder


@dataclass(slots=True, eq=False)
class SampleScope:
    """
    One attempt at one sample, and what it has cost so far.

    Args:
        recorder: Who remembers it.
        sample_id: "<base>.<split>.<index>".
        epoch: Which repetition, from 1.
        attempt: Which try, from 1.
        sample: The row itself.
        usage: Tokens by model, of the tested ones.
        judge_usage: Tokens by model, of those that graded.
        waiting_s: Seconds spent waiting for others: back-off and rate limits.
        paused: Whether recording is switched off.
        scored, unscored: Verdicts given, and verdicts that could not be given.
        turns: Answers of models so far.
        answer: The last of them, as it was recorded.
        outcome: What became of it: one of `OUTCOMES`; None before there is one.
        kept: Answers that an earlier attempt was given and that were not graded yet; nobody is asked for them again.
        watch: What holds the attempt to its limits; None for no limits.
        memo: What a completion function needs to remember of this attempt, by a key of its own.
        is_grading: Whether models that are asked now are judges, not the tested ones.
        is_over: Whether its end is written; what comes after it, from a thread that was left running, is not recorded.
        outer: The attempt that this scope was opened in, by the eval's own code; what happens is booked there.
    """

    recorder: Recorder
    sample_id: str
    epoch: int = 1
    attempt: int = 1
    sample: Any = None
    usage: dict[str, Usage] = field(default_factory=dict)
    judge_usage: dict[str, Usage] = field(default_factory=dict)
    waiting_s: float = 0.0
    paused: bool = False
    scored: int = 0
    unscored: int = 0
    turns: int = 0
    answer: Any = None
    outcome: str | None = None
    kept: list[str] | None = None
    watch: Watch | None = None
    memo: dict[Any, Any] = field(default_factory=dict)
    is_grading: bool = False
    is_over: bool = False
    outer: SampleScope | None = None

    @property
    def root(self) -> SampleScope:
        """The attempt itself, however many scopes were opened in it."""
        return self if self.outer is None else self.outer.root

    def spend(self, model: str, spent: Usage) -> None:
        """Book the tokens of a call; while the sample is graded, as a judge's."""
        add_usage(self.judge_usage if self.is_grading else self.usage, {model: spent})

    def answered(self, sampled: Any, outcome: str) -> None:
        """Book an answer of a tested model."""
        self.turns += 1
        self.answer = sampled
        self.outcome = outcome


_scope: ContextVar[SampleScope | None] = ContextVar("evalframe_sample_scope", default=None)


def current_scope() -> SampleScope | None:
    """The sample in scope, if there is one."""
    return _scope.get()


@contextmanager
def put_in_scope(scope: SampleScope) -> Iterator[SampleScope]:
    """Put an attempt in scope."""
    token = _scope.set(scope)
    try:
        yield scope
    finally:
        _scope.reset(token)


def note_waiting(seconds: float) -> None:
    """Book seconds of the sample in scope as waiting, not working."""
    if scope := _scope.get():
        scope.root.waiting_s += seconds


def before_call(prompt: Prompt) -> None:
    """
    A model is about to be asked. Whoever asks one calls this first; a call too many of it does no harm.

    Raises:
        LimitReached: If the sample in scope may not ask any more.
    """
    scope = _scope.get()
    if scope is not None and scope.watch is not None:
        scope.watch.before_call(1 if isinstance(prompt, str) else len(prompt))


def time_left_s() -> float | None:
    """Seconds that a call for the sample in scope may still take; None for no end."""
    scope = _scope.get()
    return scope.watch.left_s() if scope is not None and scope.watch is not None else None


def refuse_late() -> None:
    """
    Look at the clock of the sample in scope.

    Raises:
        LimitReached: If its time is over.
    """
    scope = _scope.get()
    late = scope.watch.late() if scope is not None and scope.watch is not None else None
    if late is not None:
        raise late


def begin_grading() -> None:
    """What follows for the sample in scope is grading: no limit cuts it, and who is asked is a judge."""
    scope = _scope.get()
    if scope is None:
        return
    scope.root.is_grading = True
    if scope.watch is not None:
        scope.watch.lift()


def wait_for(seconds: float, sleep: Callable[[float], None]) -> None:
    """
    Wait for others, and book it as waiting; no longer than the sample in scope may take, or the run goes on.

    Args:
        seconds: How long.
        sleep: Waits, where no sample with limits is in scope.

    Raises:
        LimitReached: If the sample's time is over before that.
        RunStopped: If the run is stopped before that.
    """
    scope = _scope.get()
    if scope is None or scope.watch is None:
        sleep(seconds)
        note_waiting(seconds)
    else:
        scope.watch.wait(seconds)  # books what it has waited


async def await_for(seconds: float) -> None:
    """As `wait_for`, for a task of an event loop."""
    scope = _scope.get()
    if scope is None or scope.watch is None:
        import asyncio  # only now, since it takes long to import

        await asyncio.sleep(seconds)
        note_waiting(seconds)
    else:
        await scope.watch.awaited(seconds)
