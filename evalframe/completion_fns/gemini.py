"""
Google's Gemini API: models.generateContent.

Options and messages are asked for in the spelling of chat completions, and translated: system messages, tools and their results, pictures,
sounds and PDFs, `max_tokens`, `stop`, `n`, `seed`, `logprobs`, `reasoning_effort`, `response_format`. Names of the API itself, in camelCase
or with underscores, are passed on.

Covers: several candidates; thoughts, told apart; function calls; prompts and answers that are blocked, which are refusals; keys that are
not valid, which this API tells with a 400; the pause that a 429 asks for in its body.
Does not cover: streaming, and files that were uploaded before, unless a part names their URI.

Fields after Google's API reference "Generating content" (ai.google.dev/api/generate-content) and the guides on thinking, function calling
and structured output (ai.google.dev/gemini-api/docs); read 2026-12-01.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from evalframe.completion_fns.calls import Unreadable
from evalframe.completion_fns.endpoint import Home
from evalframe.completion_fns.remote import RemoteCompletion, RemoteCompletionFn
from evalframe.core.completion import Reply, Usage
from evalframe.core.errors import RequestRefused
from evalframe.core.media import Media, part_of
from evalframe.core.messages import Message, text_of
from evalframe.core.prompts import Prompt, as_messages
from evalframe.storage import json_text

SYSTEM = ("system", "developer")
OTHER_KEY_VARIABLE = "GOOGLE_API_KEY"
BAD_KEY = re.compile(r"api key (?:not valid|expired|not found)|API_KEY_INVALID", re.IGNORECASE)
CONFIG = {
    "max_tokens": "maxOutputTokens", "max_completion_tokens": "maxOutputTokens", "max_output_tokens": "maxOutputTokens",
    "temperature": "temperature", "top_p": "topP", "top_k": "topK", "stop": "stopSequences", "stop_sequences": "stopSequences",
    "n": "candidateCount", "candidate_count": "candidateCount", "seed": "seed", "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty", "logprobs": "responseLogprobs", "top_logprobs": "logprobs",
    "response_modalities": "responseModalities", "media_resolution": "mediaResolution", "speech_config": "speechConfig",
    "response_mime_type": "responseMimeType", "response_schema": "responseSchema", "response_json_schema": "responseJsonSchema",
    "thinking_config": "thinkingConfig",
}  # fmt: skip
"""Options that stand in generationConfig, and how they are called there."""
BESIDE = {"safety_settings": "safetySettings", "cached_content": "cachedContent", "tool_config": "toolConfig"}
"""Options that stand beside it."""
CHOICES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class GeminiCompletionFn(RemoteCompletionFn):
    """
    Ask a Gemini model; for its arguments see `RemoteCompletionFn`. Without GEMINI_API_KEY, GOOGLE_API_KEY holds the key.
    """

    provider: ClassVar[str] = "gemini"
    home = Home("https://generativelanguage.googleapis.com/v1beta", "GEMINI_BASE_URL", "GEMINI_API_KEY", "x-goog-api-key")
    PARAMETERS: ClassVar[frozenset[str]] = frozenset(
        {*CONFIG, *BESIDE, *CONFIG.values(), *BESIDE.values()}
        | {"generation_config", "generationConfig", "reasoning_effort", "response_format", "tools", "tool_choice"}
    )
    WIRE_NAMES: ClassVar[Mapping[str, str]] = {
        **CONFIG,
        **BESIDE,
        "reasoning_effort": "thinkingLevel",
        "response_format": "responseJsonSchema",
    }
    OURS: ClassVar[frozenset[str]] = frozenset({"contents", "model", "stream"})
    CALLED: ClassVar[str] = "Gemini models"

    def __init__(self, model: str, **arguments: Any) -> None:
        if not arguments.get("api_key_env") and not has_value(self.home.api_key_env) and has_value(OTHER_KEY_VARIABLE):
            arguments["api_key_env"] = OTHER_KEY_VARIABLE
        super().__init__(model, **arguments)

    def url(self) -> str:
        name = self.model if "/" in self.model else f"models/{self.model}"
        return self._endpoint.url(f"/{quote(name, safe='/')}:generateContent")

    def body(self, prompt: Prompt, options: Mapping[str, Any]) -> dict[str, Any]:
        conversation = as_messages(prompt)
        system = [text_of(message.get("content")) for message in conversation if message.get("role") in SYSTEM]
        told = {"systemInstruction": {"parts": [{"text": text} for text in system]}} if system else {}
        messages = [message for message in conversation if message.get("role") not in SYSTEM]
        return {**told, "contents": list(contents(messages)), **wire_options(options)}

    def read(self, raw: dict[str, Any]) -> RemoteCompletion:
        completion = RemoteCompletion([], read_usage(raw.get("usageMetadata")), model=str(raw.get("modelVersion") or "") or None, raw=raw)
        blocked = (raw.get("promptFeedback") or {}).get("blockReason")
        candidates = raw.get("candidates")
        if not candidates:
            if blocked:
                completion.add("", str(blocked), refusal=f"the prompt was blocked: {blocked}")
                return completion
            completion.add("")
            raise Unreadable('it has no "candidates"', completion.usage, instead=completion if "usageMetadata" in raw else None)
        for candidate in candidates:
            add_candidate(completion, candidate)
        return completion

    def read_refusal(self, reply: Reply, raw: Any) -> RemoteCompletion | None:
        return None  # a filtered prompt comes with a good status

    def as_key_error(self, reply: Reply) -> bool:
        return reply.status == 400 and bool(BAD_KEY.search(reply.body[:4096].decode("utf-8", "replace")))


def has_value(variable: str) -> bool:
    """Whether a variable of the environment holds something."""
    return bool(os.environ.get(variable, "").strip())


def add_candidate(completion: RemoteCompletion, candidate: Mapping[str, Any]) -> None:
    """Add one answer."""
    texts, thoughts, calls = list[str](), list[str](), list[dict[str, Any]]()
    for part in (candidate.get("content") or {}).get("parts") or ():
        if isinstance(part.get("text"), str):
            (thoughts if part.get("thought") else texts).append(part["text"])
        called = part.get("functionCall")
        if called:
            arguments = json_text.dumps(called.get("args") or {}).decode("utf-8")
            told = {"name": called.get("name"), "arguments": arguments}
            calls.append({"id": called.get("id") or f"call_{len(calls)}", "type": "function", "function": told})
    reason = candidate.get("finishReason")
    completion.add(
        "".join(texts),
        reason if isinstance(reason, str) else None,
        reasoning="".join(thoughts) or None,
        tool_calls=calls or None,
        logprobs=candidate.get("logprobsResult"),
    )


def read_usage(raw: Any) -> Usage:
    """Tokens as the API counts them: thoughts, and prompts of tools, stand beside answer and prompt."""
    if not isinstance(raw, Mapping):
        return Usage(unknown=1)

    def count(name: str) -> int | None:
        value = raw.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    prompt, answer, thoughts = count("promptTokenCount"), count("candidatesTokenCount"), count("thoughtsTokenCount")
    spent = None if prompt is None else prompt + (count("toolUsePromptTokenCount") or 0)
    said = None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0)
    return Usage(spent, count("cachedContentTokenCount"), said, thoughts, unknown=0 if (spent, said) != (None, None) else 1)


# ---------------------------------------------------------------------- options


def wire_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """
    The options as the API spells them.

    Raises:
        RequestRefused: If it has nothing for one of them.
    """
    sent: dict[str, Any] = {}
    config: dict[str, Any] = {**(options.get("generation_config") or {}), **(options.get("generationConfig") or {})}
    for name, value in options.items():
        if name in ("generation_config", "generationConfig"):
            continue
        if name == "reasoning_effort":
            config["thinkingConfig"] = {**config.get("thinkingConfig", {}), "thinkingLevel": str(value)}
        elif name == "response_format":
            config |= answer_form(value)
        elif name in ("stop", "stop_sequences"):
            config["stopSequences"] = [value] if isinstance(value, str) else value
        elif name == "logprobs" and not isinstance(value, bool):
            config |= {"responseLogprobs": True, "logprobs": value}
        elif name == "tools":
            sent["tools"] = wire_tools(value)
        elif name == "tool_choice":
            sent["toolConfig"] = {"functionCallingConfig": wire_choice(value)}
        elif name in BESIDE or name in BESIDE.values():
            sent[BESIDE.get(name, name)] = value
        elif name in CONFIG or name in CONFIG.values():
            config[CONFIG.get(name, name)] = value
        else:
            sent[name] = value
    return {**sent, "generationConfig": config} if config else sent


def answer_form(form: Any) -> dict[str, Any]:
    """
    The form of the answer.

    Raises:
        RequestRefused: If the API has none like it.
    """
    kind = form.get("type") if isinstance(form, Mapping) else None
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"responseMimeType": "application/json"}
    schema = (form.get("json_schema") or {}).get("schema") if kind == "json_schema" else None
    if schema is None:
        raise RequestRefused(f"Gemini models have no response_format of type {kind!r}.", do="Use json_object or json_schema.")
    return {"responseMimeType": "application/json", "responseJsonSchema": schema}


def wire_tools(tools: Any) -> list[Any]:
    """Tools: functions in chat's spelling together in one, those in the API's own spelling as they are."""
    functions = [tool["function"] for tool in tools if tool.get("type") == "function" and isinstance(tool.get("function"), Mapping)]
    others = [tool for tool in tools if not (tool.get("type") == "function" and isinstance(tool.get("function"), Mapping))]
    declared = [
        {
            "name": called.get("name"),
            **({"description": called["description"]} if called.get("description") else {}),
            **({"parametersJsonSchema": called["parameters"]} if called.get("parameters") else {}),
        }
        for called in functions
    ]
    return [*([{"functionDeclarations": declared}] if declared else []), *others]


def wire_choice(choice: Any) -> dict[str, Any]:
    """Which function is to be called."""
    if isinstance(choice, Mapping):
        name = (choice.get("function") or {}).get("name") or choice.get("name")
        return {"mode": "ANY", "allowedFunctionNames": [name]} if name else dict(choice)
    return {"mode": CHOICES.get(str(choice), str(choice))}


# ---------------------------------------------------------------------- messages


def contents(messages: list[Message]) -> Iterator[dict[str, Any]]:
    """The messages as turns of user and model; results of several tools stand in one turn."""
    names = {call.get("id"): (call.get("function") or {}).get("name") for message in messages for call in message.get("tool_calls") or ()}
    held: dict[str, Any] | None = None
    is_of_tools = False
    for message in messages:
        role = message.get("role")
        if role == "tool":
            name = message.get("name") or names.get(message.get("tool_call_id"))
            result = {"id": message.get("tool_call_id"), "name": name, "response": as_object(text_of(message.get("content")))}
            parts = [{"functionResponse": {key: value for key, value in result.items() if value is not None}}]
        else:
            parts = [*said(message.get("content")), *called(message.get("tool_calls"))]
        if role == "tool" and is_of_tools and held is not None:
            held["parts"] += parts
            continue
        if held is not None:
            yield held
        held, is_of_tools = {"role": "model" if role == "assistant" else "user", "parts": parts}, role == "tool"
    if held is not None:
        yield held


def said(content: Any) -> list[dict[str, Any]]:
    """What a message says, as parts."""
    if isinstance(content, list):
        return [wire_part(raw) for raw in content]
    return [{"text": content}] if content else []


def called(calls: Any) -> list[dict[str, Any]]:
    """The functions that an answer called, as parts."""
    told = [call.get("function") or {} for call in calls or ()]
    return [{"functionCall": {"name": one.get("name"), "args": as_object(one.get("arguments"))}} for one in told]


def as_object(text: Any) -> Any:
    """A JSON object; what is none stands in one."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        value = text
    return value if isinstance(value, Mapping) else {} if value in (None, "") else {"result": value}


def wire_part(raw: Any) -> dict[str, Any]:
    """
    One part of a message.

    Raises:
        RequestRefused: If the API has no part of this kind.
    """
    part = part_of(raw)
    if isinstance(part, str):
        return {"text": part}
    if isinstance(part, Media):
        if part.data is not None:
            return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
        return {"fileData": {"fileUri": part.url}}
    if isinstance(raw, Mapping) and raw.keys() & {"inlineData", "inline_data", "fileData", "file_data", "text"}:
        return dict(raw)
    raise RequestRefused(f"a message has a part that Gemini models do not take: {str(raw)[:80]}.")
