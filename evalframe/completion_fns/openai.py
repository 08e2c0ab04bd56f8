"""
Chat completions as OpenAI defined them, and as most model servers speak them: vLLM, llama.cpp, Ollama, OpenRouter, gateways.

Covers: every parameter of the endpoint, sent only if asked for; many answers to one prompt; tool calls, refusals, reasoning that the server
tells apart or that stands in <think> tags; log-probabilities; answers without text; replies without usage; servers that need no key.
Does not cover: streaming.

Fields after OpenAI's API reference, "Create chat completion" (platform.openai.com/docs/api-reference/chat/create), and for `reasoning` and
`reasoning_content` the documentation of OpenRouter, vLLM and DeepSeek; read 2026-12-01.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from evalframe.completion_fns.calls import Unreadable
from evalframe.completion_fns.endpoint import Home
from evalframe.completion_fns.remote import RemoteCompletion, RemoteCompletionFn
from evalframe.core.completion import Usage
from evalframe.core.prompts import Prompt, as_messages
from evalframe.storage import json_text

OPENAI = Home("https://api.openai.com/v1", base_url_env="OPENAI_BASE_URL", api_key_env="OPENAI_API_KEY")

PARAMETERS = frozenset({
    "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
    "metadata", "modalities", "moderation", "n", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key",
    "prompt_cache_retention", "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store",
    "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
})  # fmt: skip
"""What the endpoint takes beside model and messages."""


class OpenAIChatCompletionFn(RemoteCompletionFn):
    """Ask a chat completions endpoint; for its arguments see `RemoteCompletionFn`."""

    home = OPENAI
    PATH: ClassVar[str] = "/chat/completions"
    PARAMETERS: ClassVar[frozenset[str]] = PARAMETERS
    CALLED: ClassVar[str] = "Chat completions"

    def body(self, prompt: Prompt, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"model": self.model, "messages": as_messages(prompt), **options}

    def read(self, raw: dict[str, Any]) -> RemoteCompletion:
        completion = RemoteCompletion([], Usage.from_dict(raw.get("usage")), model=text_or_none(raw.get("model")), raw=raw)
        for choice in choices_of(raw, completion):
            message = choice.get("message")
            if not isinstance(message, Mapping):
                message = {}
            completion.add(
                answer_text(message.get("content")),
                text_or_none(choice.get("finish_reason")),
                reasoning=next(filter(None, (text_or_none(message.get(name)) for name in ("reasoning_content", "reasoning"))), None),
                tool_calls=tool_calls(message),
                refusal=text_or_none(message.get("refusal")),
                logprobs=choice.get("logprobs"),
            )
        return completion


def choices_of(raw: Mapping[str, Any], nothing: RemoteCompletion) -> list[dict[str, Any]]:
    """
    The choices of a reply.

    Args:
        raw: The reply.
        nothing: What the reply amounts to where it has a list of them and that is empty.

    Raises:
        Unreadable: If it has none.
    """
    choices = raw.get("choices")
    if isinstance(choices, list) and choices and all(isinstance(choice, dict) for choice in choices):
        return choices
    if choices == []:
        nothing.add("")
        raise Unreadable('its "choices" hold no answer', nothing.usage, instead=nothing)
    raise Unreadable('it has no "choices"' if choices is None else 'its "choices" hold no answer', nothing.usage)


def answer_text(content: Any) -> str:
    """The text of an answer: itself, its text parts put together, "" where there is none."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        return "".join(part for part in parts if isinstance(part, str))
    return json_text.dumps(content).decode("utf-8")


def tool_calls(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The tools an answer asks for; a call in the older spelling is put into the newer."""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return calls
    older = message.get("function_call")
    return [{"type": "function", "function": older}] if isinstance(older, dict) else None


def text_or_none(value: Any) -> str | None:
    """The value if it is a text."""
    return value if isinstance(value, str) else None


ELSEWHERE = {"AzureOpenAIChatCompletionFn": "azure", "OpenAICompletionFn": "openai_completions"}
"""Classes that registries name under this module, and the modules they stand in."""


def __getattr__(name: str) -> Any:
    if name in ELSEWHERE:
        return getattr(import_module(f"evalframe.completion_fns.{ELSEWHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
