"""
Which of OpenAI's endpoints a model is asked at: chat completions, unless somebody says otherwise. No list of names grows old here: the few
base models that know completions only are data of the entry in registry/completion_fns/.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

from evalframe.completion_fns.remote import RemoteCompletionFn
from evalframe.core.errors import BadArguments, closest

ENDPOINTS = {
    "chat": ("openai", "OpenAIChatCompletionFn"),
    "completions": ("openai_completions", "OpenAICompletionFn"),
    "responses": ("openai_responses", "OpenAIResponsesCompletionFn"),
}


def openai_model(
    model: str,
    *,
    endpoint: str | None = None,
    completions_models: Iterable[str] = (),
    timeout_s: float | None = None,
    max_retries: int | None = None,
    max_total_retry_s: float | None = None,
    max_retry_after_s: float | None = None,
    max_connections: int = 10,
    **arguments: Any,
) -> RemoteCompletionFn:
    """
    The function that asks a model at the endpoint it is found at.

    Args:
        model: The model's name.
        endpoint: "chat", "completions" or "responses".
        completions_models: Names, or patterns with *, of models that are asked for completions if nothing else is said.
        timeout_s: As for `RemoteCompletionFn`, like all that follow.
        max_retries: See there.
        max_total_retry_s: See there.
        max_retry_after_s: See there.
        max_connections: See there.
        arguments: See there.

    Raises:
        BadArguments: If there is no such endpoint; see also `RemoteCompletionFn`.
    """
    if endpoint is None:
        known = [completions_models] if isinstance(completions_models, str) else completions_models
        endpoint = "completions" if any(fnmatchcase(str(model), pattern) for pattern in known) else "chat"
    if endpoint not in ENDPOINTS:
        near = closest(str(endpoint), ENDPOINTS) or list(ENDPOINTS)
        told = f'there is no endpoint "{endpoint}" (closest: {", ".join(near)}).'
        raise BadArguments(told, do=f"endpoint is one of {', '.join(ENDPOINTS)}.")
    module, name = ENDPOINTS[endpoint]
    cls = getattr(import_module(f"evalframe.completion_fns.{module}"), name)
    made: RemoteCompletionFn = cls(
        model,
        timeout_s=timeout_s,
        max_retries=max_retries,
        max_total_retry_s=max_total_retry_s,
        max_retry_after_s=max_retry_after_s,
        max_connections=max_connections,
        **arguments,
    )
    return made
