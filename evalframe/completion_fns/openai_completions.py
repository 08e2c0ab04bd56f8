"""
The completions endpoint, for base models: a text in, the text that follows out.

Covers: chat prompts, put into one text in the manner of openai/evals ("User: ..." a message, and "Assistant:" at the end), which stands in
the log as it was sent; several answers; log-probabilities, which may be asked for in chat's spelling (`logprobs` true, `top_logprobs`);
`echo`, whose answers begin with the prompt.
Does not cover: pictures and tools, which a text cannot hold; several prompts in one request; streaming.

Only what was asked for is sent. Without `max_tokens` OpenAI and most other servers stop after 16 tokens, and without `stop` a base model
goes on to ask itself the next question ("User: ..."): an eval of base models asks for both.

Fields after OpenAI's API reference, "Create completion" (developers.openai.com/api/reference/resources/completions), and the types of its
Python library; read 2026-12-01.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from evalframe.completion_fns.openai import OPENAI, choices_of, text_or_none
from evalframe.completion_fns.remote import RemoteCompletion, RemoteCompletionFn
from evalframe.core.completion import Usage
from evalframe.core.errors import BadArguments, RequestRefused
from evalframe.core.media import part_of
from evalframe.core.prompts import Prompt, as_text

PARAMETERS = frozenset({
    "best_of", "echo", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "n", "presence_penalty",
    "seed", "stop", "suffix", "temperature", "top_logprobs", "top_p", "user",
})  # fmt: skip
"""What the endpoint takes beside model and prompt, and what is translated into that."""
CHAT_ONLY = frozenset({
    "audio", "function_call", "functions", "modalities", "parallel_tool_calls", "prediction", "reasoning_effort", "response_format",
    "tool_choice", "tools", "verbosity", "web_search_options",
})  # fmt: skip
"""Options of chat completions that mean nothing to a base model."""


class OpenAICompletionFn(RemoteCompletionFn):
    """Ask a completions endpoint; for its arguments see `RemoteCompletionFn`."""

    home = OPENAI
    PATH: ClassVar[str] = "/completions"
    PARAMETERS: ClassVar[frozenset[str]] = PARAMETERS
    WIRE_NAMES: ClassVar[Mapping[str, str]] = {"max_completion_tokens": "max_tokens", "top_logprobs": "logprobs"}
    OURS: ClassVar[frozenset[str]] = frozenset({"model", "prompt", "stream"})
    CALLED: ClassVar[str] = "Completions"

    def checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        for name, value in options.items():
            if name in CHAT_ONLY and value is not None:
                raise BadArguments(
                    f"The completions endpoint takes no option {name}: it only goes on with a text.",
                    do="Ask a chat model (endpoint=chat), or leave it out. If this server knows it all the same: extra_options.",
                )
        return super().checked_options({name: value for name, value in options.items() if name not in CHAT_ONLY})

    def body(self, prompt: Prompt, options: Mapping[str, Any]) -> dict[str, Any]:
        refuse_more_than_text(prompt)
        return {"model": self.model, "prompt": as_text(prompt), **wire_options(options)}

    def as_sent(self, prompt: Prompt) -> Prompt:
        return as_text(prompt)

    def read(self, raw: dict[str, Any]) -> RemoteCompletion:
        completion = RemoteCompletion([], Usage.from_dict(raw.get("usage")), model=text_or_none(raw.get("model")), raw=raw)
        for choice in choices_of(raw, completion):
            completion.add(
                text_or_none(choice.get("text")) or "", text_or_none(choice.get("finish_reason")), logprobs=choice.get("logprobs")
            )
        return completion


def wire_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the endpoint spells them: of two names for one, the last wins, which is that of a call."""
    sent: dict[str, Any] = {}
    for name, value in options.items():
        if name == "max_completion_tokens":
            sent["max_tokens"] = value
        elif name not in ("logprobs", "top_logprobs"):
            sent[name] = value
    count = options.get("logprobs")
    if isinstance(count, bool) or count is None:
        # in chat's spelling; 1 where no number is asked for, since some servers take 0 for none
        count = options.get("top_logprobs", 1 if count else None) if count is not False else None
    return sent if count is None else {**sent, "logprobs": count}


def refuse_more_than_text(prompt: Prompt) -> None:
    """
    Let only text pass: without the rest, another question would be asked.

    Raises:
        RequestRefused: If a message holds something else.
    """
    for message in [] if isinstance(prompt, str) else prompt:
        content = message.get("content")
        others = [part for part in content if not isinstance(part_of(part), str)] if isinstance(content, list) else []
        if others or message.get("tool_calls") or message.get("function_call"):
            what = (
                "calls of tools" if not others else f"a part of type {others[0].get('type') if isinstance(others[0], Mapping) else None!r}"
            )
            raise RequestRefused(
                f"The completions endpoint takes text only, and a message of the prompt holds {what}.", do="Ask a chat model."
            )
