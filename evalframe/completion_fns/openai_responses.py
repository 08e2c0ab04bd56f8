"""
The responses endpoint of OpenAI, and of servers that speak as it does.

Options, tools and messages are asked for in the spelling of chat completions and translated; the endpoint's own names are passed on as they
are. Only what was asked for is sent, so OpenAI keeps each answer for 30 days unless `store` is asked for as false. Two things are added, to
keep the meaning of what was asked: `strict` as false to a function in chat's spelling, whose default that is there and not here, and the
inclusion of log-probabilities where `logprobs` is true.

Covers: text, refusals, reasoning (its text or its summary), calls of functions and custom tools, answers that are cut off or filtered, runs
that fail at the endpoint, log-probabilities, pictures, sounds and files. Citations, encrypted reasoning, and what tools did that run at the
endpoint stand in the raw reply.
Does not cover: several answers to one prompt, stop sequences, seeds and penalties, which the endpoint does not have; streaming; runs in the
background; names of speakers, for which messages have no field here, so that they are not sent.

OpenAI itself refuses a `max_output_tokens` below 16, which many evals of short answers ask for: give such a run a larger one.

Fields after OpenAI's API reference, "Create a model response" (developers.openai.com/api/reference/resources/responses), its guide "Migrate
to the Responses API" (developers.openai.com/api/docs/guides/migrate-to-responses), and the types of its Python library; read 2026-12-01.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evalframe.completion_fns.calls import Unreadable
from evalframe.completion_fns.openai import OPENAI, text_or_none
from evalframe.completion_fns.remote import FLAGGED, RemoteCompletion, RemoteCompletionFn
from evalframe.core.completion import Reply, Usage
from evalframe.core.errors import BadArguments, RequestRefused
from evalframe.core.media import Media, part_of
from evalframe.core.messages import Message, text_of
from evalframe.core.prompts import Prompt, as_messages

PARAMETERS = frozenset({
    "context_management", "conversation", "include", "instructions", "logprobs", "max_completion_tokens", "max_output_tokens", "max_tokens",
    "max_tool_calls", "metadata", "moderation", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "reasoning", "reasoning_effort", "response_format", "safety_identifier",
    "service_tier", "store", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user", "verbosity",
})  # fmt: skip
"""What the endpoint takes beside model and input, and what is translated into that."""
MISSING: Mapping[str, tuple[Any, str]] = {
    "n": (1, "it gives one answer. Take epochs instead: the same sample is asked again"),
    "stop": ([], "it has no stop sequences. Ask chat completions, or cut the answer in the grader"),
    "seed": (None, "it has no seeds"),
    "frequency_penalty": (0, "it has no penalties"),
    "presence_penalty": (0, "it has no penalties"),
    "logit_bias": ({}, "it has no biases"),
    "functions": ([], "write them as tools"),
    "function_call": (None, "write it as tool_choice"),
    "modalities": (["text"], "it answers in text"),
    "audio": (None, "it answers in text"),
    "prediction": (None, "it takes no prediction"),
    "web_search_options": (None, 'write a tool: {"type": "web_search"}'),
    "background": (False, "the answer is waited for"),
}
"""Options of chat completions that the endpoint does not have: a value that asks for nothing, and what to say to others."""
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""One option under three names; of several the last wins, which is that of a call."""
LOGPROBS = "message.output_text.logprobs"
PASSING = frozenset({None, "server_error", "rate_limit_exceeded", "vector_store_timeout"})
"""Codes of a run that failed at the endpoint, after which another may go well."""
WITHHELD = frozenset({"invalid_prompt", "image_content_policy_violation", "content_policy_violation", "content_filter", "cyber_policy"})


class OpenAIResponsesCompletionFn(RemoteCompletionFn):
    """
    Ask a responses endpoint; for its arguments see `RemoteCompletionFn`.

    On Azure: base_url=https://RESOURCE.openai.azure.com/openai/v1, key_header=api-key and api_key_env=AZURE_OPENAI_API_KEY.
    """

    home = OPENAI
    PATH: ClassVar[str] = "/responses"
    PARAMETERS: ClassVar[frozenset[str]] = PARAMETERS
    WIRE_NAMES: ClassVar[Mapping[str, str]] = {
        "max_tokens": "max_output_tokens",
        "max_completion_tokens": "max_output_tokens",
        "reasoning_effort": "reasoning.effort",
        "response_format": "text.format",
        "verbosity": "text.verbosity",
        "logprobs": "include",
    }
    OURS: ClassVar[frozenset[str]] = frozenset({"model", "input", "stream", "background"})
    CALLED: ClassVar[str] = "Responses"

    def checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        asked: dict[str, Any] = {}
        for name, value in options.items():
            if name not in MISSING:
                asked[name] = value
            elif value and value != MISSING[name][0]:
                raise BadArguments(f'Responses take no option "{name}": {MISSING[name][1]}.')
        for name in ("reasoning", "text"):
            if asked.get(name) is not None and not isinstance(asked[name], Mapping):
                raise BadArguments(f"{name} is a JSON object, not {asked[name]!r}.")
        if asked.get("logprobs") is not None and not isinstance(asked["logprobs"], bool):
            raise BadArguments(f"logprobs is true or false, not {asked['logprobs']!r}.", do="How many of them: top_logprobs=5.")
        return super().checked_options(asked)

    def body(self, prompt: Prompt, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"model": self.model, "input": list(input_items(as_messages(prompt))), **wire_options(options)}

    def as_sent(self, prompt: Prompt) -> Prompt:
        return [{name: value for name, value in message.items() if name != "name"} for message in as_messages(prompt)]

    def read(self, raw: dict[str, Any]) -> RemoteCompletion:
        completion = RemoteCompletion([], Usage.from_dict(raw.get("usage")), model=text_or_none(raw.get("model")), raw=raw)
        status = text_or_none(raw.get("status"))
        if status in ("failed", "cancelled"):
            return self._failed(raw, completion)
        if status in ("queued", "in_progress"):
            raise Unreadable(f"the answer is not there yet: its status is {status}", completion.usage)
        output = raw.get("output")
        if not isinstance(output, list):
            raise Unreadable('it has no "output"', completion.usage)
        answer = Answer.of(output)
        reason = finish_reason(raw, answer)
        completion.add(
            answer.text,
            reason,
            reasoning=answer.reasoning,
            tool_calls=answer.calls or None,
            refusal="\n".join(answer.refusals) or None,
            logprobs=answer.logprobs or None,
        )
        if not output and reason == "stop":
            raise Unreadable('its "output" holds no answer', completion.usage, instead=completion)
        return completion

    def _failed(self, raw: Mapping[str, Any], completion: RemoteCompletion) -> RemoteCompletion:
        """
        What a run that failed at the endpoint amounts to: a refusal.

        Raises:
            Unreadable: If another may go well.
            RequestRefused: If none will.
        """
        code, said = code_and_message(raw.get("error"))
        if code in WITHHELD and (code != "invalid_prompt" or FLAGGED.search(said)):
            completion.add("", code, refusal=said or code)
            return completion
        told = f"{f' ({code})' if code else ''}{f': {said}' if said else ''}"
        if code in PASSING:
            raise Unreadable(f"the run {raw['status']} at the endpoint{told}", completion.usage)
        raise RequestRefused(f"{self.base_url}{self.PATH} failed to answer this request{told}.")

    def read_refusal(self, reply: Reply, raw: Any) -> RemoteCompletion | None:
        refusal = super().read_refusal(reply, raw)
        code, said = code_and_message(raw.get("error") if isinstance(raw, Mapping) else None)
        if refusal is None and reply.status in (400, 403) and code in WITHHELD and FLAGGED.search(said):
            refusal = RemoteCompletion([], Usage(unknown=1), raw=raw)
            refusal.add("", code, refusal=said)
        return refusal


# ---------------------------------------------------------------------- the reply


@dataclass
class Answer:
    """
    What the items of an output come to.

    Args:
        texts, refusals, thoughts, calls, logprobs: Of all items, in their order; calls in chat's spelling.
        remarks: What was said on the way to the answer, as some models tell apart.
    """

    texts: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, output: list[Any]) -> Answer:
        """Put the items together; kinds that are not known here stay in the raw reply."""
        answer = cls()
        for item in output:
            kind = item.get("type") if isinstance(item, Mapping) else None
            if kind == "message":
                answer.take_message(item)
            elif kind == "reasoning":
                parts = mappings(item.get("content")) or mappings(item.get("summary"))
                answer.thoughts += [text for part in parts if (text := text_or_none(part.get("text")))]
            elif kind == "function_call":
                called = {"name": item.get("name"), "arguments": item.get("arguments")}
                answer.calls.append({"id": item.get("call_id") or item.get("id"), "type": "function", "function": called})
            elif kind == "custom_tool_call":
                called = {"name": item.get("name"), "input": item.get("input")}
                answer.calls.append({"id": item.get("call_id") or item.get("id"), "type": "custom", "custom": called})
        return answer

    def take_message(self, item: Mapping[str, Any]) -> None:
        """Add what one message says."""
        is_remark = item.get("phase") == "commentary"
        for part in item.get("content") or ():
            text = text_or_none(part.get("text")) or ""
            (self.remarks if is_remark else self.texts).append(text)
            self.refusals += [refusal] if (refusal := text_or_none(part.get("refusal"))) else []
            if isinstance(part.get("logprobs"), list) and not is_remark:
                self.logprobs += part["logprobs"]

    @property
    def text(self) -> str:
        """What is answered: what was said on the way only where nothing else was."""
        return "".join(self.texts or self.remarks)

    @property
    def reasoning(self) -> str | None:
        """What was thought, and said on the way to the answer."""
        return "\n".join([*self.thoughts, *(filter(None, self.remarks) if self.texts else ())]) or None


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a list; none where it is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def finish_reason(raw: Mapping[str, Any], answer: Answer) -> str | None:
    """Why an answer ended: the reason why it is incomplete, else as chat completions call it."""
    details = raw.get("incomplete_details")
    if isinstance(details, Mapping) and details.get("reason"):
        return str(details["reason"])
    status = text_or_none(raw.get("status"))
    return ("tool_calls" if answer.calls else "stop") if status in (None, "completed") else status


def code_and_message(error: Any) -> tuple[str | None, str]:
    """The code of an error, and what it says, in one line without a full stop."""
    if not isinstance(error, Mapping):
        return None, ""
    return text_or_none(error.get("code")), " ".join(str(error.get("message") or "").split()).rstrip(".")


# ---------------------------------------------------------------------- the options


def wire_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the endpoint spells them."""
    sent: dict[str, Any] = {}
    reasoning, text, include = dict(options.get("reasoning") or {}), dict(options.get("text") or {}), list(options.get("include") or ())
    for name, value in options.items():
        if name in LIMITS:
            sent["max_output_tokens"] = value
        elif name == "reasoning_effort":
            reasoning["effort"] = value
        elif name == "response_format":
            text["format"] = flat(value)
        elif name == "verbosity":
            text["verbosity"] = value
        elif name == "logprobs":
            include += [LOGPROBS] if value and LOGPROBS not in include else []
        elif name == "tools":
            sent["tools"] = [flat_tool(tool) for tool in value] if isinstance(value, list | tuple) else value
        elif name == "tool_choice":
            sent["tool_choice"] = flat_choice(value)
        elif name not in ("reasoning", "text", "include"):
            sent[name] = value
    merged = {"reasoning": reasoning, "text": text, "include": include}
    return {**sent, **{name: value for name, value in merged.items() if value}}


def flat(told: Any) -> Any:
    """Chat's {"type": KIND, KIND: {...}} as {"type": KIND, ...}; what is flat already, or no object, as it is."""
    kind = told.get("type") if isinstance(told, Mapping) else None
    held = told.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **held} if isinstance(held, Mapping) else told


def flat_tool(tool: Any) -> Any:
    """A tool in either spelling, as it is sent. A function in chat's spelling that does not ask to be strict is not."""
    sent = flat(tool)
    if sent is tool:
        return tool
    if sent["type"] == "custom" and "format" in sent:
        sent["format"] = flat(sent["format"])
    return {"strict": False, **sent} if sent["type"] == "function" else sent


def flat_choice(choice: Any) -> Any:
    """The choice of a tool, or of some of them, in either spelling, as it is sent."""
    sent = flat(choice)
    if isinstance(sent, Mapping) and sent.get("type") == "allowed_tools" and isinstance(sent.get("tools"), list):
        return {**sent, "tools": [flat(tool) for tool in sent["tools"]]}
    return sent


# ---------------------------------------------------------------------- the prompt


def input_items(messages: list[Message]) -> Iterator[dict[str, Any]]:
    """
    Messages as items of the input.

    Raises:
        RequestRefused: If one of them has no counterpart here.
    """
    customs: set[Any] = set()
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "tool":
            kind = "custom_tool_call_output" if message.get("tool_call_id") in customs else "function_call_output"
            output = text_of(content) if is_text(content) else input_content("user", content)
            yield {"type": kind, "call_id": message.get("tool_call_id"), "output": output}
            continue
        if role == "function" or message.get("function_call"):
            raise RequestRefused(
                "The responses endpoint has no calls of functions in chat's older spelling.",
                do="Write tool_calls with ids, and the role tool.",
            )
        said = input_content(role, content)
        if role == "assistant" and message.get("refusal"):
            told = [{"type": "output_text", "text": said}] if isinstance(said, str) and said else said or []
            said = [*told, {"type": "refusal", "refusal": message["refusal"]}]
        calls = message.get("tool_calls") or ()
        if said or not calls:
            yield {"role": role, "content": said, **({"phase": message["phase"]} if message.get("phase") else {})}
        for call in calls:
            if call.get("type") == "custom":
                customs.add(call.get("id"))
            yield call_item(call)


def call_item(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call of a tool, as an item."""
    kind = "custom" if call.get("type") == "custom" else "function"
    called = call.get(kind) or {}
    given = {"input": called.get("input")} if kind == "custom" else {"arguments": called.get("arguments")}
    item = "custom_tool_call" if kind == "custom" else "function_call"
    return {"type": item, "call_id": call.get("id"), "name": called.get("name"), **given}


def is_text(content: Any) -> bool:
    """Whether a message's content is nothing but text."""
    return not isinstance(content, list) or all(isinstance(part_of(part), str) for part in content)


def input_content(role: str, content: Any) -> Any:
    """What a message says: its text, or its parts."""
    if not isinstance(content, list):
        return content or ""
    if role != "assistant":
        return [input_part(part) for part in content]
    if len(content) == 1 and isinstance(part_of(content[0]), str):
        return part_of(content[0])  # the one spelling of an earlier answer that all servers take
    return [
        {"type": "output_text", "text": text}
        if isinstance(text := part_of(part), str)
        else dict(part)
        if isinstance(part, Mapping)
        else part
        for part in content
    ]


def input_part(raw: Any) -> Any:
    """
    One part of what is asked.

    Raises:
        RequestRefused: If the endpoint has no part of this kind.
    """
    part = part_of(raw)
    if isinstance(part, str):
        more = {name: value for name, value in raw.items() if name not in ("type", "text")} if isinstance(raw, Mapping) else {}
        return {"type": "input_text", "text": part, **more}
    if isinstance(part, Media) and part.kind == "image":
        return {"type": "input_image", "image_url": part.data_url, **({"detail": part.detail} if part.detail else {})}
    if isinstance(raw, Mapping) and raw.get("type") == "file" and isinstance(raw.get("file"), Mapping):
        return {"type": "input_file", **file_fields(raw["file"])}
    if isinstance(raw, Mapping) and str(raw.get("type")).startswith("input_"):
        return raw
    raise RequestRefused(f"a message has a part that the responses endpoint does not take: {str(raw)[:80]}.")


def file_fields(held: Mapping[str, Any]) -> dict[str, Any]:
    """A file in chat's spelling, as it stands here; one that lies elsewhere is named by its URL."""
    data = held.get("file_data")
    if isinstance(data, str) and data.startswith(("http://", "https://")):
        return {**{name: value for name, value in held.items() if name not in ("file_data", "filename")}, "file_url": data}
    return dict(held)
