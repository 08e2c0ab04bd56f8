"""
An answer as the log keeps it, whoever gave it: a model over HTTP, one in this process, the cache.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evalframe.core.completion import Completion, Usage, one_or_all
from evalframe.core.media import without_media
from evalframe.core.prompts import Prompt
from evalframe.core.recorder import record_sampling_if_in_scope

LONGEST_RAW = 8000
"""Characters of a reply that says nothing, or refuses, which stand in the log."""


def record_answer(
    completion: Completion, *, prompt: Prompt, model: str | None, usage: Usage, options: Mapping[str, Any], **more: Any
) -> None:
    """
    Record an answer for the sample in scope; of several answers, each key holds a list. What there is nothing of is left out.

    Args:
        completion: The answer.
        prompt: As it was sent.
        model: Who was asked.
        usage: What is booked for it.
        options: As they were sent.
        more: Further keys of the event.

    Raises:
        LimitReached: If the answer took the sample past a limit.
    """
    kept: dict[str, list[Any]] = {
        "reasoning": completion.reasoning,
        "tool_calls": completion.tool_calls,
        "refusal": completion.refusals,
        "logprobs": completion.logprobs,
    }
    extra: dict[str, Any] = {key: one_or_all(values) for key, values in kept.items() if any(values)}
    outcomes = completion.outcomes
    if any(outcome != "answered" for outcome in outcomes):
        extra["outcome"] = one_or_all(outcomes)
    if completion.raw is not None and not {"empty", "refused"}.isdisjoint(outcomes):
        extra["raw"] = beginning(without_media(completion.raw))
    if completion.model not in (None, model):
        extra["answered_by"] = completion.model
    if options:
        extra["options"] = options
    if completion.finish_reasons:
        extra["finish_reason"] = one_or_all(completion.finish_reasons)
    record_sampling_if_in_scope(
        prompt=prompt, sampled=one_or_all(completion.completions), model=model, usage=usage.to_dict(), **extra, **more
    )


def beginning(raw: Any) -> Any:
    """A reply as the log keeps it: itself, or the beginning of its text where it is long."""
    text = json.dumps(raw, ensure_ascii=False, default=str)
    return raw if len(text) <= LONGEST_RAW else f"{text[:LONGEST_RAW]} …"
