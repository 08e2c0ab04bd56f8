"""
A completion function that asks nobody what was answered before.

An answer is kept under all that it depends on: what the function says of itself (`cache_identity`), the messages, the options of the call,
the epoch, and how often the same was asked before within the same attempt at a sample. So another model, another address, another option,
another epoch and a second draw each get an answer of their own, and a second attempt at a sample gets those of the first.

Covers: functions that can say what their answers depend on.
Does not cover: all others; nobody knows what their answers depend on, so each call goes to them.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

from evalframe.completion_fns.lane import Pause
from evalframe.completion_fns.model_files import cache_directory
from evalframe.completion_fns.recorded import record_answer
from evalframe.completion_fns.remote import RemoteCompletion
from evalframe.core.attempt import survives_json
from evalframe.core.completion import Completion, CompletionFn, CompletionResult, Usage
from evalframe.core.errors import BadSetting
from evalframe.core.media import read_files
from evalframe.core.prompts import Prompt, as_messages, is_prompt
from evalframe.core.recorder import NoRecorder, record_error
from evalframe.core.scope import before_call, current_scope
from evalframe.core.steps import Steps, asked, on_thread
from evalframe.storage.cache import AnswerCache

FORMAT = 1
"""Stands in every key: raised when an answer kept earlier would be read otherwise now."""
KINDS: dict[str, type[Completion]] = {kind.__name__: kind for kind in (Completion, RemoteCompletion)}
"""Results that can be kept, by name; of another class nobody knows whether all of it is in its fields."""
NOT_GOOD = frozenset({
    "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded",
    "content_filter", "safety", "recitation", "refusal", "error", "abort", "cancelled", "incomplete",
})  # fmt: skip
"""Reasons, as endpoints spell them, why an answer ended that may be another one the next time: cut off, filtered, failed."""
LANDING_S = 0.01
"""How soon who waits for the answer to an equal question looks again."""
NOTHING_SPENT = Usage(calls=0)


class Identified(Protocol):
    """What a completion function whose answers can be kept has beside `__call__`; looked for by the method's name."""

    def cache_identity(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        All that an answer depends on beside the messages, as JSON: provider, address, `model`, and under `options` every option as it is
        sent, those of the function and of the call put together.

        Only its hash is kept, so it may hold what no log may.
        """
        ...


class Flights:
    """Questions that are being asked, by their keys; for many threads and tasks of a process at once."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._lock = threading.Lock()

    def begin(self, key: str) -> bool:
        """Whether nobody else is asking this; then the caller is, until `end`."""
        with self._lock:
            if key in self._keys:
                return False
            self._keys.add(key)
            return True

    def end(self, key: str) -> None:
        """It is asked no more."""
        with self._lock:
            self._keys.discard(key)


class CachedCompletionFn:
    """
    Wraps a completion function; all that it is asked for beside answers (`model`, `base_url`, ...) is the wrapped one's.

    An answer out of the cache stands in the log as one that was asked for, with `cached: true`. Its `usage` there is nothing spent, no
    call among it, so that the sums of a report, budgets and limits count what is paid now; what it once cost stands as `cached_usage`.
    The completion itself is as it was, its usage too. It counts as a turn.

    Equal questions at once are asked once: the others wait for the first one's answer, and take it from the cache; if it was none that
    can be kept, the next of them asks.

    Args:
        inner: Who is asked where there is no answer yet.
        cache: Where answers are kept; several functions may share it.
        flights: What is being asked; shared by whoever shares the cache.

    Attributes:
        hits: Answers that came out of the cache.
        misses: Answers that were not there, and were asked for.
        fault: Why answers can no longer be kept, if so; they are given all the same.
    """

    def __init__(self, inner: CompletionFn, cache: AnswerCache, flights: Flights | None = None) -> None:
        self.inner = inner
        self.cache = cache
        self.flights = flights or Flights()
        self.hits = 0
        self.misses = 0
        self.fault: BadSetting | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("inner", "_lock"):  # a copy that is just being made has no inner one yet
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return getattr(self.inner, name)

    @property
    def can_keep(self) -> bool:
        """Whether the wrapped function says what its answers depend on; if not, each call goes to it."""
        return callable(getattr(self.inner, "cache_identity", None))

    def __call__(self, prompt: Prompt, **options: Any) -> CompletionResult:
        """
        The answer that was given before, or else one that is asked for now.

        Raises:
            BadSetting: If the cache cannot be read any more: nothing is paid a second time unasked.
        """
        return on_thread(self.answer_in_steps(prompt, options))

    def answer_in_steps(self, prompt: Prompt, options: Mapping[str, Any]) -> Steps[CompletionResult]:
        """The same in steps: see `core/steps.py`."""
        identity = self._identity(prompt, options)
        if identity is None:
            return (yield from asked(self.inner, prompt, **options))
        before_call(prompt)
        prompt = read_files(prompt, Path.cwd())  # the answer depends on what is in the files, not on their names
        key = self._key(identity, prompt, options)
        while True:
            kept = as_completion(self.cache.get(key))
            if kept is not None:
                self._count(hits=1)
                record_hit(prompt, kept, identity)
                return kept
            if self.flights.begin(key):
                break
            yield Pause(LANDING_S, time.sleep)  # somebody is asking the same just now
        self._count(misses=1)
        try:
            completion = yield from asked(self.inner, prompt, **options)
            self._keep(key, completion)
        finally:
            self.flights.end(key)
        return completion

    def _count(self, *, hits: int = 0, misses: int = 0) -> None:
        with self._lock:
            self.hits += hits
            self.misses += misses

    def _identity(self, prompt: Prompt, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the answer depends on; None where that cannot be told to the last bit, as of an option that JSON cannot spell."""
        if not self.can_keep or not is_prompt(prompt):
            return None
        inner: Any = self.inner
        identity = dict(inner.cache_identity(options))
        return identity if all(survives_json(part) for part in (identity, prompt, options)) else None

    def _key(self, identity: Mapping[str, Any], prompt: Prompt, options: Mapping[str, Any]) -> str:
        """
        The hash of all that the answer depends on.

        Names at the top are sorted; deeper down the order stays, since a model sees it: a JSON schema's properties are answered in turn.
        """
        scope = current_scope()
        question_asked = {
            "format": FORMAT,
            "class": f"{type(self.inner).__module__}:{type(self.inner).__qualname__}",
            "identity": {name: in_order(identity[name]) if name == "options" else identity[name] for name in sorted(identity)},
            "messages": as_messages(prompt),
            "options": in_order(options),
            "epoch": scope.epoch if scope else 1,
        }
        question = sha256(question_asked)
        if scope is None:
            return question
        with self._lock:
            before = scope.root.memo.get(question, 0)
            scope.root.memo[question] = before + 1
        return sha256({**question_asked, "before": before}) if before else question

    def _keep(self, key: str, completion: CompletionResult) -> None:
        """Keep a good answer. It is paid by now: a cache that cannot be written is told, in the log too, and costs no sample."""
        value = as_kept(completion)
        if value is None:
            return
        try:
            self.cache.put(key, value, model=named(self.inner))
        except BadSetting as error:
            with self._lock:
                is_first, self.fault = self.fault is None, error
            if is_first:
                with suppress(NoRecorder):
                    record_error("an answer could not be kept in the cache", error)


class AnswersKept:
    """
    The cache of one run, and the functions that use it.

    Args:
        folder: Where it lies; by default the user's cache directory.
        expires_s: Seconds after which an answer is asked for anew; None for never.

    Raises:
        BadSetting: If it cannot be used.
    """

    def __init__(self, folder: str | None = None, expires_s: float | None = None) -> None:
        self.cache = AnswerCache(folder or default_folder(), expires_s=expires_s)
        self.flights = Flights()
        self.functions: list[CachedCompletionFn] = []

    def wrap(self, function: CompletionFn) -> CachedCompletionFn:
        """The function, which asks nobody what was answered before."""
        wrapped = CachedCompletionFn(function, self.cache, self.flights)
        self.functions.append(wrapped)
        return wrapped

    def notices(self) -> list[str]:
        """What a person should know of it at the end of a run."""
        hits, misses = sum(one.hits for one in self.functions), sum(one.misses for one in self.functions)
        said = [f"cache: {hits} of {hits + misses} answers were taken from {self.cache.path}"] if hits + misses else []
        said += [
            f"cache: answers of {named(one.inner)} are not kept, since it does not say what they depend on"
            for one in self.functions
            if not one.can_keep
        ]
        return said + [f"cache: answers are no longer kept: {one.fault}" for one in self.functions if one.fault is not None]

    def close(self) -> None:
        """Let go of the file."""
        self.cache.close()


def default_folder() -> Path:
    """Where answers are kept if nothing else is said: a folder of the user's cache directory."""
    return cache_directory() / "answers"


def named(function: CompletionFn) -> str:
    """How a function is called for a person."""
    return str(getattr(function, "model", None) or type(function).__name__)


def record_hit(prompt: Prompt, completion: Completion, identity: Mapping[str, Any]) -> None:
    """Record an answer out of the cache for the sample in scope, as the function that gave it would, with nothing spent."""
    record_answer(
        completion,
        prompt=as_messages(prompt),
        model=identity.get("model") or completion.model,
        usage=NOTHING_SPENT,
        options=identity.get("options") or {},
        cached=True,
        cached_usage=completion.usage.to_dict(),
    )


def is_good(completion: Completion) -> bool:
    """Whether an answer is worth keeping: all of it said to the end, and none of it empty; a call of a tool is something said."""
    texts: list[object] = list(completion.completions)
    if not texts or any(str(reason).lower() in NOT_GOOD for reason in completion.finish_reasons):
        return False
    said = zip_longest(texts, completion.tool_calls[: len(texts)])
    return all(isinstance(text, str) and (text.strip() or called) for text, called in said)


def as_kept(completion: CompletionResult) -> dict[str, Any] | None:
    """An answer as it is kept; None for one that is not good, or that JSON would not give back as it is."""
    kind = type(completion).__name__
    if not isinstance(completion, Completion) or KINDS.get(kind) is not type(completion) or not is_good(completion):
        return None
    held = {item.name: getattr(completion, item.name) for item in fields(completion)}
    value = {"kind": kind, "fields": {**held, "usage": completion.usage.to_dict()}}
    return value if survives_json(value) else None


def as_completion(kept: Mapping[str, Any] | None) -> Completion | None:
    """The answer that was kept; None where there is none, or none that can be read."""
    if kept is None:
        return None
    try:
        held = dict(kept["fields"])
        completion = KINDS[kept["kind"]](**{**held, "usage": Usage(**held["usage"])})
        return completion if is_good(completion) else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # somebody else's hand was in it; it is asked for anew


def in_order(named: Any) -> Any:
    """A mapping with its own names sorted, and all in it as it is."""
    return {name: named[name] for name in sorted(named)} if isinstance(named, Mapping) else named


def sha256(value: Any) -> str:
    """The hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii")).hexdigest()
