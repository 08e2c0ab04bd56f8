"""
Who is asked: the completion functions of a run, made, and wrapped where the run wants more of them than they do by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from evalframe.core.completion import CompletionFn
from evalframe.core.errors import BadSetting, Collector
from evalframe.core.secrets import Secrets
from evalframe.core.specs import CompletionFnSpec
from evalframe.registry.env import read_env
from evalframe.registry.registry import Registry
from evalframe.runs.config import RunConfig

ANSWERS = "evalframe.completion_fns.cached:AnswersKept"


class Answers(Protocol):
    """A cache of answers."""

    def wrap(self, function: CompletionFn) -> CompletionFn:
        """The function, which asks nobody what was answered before."""
        ...

    def notices(self) -> list[str]:
        """What a person should know of it at the end of a run."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


@dataclass
class Functions:
    """
    The completion functions of a run.

    Args:
        names: As they were asked for.
        functions: They, ready to be asked.
        told: What the log says of each.
        answers: The cache that they use, where one is used.
    """

    names: list[str] = field(default_factory=list)
    functions: list[CompletionFn] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)
    answers: Answers | None = None


def ask_whom(
    asked: str | CompletionFn | Sequence[str | CompletionFn],
    registry: Registry,
    config: RunConfig | None,
    secrets: Secrets,
    faults: Collector,
) -> Functions:
    """The completion functions; what is wrong with them is collected."""
    found = Functions()
    those = wanted(asked)
    if "" in those:
        faults.add(BadSetting("the name of a completion function is empty.", do="What there is: evalframe list completion_fns"))
    defaults = run_wide(config) if config else {}
    extra = dict(config.completion_args) if config else {}
    for item in those:
        if not isinstance(item, str):
            found.names.append(name_of(item))
            found.functions.append(item)
            found.told.append({"class": f"{type(item).__module__}:{type(item).__qualname__}", "args": {}})
        elif item:
            found.names.append(item)
            spec: CompletionFnSpec | None = faults.of(partial(registry.resolve_completion_fn, item, **extra))
            if spec is None:
                continue
            found.told.append({"name": item, "class": spec.cls, "args": spec.args})
            secrets.add_arguments(read_env(spec.args, missing_ok=True))
            made = faults.of(partial(registry.make_completion_fn, item, defaults=defaults, **extra))
            if made is not None:
                found.functions.append(made)
                if isinstance(getattr(made, "base_url", None), str):
                    found.told[-1]["base_url"] = secrets.mask(made.base_url)  # where it asks may come from the environment
    if config is not None and not faults:
        found.answers = faults.of(partial(kept_answers, config, registry))
        if found.answers is not None:
            found.functions = [found.answers.wrap(function) for function in found.functions]
        if config.has_limits:
            found.functions = [watched(function, registry) for function in found.functions]
    return found


def wanted(asked: str | CompletionFn | Sequence[str | CompletionFn]) -> list[str | CompletionFn]:
    """Each completion function that is asked for; a text may name several, parted by commas."""
    items = [asked] if isinstance(asked, str) or callable(asked) else list(asked)
    return [part for item in items for part in (map(str.strip, item.split(",")) if isinstance(item, str) else [item])]


def name_of(function: CompletionFn) -> str:
    """How a callable is called."""
    return str(getattr(function, "__name__", type(function).__name__))


def run_wide(config: RunConfig) -> dict[str, Any]:
    """What the run says to every completion function that wants to know, unless its entry or the command line says otherwise."""
    return {
        "timeout_s": config.timeout_s,
        "max_retries": config.max_retries,
        "max_total_retry_s": config.max_total_retry_s,
        "max_retry_after_s": config.max_retry_after_s,
        "max_connections": config.threads,
    }


def watched(function: CompletionFn, registry: Registry) -> CompletionFn:
    """The function, held to limits; ours hold to them by themselves."""
    if type(function).__module__.startswith("evalframe.completion_fns."):
        return function
    held: CompletionFn = registry.build("evalframe.completion_fns.watched:WatchedCompletionFn", inner=function)
    return held


def kept_answers(config: RunConfig, registry: Registry) -> Answers | None:
    """
    The cache that the settings ask for.

    Raises:
        BadSetting: If it cannot be used.
    """
    if config.cache is False or (config.cache is None and not config.cache_dir):
        return None
    cache: Answers = registry.build(ANSWERS, folder=config.cache_dir, expires_s=config.cache_expiry)
    return cache
