"""
Chat completions as OpenAI defined them, and as most model servers speak them: vLLM, llama.cpp, Ollama, OpenRouter, gateways.

Covers: every parameter of the endpoint, sent only if asked for; many answers to one prompt; tool calls, refusals, reasoning that the server
tells apart; answers without text; replies without usage; servers that need no key.
Does not cover: streaming, and parameters that a model refuses (the refusal is told, once).
"""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json import JSONDecodeError
from random import Random
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from evalframe.completion_fns.remote import Patience, RemoteCompletion, RemoteCompletionFn, RemoteExchange, Unreadable, send_with_retries
from evalframe.core.completion import Reply, Send, Usage
from evalframe.core.errors import BadArguments, BadSetting, MissingKey, RequestRefused, closest
from evalframe.core.messages import Message
from evalframe.core.prompts import Prompt, as_messages, is_prompt
from evalframe.resilience.rates import Limiters
from evalframe.resilience.retry import RetryPolicy
from evalframe.storage import json_text

OPENAI_HOST = "api.openai.com"
DEFAULT_BASE_URL = f"https://{OPENAI_HOST}/v1"
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
TIMEOUT_VARIABLE = "EVALS_THREAD_TIMEOUT"
DEFAULT_TIMEOUT_S = 300.0
PATH = "/chat/completions"

PARAMETERS = frozenset({
    "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
    "metadata", "modalities", "n", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_retention",
    "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "temperature", "tool_choice",
    "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
})  # fmt: skip
"""What the endpoint takes beside model and messages."""
OURS = frozenset({"model", "messages", "stream"})
"""What extra_options may not hold: the request is put together here, and its reply is read whole."""


@dataclass(frozen=True)
class Endpoint:
    """
    Where to ask, and with what key.

    Args:
        base_url: Without userinfo and query.
        url: Of chat completions.
        headers: With the key.
    """

    base_url: str
    url: str
    headers: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r})"


class OpenAIChatCompletionFn(RemoteCompletionFn):
    """
    Ask a chat completions endpoint.

    Args:
        model: The model's name.
        base_url: The endpoint's address up to /chat/completions; else `OPENAI_BASE_URL`, else OpenAI's own.
        api_key: The key; else the variable that `api_key_env` names. Only OpenAI's own address needs one.
        api_key_env: The variable that holds the key.
        timeout_s: Wall-clock seconds for each try; else `EVALS_THREAD_TIMEOUT`, else 300.
        max_retries: Tries after the first, 7 if not given.
        max_total_retry_s: Seconds for all tries of a call, 900 if not given.
        max_retry_after_s: The most that is believed of what a server asks to wait, 120 if not given.
        max_connections: How many are kept open.
        extra_options: Parameters that are sent as they are, whatever their names.
        extra_headers: Headers that are sent as they are.
        retry_policy: In place of the two numbers above, with the lengths of waits.
        sleep, clock, now, rng: Waits some seconds; monotonic seconds; seconds since 1970; source of the waits' spread.
        limiters: Where the endpoint's rate limiter is found; that of this process if not given.
        options: Parameters of the endpoint, such as `temperature`; those of a call win over these. None is not sent.

    Attributes:
        model: As given.
        base_url: Without userinfo.

    Raises:
        BadArguments: If an option is unknown, or an argument does not fit.
        BadSetting: If a variable holds what cannot be used.
        MissingKey: If there is no key where one is needed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        timeout_s: float | None = None,
        max_retries: int | None = None,
        max_total_retry_s: float | None = None,
        max_retry_after_s: float | None = None,
        max_connections: int = 10,
        extra_options: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        retry_policy: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        rng: Random | None = None,
        limiters: Limiters | None = None,
        **options: Any,
    ) -> None:
        policy = retry_policy or make_policy(max_retries, max_total_retry_s, max_retry_after_s)
        patience = Patience(policy, clock, now, rng or Random())
        super().__init__(str(model), max_connections=max_connections, patience=patience, sleep=sleep, limiters=limiters)
        self.timeout_s = read_timeout(timeout_s)
        self._endpoint = find_endpoint(base_url, api_key, api_key_env, extra_headers)
        self.base_url = self._endpoint.base_url
        self._options = {**checked_options(options), **checked_extra(extra_options)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, base_url={self.base_url!r})"

    def account(self) -> tuple[str, str]:
        """The base URL, and the key."""
        return self.base_url, self._endpoint.headers.get("authorization", "")

    def cache_identity(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What its answers depend on, beside the prompt; see `CachedCompletionFn`. Gateways route by a query and by headers, too."""
        sent = {name: value for name, value in {**self._options, **checked_options(options)}.items() if value is not None}
        headers = {name: value for name, value in self._endpoint.headers.items() if name != "authorization"}
        return {"provider": "openai", "url": self._endpoint.url, "headers": headers, "model": self.model, "options": sent}

    def exchange(self, prompt: Prompt, options: dict[str, Any]) -> RemoteExchange:
        """Send the prompt with its options, and read all answers."""
        if not is_prompt(prompt):
            raise RequestRefused(f"A prompt is text or a list of chat messages, not {type(prompt).__name__}: {str(prompt)[:80]!r}.")
        messages = as_messages(prompt)
        sent = {name: value for name, value in {**self._options, **checked_options(options)}.items() if value is not None}
        body = json_text.dumps({"model": self.model, "messages": messages, **sent})
        request = Send(self._endpoint.url, self._endpoint.headers, body, self.timeout_s)
        answered = yield from send_with_retries(request, read_reply, self.patience)
        completion = answered.value
        completion.prompt, completion.options, completion.tries = messages, sent, answered.tries
        if answered.lost is not None:
            completion.usage += answered.lost
        return completion


def read_reply(reply: Reply) -> RemoteCompletion:
    """
    Read a chat completion.

    Raises:
        Unreadable: If the body is none.
    """
    try:
        raw = json_text.loads(reply.body)
    except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        web_page = reply.body[:512].lstrip().lower().startswith((b"<!doctype", b"<html"))
        raise Unreadable("it is a web page" if web_page else "it is empty" if not reply.body.strip() else "it is not JSON") from error
    choices = raw.get("choices") if isinstance(raw, dict) else None
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        usage = Usage.from_dict(raw.get("usage")) if isinstance(raw, dict) else None
        raise Unreadable('it has no "choices"' if choices is None else 'its "choices" hold no answer', usage)
    model = raw.get("model")
    completion = RemoteCompletion([], Usage.from_dict(raw.get("usage")), model=model if isinstance(model, str) else None, raw=raw)
    for choice in choices:
        add_choice(completion, choice)
    return completion


def add_choice(completion: RemoteCompletion, choice: Mapping[str, Any]) -> None:
    """Add one answer; what it lacks is empty."""
    message = choice.get("message")
    if not isinstance(message, Mapping):
        message = {}
    completion.completions.append(answer_text(message.get("content")))
    completion.finish_reasons.append(text_or_none(choice.get("finish_reason")))
    completion.reasoning.append(next(filter(None, (text_or_none(message.get(name)) for name in ("reasoning_content", "reasoning"))), None))
    completion.tool_calls.append(tool_calls(message))
    completion.refusals.append(text_or_none(message.get("refusal")))


def answer_text(content: Any) -> str:
    """The text of an answer: itself, its text parts put together, "" where there is none."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        return "".join(part for part in parts if isinstance(part, str))
    return json_text.dumps(content).decode("utf-8")


def tool_calls(message: Message | Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The tools an answer asks for; a call in the older spelling is put into the newer."""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return calls
    older = message.get("function_call")
    return [{"type": "function", "function": older}] if isinstance(older, dict) else None


def text_or_none(value: Any) -> str | None:
    """The value if it is a text."""
    return value if isinstance(value, str) else None


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """
    The options, all of them known.

    Raises:
        BadArguments: With those that are not, each with the names most like it.
    """
    unknown = []
    for name in options:
        if name not in PARAMETERS:
            near = closest(
                name, PARAMETERS | {"base_url", "api_key", "timeout_s", "max_retries", "max_connections", "extra_options"}, most=3
            )
            unknown.append(f'"{name}" (closest: {", ".join(near)})' if near else f'"{name}"')
    if unknown:
        raise BadArguments(
            f"Chat completions take no option {', '.join(unknown)}.",
            do='An option that only this server knows goes into extra_options: extra_options={"name": value}.',
        )
    return dict(options)


def checked_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    The extra options.

    Raises:
        BadArguments: If they are no JSON object, or hold what is put together here.
    """
    if extra is None:
        return {}
    if not isinstance(extra, Mapping) or not all(isinstance(name, str) for name in extra):
        raise BadArguments(f"extra_options is a JSON object, not {extra!r}.", do='Write extra_options={"name": value}.')
    if taken := sorted(OURS & extra.keys()):
        raise BadArguments(f"extra_options cannot hold {', '.join(taken)}.")
    return dict(extra)


def make_policy(max_retries: int | None, max_total_s: float | None, longest_hint_s: float | None = None) -> RetryPolicy:
    """
    The usual policy with these numbers in it.

    Raises:
        BadArguments: If one of them is below 0, or none.
    """
    usual = RetryPolicy()
    for name, value in (("max_retries", max_retries), ("max_total_retry_s", max_total_s), ("max_retry_after_s", longest_hint_s)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
            raise BadArguments(f"{name} is a number from 0, not {value!r}.")
    return RetryPolicy(
        max_tries=usual.max_tries if max_retries is None else int(max_retries) + 1,
        max_total_s=usual.max_total_s if max_total_s is None else float(max_total_s),
        longest_hint_s=usual.longest_hint_s if longest_hint_s is None else float(longest_hint_s),
    )


def read_timeout(timeout_s: float | None) -> float:
    """
    Seconds for each try: the argument, else the variable, else the default.

    Raises:
        BadArguments: If the argument is no number above 0.
        BadSetting: If the variable holds none.
    """
    if timeout_s is not None:
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s < float("inf"):
            raise BadArguments(f"timeout_s is a number of seconds above 0, not {timeout_s!r}.")
        return float(timeout_s)
    told = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    try:
        seconds = float(told) if told else DEFAULT_TIMEOUT_S
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BadSetting(f"{TIMEOUT_VARIABLE} is a number of seconds above 0, not {told!r}.")
    return seconds


def find_endpoint(base_url: str | None, api_key: str | None, api_key_env: str, extra_headers: Mapping[str, str] | None) -> Endpoint:
    """
    Put the address and the headers together.

    Raises:
        BadArguments, BadSetting: If one of them cannot be used.
        MissingKey: If there is no key where one is needed.
    """
    parts = read_base_url(base_url)
    key = (api_key or "").strip() or os.environ.get(api_key_env, "").strip()
    host = parts.netloc.rpartition("@")[2]
    if not key and parts.hostname == OPENAI_HOST:
        raise MissingKey(
            f"{OPENAI_HOST} needs an API key, and {api_key_env} is not set.",
            do=(
                f"export {api_key_env}=...",
                f"Or, for another server, give its address: {BASE_URL_VARIABLE}=http://HOST:PORT/v1.",
                "Or try evalframe without a key: dummy, echo or local/smollm2 in place of the model's name.",
            ),
        )
    headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "evalframe"}
    if parts.username is not None and not api_key:
        userinfo = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["authorization"] = f"Basic {b64encode(userinfo.encode('utf-8')).decode('ascii')}"
    elif key:
        headers["authorization"] = f"Bearer {checked_header(key, f'The API key (api_key, or {api_key_env})', shown=False)}"
    if extra_headers is not None and not isinstance(extra_headers, Mapping):
        raise BadArguments(f"extra_headers is a JSON object, not {extra_headers!r}.")
    for name, value in (extra_headers or {}).items():
        headers[checked_header(str(name), "A name in extra_headers").lower()] = checked_header(
            str(value), f"{name} in extra_headers", shown=False
        )
    shown_url = urlunsplit((parts.scheme, host, parts.path, "", ""))
    return Endpoint(shown_url, urlunsplit((parts.scheme, host, parts.path + PATH, parts.query, "")), headers)


def read_base_url(base_url: str | None) -> SplitResult:
    """
    The base URL in its parts, without a slash or /chat/completions at its end.

    Raises:
        BadArguments: If the argument is no http or https URL.
        BadSetting: If the variable is none.
    """
    told = str(base_url).strip() if base_url else os.environ.get(BASE_URL_VARIABLE, "").strip() or DEFAULT_BASE_URL
    try:
        parts = urlsplit(told)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or not told.isascii() or any(character.isspace() for character in told):
        name, error = ("base_url", BadArguments) if base_url else (BASE_URL_VARIABLE, BadSetting)
        raise error(f"{name} is no http or https URL: {told.rpartition('@')[2]!r}.", do="Write it like http://HOST:PORT/v1.")
    return parts._replace(path=parts.path.rstrip("/").removesuffix(PATH).rstrip("/"))


def checked_header(value: str, what: str, *, shown: bool = True) -> str:
    """
    A text that can be sent in a header.

    Raises:
        BadSetting: If it holds what no header can; `shown` says whether the message may repeat it.
    """
    if not value.isascii() or not value.isprintable():
        raise BadSetting(f"{what} holds characters that no HTTP header can{f': {value!r}' if shown else ''}.", do="Copy it anew.")
    return value
