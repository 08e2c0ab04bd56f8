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

Covers: retries, rate limits, time limits, the cache and event loops, as for every other endpoint; answers that are JSON or plain text;
options that a model refuses, by the names they have in the body.
Does not cover: gateways that hand out a ticket first; several answers to one prompt; streams. Whoever needs those writes a class of
their own.

What a model or a data set has written is put in as it is, once: a prompt that holds "{model}" stays one. Braces around anything else than a
name (JSON in a text, "{ user }") stay as they are; a name that stands for nothing is refused, since it is mostly misspelt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from evalframe.completion_fns.calls import UTF8_BOM, Unreadable, json_or_none, masked
from evalframe.completion_fns.endpoint import Endpoint, Home, checked_header
from evalframe.completion_fns.openai import answer_text, text_or_none
from evalframe.completion_fns.remote import ARGUMENTS, RemoteCompletion, RemoteCompletionFn
from evalframe.completion_fns.repair import OTHER_NAMES
from evalframe.core.completion import Reply, Send, Usage
from evalframe.core.errors import BadArguments, Collector, RequestRefused, closest
from evalframe.core.media import part_of
from evalframe.core.messages import text_of
from evalframe.core.prompts import Prompt, as_messages, as_text, last_text
from evalframe.core.secrets import MASK, SHORTEST, names_secret
from evalframe.storage import json_text

PLACEHOLDER = re.compile(r"\{(messages|prompt|system|user|model|options|option:[A-Za-z_][A-Za-z0-9_]*)\}")
KNOWN = ("messages", "prompt", "system", "user", "model", "options", "option:NAME")
BRACED = re.compile(r"\{([A-Za-z_]\w{0,30}(?::\w{0,40})?)\}")
"""What looks like a placeholder."""
PATH = re.compile(r"(?:[^.\[\]]+|\[-?[0-9]+\])(?:\.[^.\[\]]+|\[-?[0-9]+\])*")
STEP = re.compile(r"[^.\[\]]+")
INDEX = re.compile(r"-?[0-9]{1,9}")
WHOLE = ("", ".")
"""Paths that mean the whole reply, as text."""
PATHS = ("finish_reason", "reasoning", "answered_by", "tool_calls", "error")
COUNTS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
METHODS = ("POST", "PUT", "PATCH")
SYSTEM = ("system", "developer")
ONE_WHOLE_ANSWER = {"n": 1, "stream": False}
"""Options that ask for several answers, or for one in pieces, and the values that do not."""
ARGUMENTS_HERE = ARGUMENTS | {"url", "body", "text", "method", "headers", "usage", "ignores", *PATHS}
SHOWN_CHARACTERS = 200
"""How much of an error, or of a reply's keys, stands in a message."""
LEFT_OUT = object()
"""Stands for a part of the body that was not asked for."""
NOWHERE = object()
"""What stands at a path that leads nowhere."""


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
            leads to something counts; "." for a reply that is text itself.
        method: The HTTP method.
        headers: Sent as they are; none of their values is ever shown.
        finish_reason: The path to why the answer ended.
        reasoning: The path to what the model thought.
        answered_by: The path to the name of the model that answered.
        tool_calls: The path to the tools that the answer asks for.
        error: A path that leads to something only if the call failed.
        usage: Paths to input_tokens, cached_tokens, output_tokens and reasoning_tokens.
        ignores: Options that evals may ask for though the gateway has no place for them: they are not sent.
        arguments: As for `RemoteCompletionFn`; options are those that the body has a place for.

    Raises:
        BadArguments: If a placeholder, a path or whatever else is wrong; all that is found is told. See also `RemoteCompletionFn`.
    """

    provider: ClassVar[str] = "gateway"
    home = Home()
    OURS: ClassVar[frozenset[str]] = frozenset({"stream"})
    CALLED: ClassVar[str] = "This gateway"

    def __init__(
        self,
        model: str = "gateway",
        *,
        url: str,
        body: Any,
        text: str | list[str],
        method: str = "POST",
        headers: Mapping[str, Any] | None = None,
        finish_reason: str | None = None,
        reasoning: str | None = None,
        answered_by: str | None = None,
        tool_calls: str | None = None,
        error: str | None = None,
        usage: Mapping[str, str] | None = None,
        ignores: Iterable[str] = (),
        **arguments: Any,
    ) -> None:
        self.template = body
        self.method = str(method).upper()
        self.texts: list[Any] = list(text) if isinstance(text, list | tuple) else [text]
        self.paths = dict(zip(PATHS, (finish_reason, reasoning, answered_by, tool_calls, error), strict=True))
        self.usage = dict(usage) if isinstance(usage, Mapping) else {}
        self.ignores = frozenset([ignores] if isinstance(ignores, str) else ignores)
        self.placeholders = frozenset(placeholders(body))
        self.takes_all = "options" in self.placeholders
        named = {name.removeprefix("option:") for name in self.placeholders if name.startswith("option:")}
        self.PARAMETERS = frozenset(named | OTHER_NAMES.keys() if self.takes_all else named)  # type: ignore[misc]
        self.WIRE_NAMES = wire_names(body)  # type: ignore[misc]
        arguments["base_url"] = arguments.get("base_url") or url
        self.PATH = "/" if str(arguments["base_url"]).partition("?")[0].endswith("/") else ""  # type: ignore[misc]
        self._is_cut_short = False
        faults = Collector()
        faults.of(partial(refuse_all, [*template_faults(body), *path_faults(self.texts, self.paths, usage), *method_faults(self.method)]))
        own = faults.of(partial(checked_headers, headers)) or {}
        faults.of(partial(super().__init__, model, **arguments))
        if faults:
            raise faults.all()
        known = self._endpoint
        self._endpoint = Endpoint(known.base_url, known.query, known.headers, {**known.key, **own})

    def checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """
        The options that are sent: those without a place that change nothing, and those that are ignored, are not.

        Raises:
            BadArguments: If the body has no place for one, or if one asks for what is not read here.
        """
        kept = {name: value for name, value in options.items() if name not in self.ignores}
        for name, harmless in ONE_WHOLE_ANSWER.items():
            if kept.get(name) not in (None, harmless):
                raise BadArguments(f"One whole answer is read of a gateway's reply, so {name}={kept[name]!r} cannot be asked for.")
            if name not in self.PARAMETERS and not self.takes_all:
                kept.pop(name, None)
        unknown = [] if self.takes_all else [name for name in kept if name not in self.PARAMETERS]
        if unknown:
            like = [", ".join(closest(name, self.PARAMETERS | ARGUMENTS_HERE, most=3)) for name in unknown]
            told = ", ".join(f'"{name}"{f" (closest: {near})" if near else ""}' for name, near in zip(unknown, like, strict=True))
            place = f'"{{option:{unknown[0]}}}", or "{{options}}" for all of them'
            raise BadArguments(
                f"{self.CALLED} takes no option {told}.",
                do=f"Give it a place in body: {place}. Or leave it unsent: ignores: [{unknown[0]}].",
            )
        return kept

    def _checked_extra(self, extra: Mapping[str, Any] | None) -> dict[str, Any]:
        return self.checked_options(super()._checked_extra(extra))

    def cache_identity(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """See `RemoteCompletionFn`; a token that is renewed every hour asks nothing else, a header that chooses a tenant does."""
        told = super().cache_identity(options)
        headers = {name: value for name, value in self._endpoint.all_headers.items() if not (names_secret(name) or name == "cookie")}
        read = {"text": self.texts, "paths": self.paths, "usage": self.usage}
        return {**told, "headers": headers, "method": self.method, "body": self.template, **read}

    def notices(self) -> list[str]:
        said = super().notices()
        if self._is_cut_short:
            beside = " beside the system's" if "system" in self.placeholders else ""
            said.append(f"{self.model}: of longer prompts only the user's last message{beside} was sent (body: {{user}}, not {{messages}})")
        return said

    # ------------------------------------------------------------------ the request

    def request_method(self) -> str:
        return self.method

    def body(self, prompt: Prompt, options: Mapping[str, Any]) -> Any:
        messages = as_messages(prompt)
        if "messages" not in self.placeholders:
            refuse_more_than_text(messages)
            if "prompt" not in self.placeholders:
                sent_apart = SYSTEM if "system" in self.placeholders else ()
                self._is_cut_short = self._is_cut_short or sum(message.get("role") not in sent_apart for message in messages) > 1
        system = [text_of(message.get("content")) for message in messages if message.get("role") in SYSTEM]
        stands_for: dict[str, Callable[[], Any]] = {
            "messages": lambda: messages,
            "prompt": lambda: as_text(prompt),
            "system": lambda: "\n\n".join(system) or LEFT_OUT,
            "user": lambda: last_text(prompt),
            "model": lambda: self.model,
            "options": lambda: dict(options),
        }

        def value_of(name: str) -> Any:
            option = name.removeprefix("option:")
            return stands_for[name]() if option == name else options.get(self._renames.get(option, option), LEFT_OUT)

        return filled(self.template, value_of)

    # ------------------------------------------------------------------ the reply

    def _read(self, reply: Reply) -> RemoteCompletion:
        if self.texts[0] in WHOLE:
            completion = RemoteCompletion([], Usage(unknown=1))
            completion.add(plain_text(reply))
            return completion
        if reply.body.removeprefix(UTF8_BOM).lstrip()[:1] == b"[" and isinstance(listed := json_or_none(reply), list):
            return self.read(listed)
        return super()._read(reply)

    def read(self, raw: Any) -> RemoteCompletion:
        usage = Usage.from_dict({name: at(raw, path) for name, path in self.usage.items()})
        told = {name: None if path is None or (found := at(raw, path)) is NOWHERE else found for name, path in self.paths.items()}
        if told["error"]:
            failed = told["error"] if isinstance(told["error"], str) else json_text.dumps(told["error"]).decode("utf-8")
            raise Unreadable(f"it tells an error: {self._shown(failed)}", usage)
        texts = [value for value in (at(raw, path) for path in self.texts) if value is not NOWHERE]
        calls = told["tool_calls"]
        completion = RemoteCompletion([], usage, model=text_or_none(told["answered_by"]), raw=raw)
        completion.add(
            next((spelt_answer(value) for value in texts if value is not None), ""),
            text_or_none(told["finish_reason"]),
            reasoning=text_or_none(told["reasoning"]),
            tool_calls=calls if isinstance(calls, list) and calls else None,
        )
        if not texts and completion.outcomes == ["empty"]:
            # without a text there may still be an answer: calls of tools, or a reason why there is none
            there = self._shown(", ".join(map(str, raw)) or "nothing") if isinstance(raw, Mapping) else f"a list of {len(raw)}"
            raise Unreadable(f"nothing stands at {' or '.join(self.texts)} in it (it has: {there})", usage)
        return completion

    def _shown(self, text: str) -> str:
        """The beginning of a text of the gateway's, without the headers that it may repeat."""
        request = Send(self.url(), self._endpoint.all_headers, b"", secrets=self._endpoint.secrets)
        for value in self._endpoint.secrets:
            text = text.replace(value, MASK) if len(value) >= SHORTEST else text
        return masked(request, text)[:SHOWN_CHARACTERS]


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


def parts_of(template: Any) -> list[Any]:
    """What a template holds, one floor down."""
    return list(template.values()) if isinstance(template, Mapping) else template if isinstance(template, list) else []


def texts_in(template: Any) -> list[str]:
    """Every text of a template."""
    return [template] if isinstance(template, str) else [text for part in parts_of(template) for text in texts_in(part)]


def names_in(template: Any) -> list[str]:
    """Every name of a template's mappings."""
    own = [str(name) for name in template] if isinstance(template, Mapping) else []
    return own + [name for part in parts_of(template) for name in names_in(part)]


def placeholders(template: Any) -> list[str]:
    """Every placeholder of a template."""
    return [name for text in texts_in(template) for name in PLACEHOLDER.findall(text)]


def wire_names(template: Any) -> dict[str, str]:
    """The names that options have in the body, by which a refusal calls them."""
    found: dict[str, str] = {}
    for name, part in template.items() if isinstance(template, Mapping) else ():
        whole = PLACEHOLDER.fullmatch(part) if isinstance(part, str) else None
        if whole and whole[1].startswith("option:"):
            found.setdefault(whole[1].removeprefix("option:"), str(name))
    for part in parts_of(template):
        found = {**wire_names(part), **found}
    return found


def refuse_more_than_text(messages: Iterable[Mapping[str, Any]]) -> None:
    """
    Let only text pass where the body has no place for messages: without the rest, another question would be asked.

    Raises:
        RequestRefused: If a message holds something else.
    """
    for message in messages:
        content = message.get("content")
        others = [part for part in content if not isinstance(part_of(part), str)] if isinstance(content, list) else []
        if others or message.get("tool_calls") or message.get("function_call"):
            kind = others[0].get("type") if others and isinstance(others[0], Mapping) else None
            what = f"a part of type {kind!r}" if others else "calls of tools"
            told = f"This gateway is sent text only, and a message of the prompt holds {what}."
            raise RequestRefused(told, do='Give the messages a place in body: "{messages}".')


# ---------------------------------------------------------------------- the reply


def at(raw: Any, path: str) -> Any:
    """What stands at a path of a JSON value: None where a null ends the way, `NOWHERE` where there is none."""
    for step in STEP.findall(path):
        if raw is None:
            return None
        if isinstance(raw, Mapping):
            raw = raw.get(step, NOWHERE)
        elif isinstance(raw, list) and INDEX.fullmatch(step) and -len(raw) <= int(step) < len(raw):
            raw = raw[int(step)]
        else:
            return NOWHERE
    return raw


def spelt_answer(value: Any) -> str:
    """An answer as text: itself, its text parts put together, or as JSON whatever else it is."""
    if isinstance(value, list):
        texts = [part.get("text") if isinstance(part, Mapping) else part for part in value]
        if texts and all(isinstance(part, str) for part in texts):
            return answer_text(value)
    return value if isinstance(value, str) else json_text.dumps(value).decode("utf-8")


def plain_text(reply: Reply) -> str:
    """
    A reply that is text itself.

    Raises:
        Unreadable: If it is a web page, as of a proxy that wants somebody to log in.
    """
    body = reply.body.removeprefix(UTF8_BOM)
    if reply.headers.get("content-type", "").startswith("text/html") and body.lstrip()[:9].lower().startswith((b"<!doctype", b"<html")):
        raise Unreadable("it is a web page")
    return body.decode("utf-8", "replace")


# ---------------------------------------------------------------------- what is refused before the first request


def checked_headers(headers: Mapping[str, Any] | None) -> dict[str, str]:
    """
    The headers as they are sent, with names in lower case.

    Raises:
        BadArguments: If they are no mapping, or a value is none that a header can have.
        BadSetting: If a name or a value holds what no header can.
    """
    if headers is not None and not isinstance(headers, Mapping):
        raise BadArguments("headers maps names to values.", do="Write headers: {x-team-token: !env TEAM_TOKEN}.")
    checked: dict[str, str] = {}
    for name, value in (headers or {}).items():
        name = checked_header(str(name), "A header's name").lower()
        if not isinstance(value, str | int | float):
            raise BadArguments(f"The header {name} has no text for a value, but {'nothing' if value is None else type(value).__name__}.")
        spelling = str(value).lower() if isinstance(value, bool) else str(value)
        checked[name] = checked_header(spelling, f"The header {name}", shown=False)
    return checked


def template_faults(template: Any) -> list[str]:
    """What looks like a placeholder and is none."""
    if not texts_in(template):
        return ["body holds no text, so no prompt would be sent"]
    faults = []
    for name in (name for text in texts_in(template) for name in BRACED.findall(text)):
        if not PLACEHOLDER.fullmatch(f"{{{name}}}"):
            near = closest(name, KNOWN)
            faults.append(f"body: {{{name}}} stands for nothing (closest: {', '.join(near or KNOWN)})")
    faults += [f"body: {name} is a name, and names are not filled" for name in names_in(template) if PLACEHOLDER.search(name)]
    if not {"messages", "prompt", "user"} & set(placeholders(template)):
        faults.append("body has no place for the prompt: {messages}, {prompt} or {user}")
    return faults


def path_faults(texts: list[Any], paths: Mapping[str, Any], usage: Any) -> list[str]:
    """What is no path."""
    faults = [] if texts else ["text names no path"]
    if usage is not None and not isinstance(usage, Mapping):
        faults.append(f"usage maps {', '.join(COUNTS)} to paths")
        usage = None
    others = [*paths.items(), *((f"usage: {name}", path) for name, path in (usage or {}).items())]
    if any(isinstance(text, str) and text in WHOLE for text in texts):
        used = [name for name, path in others if path is not None]
        if len(texts) > 1 or used:
            faults.append(f'text "." is a whole reply that is text, in which no paths lead anywhere ({", ".join(used) or "text has more"})')
    for name, path in [*(("text", text) for text in texts if text not in WHOLE), *others]:
        if (path is not None or name == "text") and not (isinstance(path, str) and PATH.fullmatch(path)):
            faults.append(f"{name} is a path such as output.0.text, not {path!r}")
    return faults + [f"usage tells {', '.join(COUNTS)}, not {name}" for name in usage or {} if name not in COUNTS]


def method_faults(method: str) -> list[str]:
    """What is no method that sends a body."""
    return [] if method in METHODS else [f"method is {', '.join(METHODS)}, not {method}"]


def refuse_all(faults: Iterable[str]) -> None:
    """
    Tell faults, all at once.

    Raises:
        BadArguments: If there are any.
    """
    if found := list(dict.fromkeys(faults)):
        raise BadArguments(f"the gateway is described wrongly: {'; '.join(found)}.")
