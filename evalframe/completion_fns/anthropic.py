"""
Anthropic's Messages API.

Options and messages are asked for in the spelling of chat completions, and translated: system messages, tools and their results, pictures
and PDFs, `stop`, `max_tokens`, `reasoning_effort`, `response_format`. Names of the API itself are passed on as they are.

Covers: text, thinking, tool calls, refusals, answers that are cut off; tokens read from and written to the cache are input tokens.
Does not cover: several answers to one prompt, log-probabilities, a seed and penalties, which the API does not have. It insists on a longest
answer: `max_tokens` is 4096 unless something else is asked for.

Fields after Anthropic's documentation (platform.claude.com/docs): "Create a Message", "Stop reasons and fallback", "Parallel tool use",
"Errors", "Rate limits"; `output_config` after the references of the same API by OpenRouter (Messages) and Amazon (Bedrock, OutputConfig).
Read 2026-12-01.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from evalframe.completion_fns.calls import Unreadable
from evalframe.completion_fns.endpoint import Home
from evalframe.completion_fns.remote import RemoteCompletion, RemoteCompletionFn
from evalframe.core.completion import Usage
from evalframe.core.errors import RequestRefused
from evalframe.core.media import Media, part_of
from evalframe.core.messages import Message, text_of
from evalframe.core.prompts import Prompt, as_messages
from evalframe.storage import json_text

VERSION = "2023-06-01"
LONGEST_ANSWER = 4096
"""Tokens of an answer where nobody has asked for another limit, since the API insists on one."""
SYSTEM = ("system", "developer")
OWN_BLOCKS = frozenset({"image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"})
"""Parts in the API's own spelling."""
CHOICES = {"auto": "auto", "none": "none", "required": "any"}


class AnthropicCompletionFn(RemoteCompletionFn):
    """
    Ask a Claude model.

    Args:
        model: Its name.
        anthropic_version: The version of the API.
        arguments: As for `RemoteCompletionFn`.
    """

    provider: ClassVar[str] = "anthropic"
    home = Home("https://api.anthropic.com/v1", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "x-api-key")
    PATH: ClassVar[str] = "/messages"
    PARAMETERS: ClassVar[frozenset[str]] = frozenset({
        "container", "context_management", "inference_geo", "max_completion_tokens", "max_tokens", "mcp_servers", "metadata",
        "output_config",
        "parallel_tool_calls", "reasoning_effort", "response_format", "service_tier", "speed", "stop", "stop_sequences", "system",
        "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p", "user",
    })  # fmt: skip
    WIRE_NAMES: ClassVar[Mapping[str, str]] = {
        "max_completion_tokens": "max_tokens",
        "stop": "stop_sequences",
        "reasoning_effort": "effort",
        "response_format": "format",
    }
    OURS: ClassVar[frozenset[str]] = frozenset({"model", "messages", "stream"})
    CALLED: ClassVar[str] = "Anthropic's messages"

    def __init__(self, model: str, *, anthropic_version: str = VERSION, **arguments: Any) -> None:
        headers = {"anthropic-version": anthropic_version, **(arguments.pop("extra_headers", None) or {})}
        super().__init__(model, extra_headers=headers, **arguments)

    def url(self) -> str:
        own = "" if self.base_url.endswith("/v1") else "/v1"  # the SDK's variable names the address without it
        return self._endpoint.url(f"{own}{self.PATH}")

    def body(self, prompt: Prompt, options: Mapping[str, Any]) -> dict[str, Any]:
        conversation, system = as_messages(prompt), options.get("system")
        told = [text_of(message.get("content")) for message in conversation if message.get("role") in SYSTEM]
        if told:
            system = "\n\n".join(filter(None, [*([system] if isinstance(system, str) else []), *told]))
        messages = list(turns(message for message in conversation if message.get("role") not in SYSTEM))
        sent = {"max_tokens": LONGEST_ANSWER, **wire_options(options)}
        return {"model": self.model, **({"system": system} if system else {}), "messages": messages, **sent}

    def read(self, raw: dict[str, Any]) -> RemoteCompletion:
        usage, content = read_usage(raw.get("usage")), raw.get("content")
        if not isinstance(content, list):
            raise Unreadable('it has no "content"', usage)
        texts, thoughts, calls = list[str](), list[str](), list[dict[str, Any]]()
        for block in content:
            kind = block.get("type")
            if kind == "text":
                texts.append(str(block.get("text") or ""))
            elif kind == "thinking":
                thoughts.append(str(block.get("thinking") or ""))
            elif kind == "tool_use":
                arguments = json_text.dumps(block.get("input") or {}).decode("utf-8")
                calls.append({"id": block.get("id"), "type": "function", "function": {"name": block.get("name"), "arguments": arguments}})
        reason = raw.get("stop_reason")
        details = raw.get("stop_details")
        refusal = None
        if reason == "refusal":
            refusal = str((details.get("explanation") if isinstance(details, Mapping) else None) or "".join(texts) or "refused")
        completion = RemoteCompletion([], usage, model=raw.get("model") if isinstance(raw.get("model"), str) else None, raw=raw)
        completion.add(
            "".join(texts),
            reason if isinstance(reason, str) else None,
            reasoning="\n".join(filter(None, thoughts)) or None,
            tool_calls=calls or None,
            refusal=refusal,
        )
        if not content and refusal is None and reason not in ("max_tokens", "model_context_window_exceeded"):
            raise Unreadable('its "content" is empty', usage, instead=completion)
        return completion


def read_usage(raw: Any) -> Usage:
    """Tokens as the API counts them: those read from the cache and those written to it stand beside the input."""
    if not isinstance(raw, Mapping):
        return Usage(unknown=1)

    def count(name: str) -> int | None:
        value = raw.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    fresh, read, written = count("input_tokens"), count("cache_read_input_tokens"), count("cache_creation_input_tokens")
    answered = count("output_tokens")
    known = fresh is not None or answered is not None
    spent = None if fresh is None else fresh + (read or 0) + (written or 0)
    return Usage(spent, read, answered, None, unknown=0 if known else 1)


# ---------------------------------------------------------------------- options


def wire_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """
    The options as the API spells them.

    Raises:
        RequestRefused: If it has nothing for one of them.
    """
    sent: dict[str, Any] = {}
    for name, value in options.items():
        if name == "max_completion_tokens":
            sent["max_tokens"] = value
        elif name in ("stop", "stop_sequences"):
            texts = [value] if isinstance(value, str) else list(value)
            if kept := [text for text in texts if isinstance(text, str) and text.strip()]:  # it refuses those of white space alone
                sent["stop_sequences"] = kept
        elif name == "reasoning_effort":
            sent["output_config"] = {**(options.get("output_config") or {}), **sent.get("output_config", {}), "effort": value}
        elif name == "response_format":
            sent["output_config"] = {**(options.get("output_config") or {}), **sent.get("output_config", {}), **output_format(value)}
        elif name == "output_config":
            sent.setdefault("output_config", value)
        elif name == "tools":
            sent["tools"] = [wire_tool(tool) for tool in value]
        elif name == "tool_choice":
            sent["tool_choice"] = wire_choice(value)
        elif name == "user":
            sent["metadata"] = {**(options.get("metadata") or {}), "user_id": value}
        elif name not in ("system", "parallel_tool_calls", "metadata") or (name == "metadata" and "metadata" not in sent):
            sent[name] = value
    if options.get("parallel_tool_calls") is not None:
        choice = sent.get("tool_choice") or {"type": "auto"}
        if choice.get("type") != "none":  # which has no place for it
            sent["tool_choice"] = {**choice, "disable_parallel_tool_use": not options["parallel_tool_calls"]}
    return sent


def output_format(form: Any) -> dict[str, Any]:
    """
    The form of the answer.

    Raises:
        RequestRefused: If the API has none like it.
    """
    kind = form.get("type") if isinstance(form, Mapping) else None
    if kind == "text":
        return {}
    schema = (form.get("json_schema") or {}).get("schema") if kind == "json_schema" else None
    if schema is None:
        raise RequestRefused(
            f"Anthropic's messages have no response_format of type {kind!r}.", do="Give a schema: {type: json_schema, json_schema: {...}}."
        )
    return {"format": {"type": "json_schema", "schema": schema}}


def wire_tool(tool: Any) -> Any:
    """A tool; one in the API's own spelling stays."""
    if not isinstance(tool, Mapping) or tool.get("type") != "function" or not isinstance(tool.get("function"), Mapping):
        return tool
    called = tool["function"]
    told = {"description": called["description"]} if called.get("description") else {}
    strict = {"strict": called["strict"]} if "strict" in called else {}
    return {"name": called.get("name"), **told, "input_schema": called.get("parameters") or {"type": "object", "properties": {}}, **strict}


def wire_choice(choice: Any) -> Any:
    """Which tool is to be called; a choice in the API's own spelling stays."""
    if isinstance(choice, str):
        return {"type": CHOICES.get(choice, choice)}
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        return {"type": "tool", "name": (choice.get("function") or {}).get("name") or choice.get("name")}
    return choice


# ---------------------------------------------------------------------- messages


def turns(messages: Iterator[Message]) -> Iterator[dict[str, Any]]:
    """The messages as turns of user and assistant; the results of several tools stand in one turn, as the API wants them."""
    held: dict[str, Any] | None = None
    for message in messages:
        turn = {"role": "assistant" if message.get("role") == "assistant" else "user", "content": blocks(message)}
        if (
            held is not None
            and held["role"] == turn["role"] == "user"
            and isinstance(held["content"], list)
            and message.get("role") == "tool"
        ):
            held["content"] = [*held["content"], *turn["content"]]
            continue
        if held is not None:
            yield held
        held = turn
    if held is not None:
        yield held


def blocks(message: Message) -> Any:
    """What a message says, as text or blocks."""
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": text_of(content)}]
    said: Any = [block(raw) for raw in content] if isinstance(content, list) else (content or "")
    calls = message.get("tool_calls")
    if not calls:
        return said
    found = said if isinstance(said, list) else [{"type": "text", "text": said}] if said else []
    for call in calls:
        called = call.get("function") or {}
        found.append({"type": "tool_use", "id": call.get("id"), "name": called.get("name"), "input": parsed(called.get("arguments"))})
    return found


def parsed(arguments: Any) -> Any:
    """Arguments of a tool as an object."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) and arguments else arguments or {}
    except ValueError:
        return {"arguments": arguments}


def block(raw: Any) -> dict[str, Any]:
    """
    One part of a message.

    Raises:
        RequestRefused: If the API has no block of this kind.
    """
    part = part_of(raw)
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, Media) and part.kind in ("image", "file"):
        kind = "image" if part.kind == "image" else "document"
        if part.data is None:
            return {"type": kind, "source": {"type": "url", "url": part.url}}
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": kind, "source": source, **({"title": part.name} if part.name and kind == "document" else {})}
    if (
        part is None
        and isinstance(raw, Mapping)
        and raw.get("type") in ("image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking")
    ):
        return dict(raw)
    raise RequestRefused(f"a message has a part that Anthropic's messages do not take: {str(raw)[:80]}.")
