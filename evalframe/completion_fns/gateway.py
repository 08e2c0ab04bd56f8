"""
A gateway of one's own, described in YAML alone: where it is, what it is sent, where in its reply the answer stands.

    team-model:
      class: evalframe.completion_fns.gateway:GatewayCompletionFn
      args:
        model: team-large
        url: https://gateway.internal/generate
        headers: {x-team-token: !env TEAM_TOKEN}
        body: {model: "{model}", turns: "{messages}", settings: {temperature: "{option:temperature}"}}
        text: output.0.text
        usage: {input_tokens: meta.tokens.in, output_tokens: meta.tokens.out}

Covers: retries, rate limits, time limits, the cache and event loops, as for every other endpoint; answers that are JSON or plain text.
Does not cover: gateways that hand out a ticket first; several answers to one prompt; whoever needs those writes a class of their own.

What a model or a data set has written is put in as it is, once: a prompt that holds "{model}" stays one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from evalframe.completion_fns.calls import Unreadable
from evalframe.completion_fns.endpoint import Endpoint, Home, checked_header
from evalframe.completion_fns.remote import RemoteCompletion, RemoteCompletionFn
from evalframe.core.completion import Reply, Usage
from evalframe.core.errors import BadArguments, closest
from evalframe.core.messages import text_of
from evalframe.core.prompts import Prompt, as_messages, as_text, last_text
from evalframe.storage import json_text

PLACEHOLDER = re.compile(r"\{(messages|prompt|system|user|model|options|option:[A-Za-z_][A-Za-z0-9_]*)\}")
KNOWN = ("messages", "prompt", "system", "user", "model", "options", "option:NAME")
BRACED = re.compile(r"\{([A-Za-z_]\w{0,30}(?::\w{0,40})?)\}")
"""What looks like a placeholder."""
STEP = re.compile(r"[^.\[\]]+")
WHOLE = ("", ".")
"""Paths that mean the whole reply, as text."""
COUNTS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
LEFT_OUT = object()
"""Stands for a part of the body that was not asked for."""


class GatewayCompletionFn(RemoteCompletionFn):
    """
    Ask a gateway.

    Args:
        model: What {model} stands for, and what the log calls it.
        url: Where it is asked.
        body: What it is sent: JSON, in whose texts {messages} stands for the list of messages, {prompt} for all of them as one text,
            {system} and {user} for the text of the system messages and of the last one of the user, {model} for the model, {options} for
            all options of the call, {option:NAME} for one of them. A text that is nothing but a placeholder becomes what it stands for;
            what stands for an option that nobody asked for is left out.
        text: The path to the answer in the reply, such as output.0.text or choices[0].message.content; or several, of which the first that
            leads somewhere counts; "." for a reply that is text itself.
        method: The HTTP method.
        headers: Sent as they are; none of their values is ever shown.
        finish_reason: The path to why the answer ended.
        reasoning: The path to what the model thought.
        answered_by: The path to the name of the model that answered.
        tool_calls: The path to the tools that the answer asks for.
        error: A path that leads somewhere only if the call failed.
        usage: Paths to input_tokens, cached_tokens, output_tokens and reasoning_tokens.
        arguments: As for `RemoteCompletionFn`; options are those that the body has a place for.

    Raises:
        BadArguments: If a placeholder or a path is none; all that are found are told. See also `RemoteCompletionFn`.
    """

    provider: ClassVar[str] = "gateway"
    home = Home()
    CALLED: ClassVar[str] = "This gateway"

    def __init__(
        self,
        model: str = "gateway",
        *,
        url: str,
        body: Any,
        text: str | Sequence[str],
        method: str = "POST",
        headers: Mapping[str, Any] | None = None,
        finish_reason: str | None = None,
        reasoning: str | None = None,
        answered_by: str | None = None,
        tool_calls: str | None = None,
        error: str | None = None,
        usage: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> None:
        self.template = body
        self.method = str(method).upper()
        self.text: list[Any] = list(text) if isinstance(text, list | tuple) else [text]
        self.paths = {
            "finish_reason": finish_reason, "reasoning": reasoning, "answered_by": answered_by, "tool_calls": tool_calls, "error": error,
        }  # fmt: skip
        self.usage = dict(usage or {})
        found = list(placeholders(body))
        self.takes_all = "options" in found
        self.PARAMETERS = frozenset(name.removeprefix("option:") for name in found if name.startswith("option:"))  # type: ignore[misc]
        refuse_all([*template_faults(body), *path_faults(self.text, self.paths, self.usage)])
        super().__init__(model, **{"base_url": url, **arguments})
        own = {checked_header(str(name), "A header's name").lower(): str(value) for name, value in (headers or {}).items()}
        for name, value in own.items():
            checked_header(value, f"The header {name}", shown=False)
        known = self._endpoint
        self._endpoint = Endpoint(known.base_url, known.query, known.headers, {**known.key, **own})

    def checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return dict(options) if self.takes_all else super().checked_options(options)

    def cache_identity(self, options: Mapping[str, Any]) -> dict[str, Any]:
        told = super().cache_identity(options)
        return {**told, "headers": dict(self._endpoint.all_headers), "method": self.method, "body": self.template, "text": self.text}

    def request_method(self) -> str:
        return self.method

    def body(self, prompt: Prompt, options: Mapping[str, Any]) -> Any:
        system = [text_of(message.get("content")) for message in as_messages(prompt) if message.get("role") in ("system", "developer")]
        stands_for: dict[str, Callable[[], Any]] = {
            "messages": lambda: as_messages(prompt),
            "prompt": lambda: as_text(prompt),
            "system": lambda: "\n\n".join(system) or LEFT_OUT,
            "user": lambda: last_text(prompt),
            "model": lambda: self.model,
            "options": lambda: dict(options),
        }

        def value_of(name: str) -> Any:
            return options.get(name.removeprefix("option:"), LEFT_OUT) if name.startswith("option:") else stands_for[name]()

        return filled(self.template, value_of)

    def _read(self, reply: Reply) -> RemoteCompletion:
        if self.text[0] in WHOLE:
            completion = RemoteCompletion([], Usage(unknown=1))
            completion.add(reply.body.decode("utf-8", "replace"))
            return completion
        return super()._read(reply)

    def read(self, raw: dict[str, Any]) -> RemoteCompletion:
        usage = Usage.from_dict({name: at(raw, path) for name, path in self.usage.items()})
        failed = at(raw, self.paths["error"])
        if failed:
            raise Unreadable(f"it tells an error: {str(failed)[:200]}", usage)
        found = [value for value in (at(raw, path) for path in self.text) if value is not None]
        if not found:
            raise Unreadable(f"nothing stands at {' or '.join(self.text)} in it (it has: {', '.join(map(str, raw)) or 'nothing'})", usage)
        told = {name: at(raw, path) for name, path in self.paths.items()}
        calls = told["tool_calls"]
        completion = RemoteCompletion([], usage, model=text_or_none(told["answered_by"]), raw=raw)
        completion.add(
            found[0] if isinstance(found[0], str) else json_text.dumps(found[0]).decode("utf-8"),
            text_or_none(told["finish_reason"]),
            reasoning=text_or_none(told["reasoning"]),
            tool_calls=calls if isinstance(calls, list) and calls else None,
        )
        return completion


# ---------------------------------------------------------------------- the body


def filled(template: Any, value_of: Callable[[str], Any]) -> Any:
    """The template with its placeholders filled; parts that stand for nothing are left out."""
    if isinstance(template, str):
        whole = PLACEHOLDER.fullmatch(template)
        return value_of(whole[1]) if whole else PLACEHOLDER.sub(lambda one: spelt(value_of(one[1])), template)
    if isinstance(template, Mapping):
        parts = {name: filled(part, value_of) for name, part in template.items()}
        return {name: part for name, part in parts.items() if part is not LEFT_OUT}
    if isinstance(template, list):
        return [part for part in (filled(part, value_of) for part in template) if part is not LEFT_OUT]
    return template


def spelt(value: Any) -> str:
    """A value in the middle of a text."""
    if value is LEFT_OUT:
        return ""
    return value if isinstance(value, str) else json_text.dumps(value).decode("utf-8")


def texts_in(template: Any) -> list[str]:
    """Every text of a template."""
    if isinstance(template, str):
        return [template]
    parts = template.values() if isinstance(template, Mapping) else template if isinstance(template, list) else ()
    return [text for part in parts for text in texts_in(part)]


def placeholders(template: Any) -> list[str]:
    """Every placeholder of a template."""
    return [name for text in texts_in(template) for name in PLACEHOLDER.findall(text)]


# ---------------------------------------------------------------------- the reply


def at(raw: Any, path: str | None) -> Any:
    """What stands at a path of a JSON value; None where it leads nowhere."""
    if path is None:
        return None
    for step in STEP.findall(path):
        if isinstance(raw, Mapping):
            raw = raw.get(step)
        elif isinstance(raw, list) and step.lstrip("-").isdecimal() and -len(raw) <= int(step) < len(raw):
            raw = raw[int(step)]
        else:
            return None
    return raw


def text_or_none(value: Any) -> str | None:
    """The value if it is a text."""
    return value if isinstance(value, str) else None


# ---------------------------------------------------------------------- what is refused before the first request


def template_faults(template: Any) -> list[str]:
    """What looks like a placeholder and is none."""
    if not texts_in(template):
        return ["body holds no text, so no prompt would be sent"]
    faults = []
    for name in (name for text in texts_in(template) for name in BRACED.findall(text)):
        if not PLACEHOLDER.fullmatch(f"{{{name}}}"):
            near = closest(name, KNOWN)
            faults.append(f"body: {{{name}}} stands for nothing (closest: {', '.join(near or KNOWN)})")
    if not {"messages", "prompt", "user"} & set(placeholders(template)):
        faults.append("body has no place for the prompt: {messages}, {prompt} or {user}")
    return faults


def path_faults(texts: Sequence[Any], paths: Mapping[str, Any], usage: Mapping[str, Any]) -> list[str]:
    """What is no path."""
    faults = [] if texts else ["text names no path"]
    for name, path in [*(("text", path) for path in texts), *paths.items(), *((f"usage: {key}", path) for key, path in usage.items())]:
        if path is not None and (not isinstance(path, str) or (path not in WHOLE and not STEP.findall(path))):
            faults.append(f"{name} is a path such as output.0.text, not {path!r}")
    return faults + [f"usage tells {', '.join(COUNTS)}, not {name}" for name in usage if name not in COUNTS]


def refuse_all(faults: list[str]) -> None:
    """
    Tell faults, all at once.

    Raises:
        BadArguments: If there are any.
    """
    if faults:
        raise BadArguments(f"the gateway is described wrongly: {'; '.join(faults)}.")
