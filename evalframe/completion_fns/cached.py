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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from itertools import zip_longest
from typing import Any, Protocol

from evalframe.completion_fns.model_files import cache_directory
from evalframe.completion_fns.remote import RemoteCompletion, one_or_all
from evalframe.core.attempt import survives_json
from evalframe.core.completion import Completion, CompletionFn, CompletionResult, Usage
from evalframe.core.errors import BadSetting
from evalframe.core.prompts import Prompt, as_messages, is_prompt
from evalframe.core.recorder import NoRecorder, record_error, record_sampling_if_in_scope
from evalframe.core.scope import before_call, current_scope
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
NOTHING_SPENT = Usage(calls=0).to_dict()


class Identified(Protocol):
    """What a completion function whose answers can be kept has beside `__call__`; looked for by the method's name."""

    def cache_identity(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        All that an answer depends on beside the messages, as JSON: provider, address, `model`, and under `options` every option as it is
        sent, those of the function and of the call put together.

        Only its hash is kept, so it may hold what no log may.
        """
        ...


class CachedCompletionFn:
    """
    Wraps a completion function; all that it is asked for beside answers (`model`, `base_url`, ...) is the wrapped one's.

    An answer out of the cache stands in the log as one that was asked for, with `cached: true`. Its `usage` there is nothing spent, no
    call among it, so that the sums of a report, budgets and limits count what is paid now; what it once cost stands as `cached_usage`.
    The completion itself is as it was, its usage too. It counts as a turn.

    Args:
        inner: Who is asked where there is no answer yet.
        cache: Where answers are kept; several functions may share it.

    Attributes:
        hits: Answers that came out of the cache.
        misses: Answers that were not there, and were asked for.
        fault: Why answers can no longer be kept, if so; they are given all the same.
    """

    def __init__(self, inner: CompletionFn, cache: AnswerCache) -> None:
        self.inner = inner
        self.cache = cache
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
        identity = self._identity(prompt, options)
        if identity is None:
            return self.inner(prompt, **options)
        before_call(prompt)
        key = self._key(identity, prompt, options)
        kept = as_completion(self.cache.get(key))
        with self._lock:
            self.hits += kept is not None
            self.misses += kept is None
        if kept is not None:
            record_hit(prompt, kept, identity)
            return kept
        completion = self.inner(prompt, **options)
        self._keep(key, completion)
        return completion

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
        asked = {
            "format": FORMAT,
            "class": f"{type(self.inner).__module__}:{type(self.inner).__qualname__}",
            "identity": {name: in_order(identity[name]) if name == "options" else identity[name] for name in sorted(identity)},
            "messages": as_messages(prompt),
            "options": in_order(options),
            "epoch": scope.epoch if scope else 1,
        }
        question = sha256(asked)
        if scope is None:
            return question
        with self._lock:
            before = scope.root.memo.get(question, 0)
            scope.root.memo[question] = before + 1
        return sha256({**asked, "before": before}) if before else question

    def _keep(self, key: str, completion: CompletionResult) -> None:
        """Keep a good answer. It is paid by now: a cache that cannot be written is told, in the log too, and costs no sample."""
        value = as_kept(completion)
        if value is None:
            return
        try:
            self.cache.put(key, value)
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

    Raises:
        BadSetting: If it cannot be used.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.cache = AnswerCache(folder or cache_directory() / "answers")
        self.functions: list[CachedCompletionFn] = []

    def wrap(self, function: CompletionFn) -> CachedCompletionFn:
        """The function, which asks nobody what was answered before."""
        wrapped = CachedCompletionFn(function, self.cache)
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


def named(function: CompletionFn) -> str:
    """How a function is called for a person."""
    return str(getattr(function, "model", None) or type(function).__name__)


def record_hit(prompt: Prompt, completion: Completion, identity: Mapping[str, Any]) -> None:
    """Record an answer out of the cache for the sample in scope, as the function that gave it would, with nothing spent."""
    model = identity.get("model") or completion.model
    told = {"reasoning": completion.reasoning, "tool_calls": completion.tool_calls, "refusal": getattr(completion, "refusals", [])}
    extra: dict[str, Any] = {name: one_or_all(values) for name, values in told.items() if any(values)}
    if completion.model not in (None, model):
        extra["answered_by"] = completion.model
    if identity.get("options"):
        extra["options"] = identity["options"]
    record_sampling_if_in_scope(
        prompt=as_messages(prompt),
        sampled=one_or_all(completion.completions),
        model=model,
        usage=NOTHING_SPENT,
        finish_reason=one_or_all(completion.finish_reasons) if completion.finish_reasons else None,
        cached=True,
        cached_usage=completion.usage.to_dict(),
        **extra,
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
