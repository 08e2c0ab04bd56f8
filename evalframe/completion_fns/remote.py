"""
Talking to a model over HTTP: what all providers have in common.

Waiting is written once. What a provider does stands in a generator that never sleeps and never sends: it yields `Send` and `Wait` and is
told what came back. Whether a thread waits for that or an event loop is decided by whoever asks (core/steps.py).

    RemoteCompletionFn.answer_in_steps  asks, records the answer              (run by __call__ on a thread, by `ask` on an event loop)
      └─ Lane.run                       slots, pauses, the sample's time      (lane.py)
           └─ RemoteCompletionFn.exchange  what to send, how to read it       (a provider says `body` and `read`)
                └─ send_with_retries       again or not, and when             (calls.py)
"""

from __future__ import annotations

import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from evalframe.completion_fns.calls import Patience, Unreadable, json_of, json_or_none, refuse, send_with_retries, server_message
from evalframe.completion_fns.endpoint import Endpoint, Home, find_endpoint, make_policy, read_timeout
from evalframe.completion_fns.lane import LIMITERS, AsyncSender, Lane, Sender, Senders
from evalframe.completion_fns.recorded import record_answer
from evalframe.completion_fns.repair import LEARNT, Learnt, Repair, repair_for
from evalframe.core.completion import Completion, Reply, Send, Usage, Wait
from evalframe.core.errors import BadArguments, Collector, RequestRefused, closest
from evalframe.core.media import read_files
from evalframe.core.prompts import Prompt, as_messages, is_prompt
from evalframe.core.recorder import record_event_if_in_scope
from evalframe.core.scope import before_call
from evalframe.core.steps import Steps, on_thread
from evalframe.resilience.rates import Limiters, Throttling
from evalframe.resilience.retry import RetryPolicy
from evalframe.storage import json_text

THINKING = re.compile(r"\s*<think(?:ing)?>(.*?)(?:</think(?:ing)?>\s*|\Z)", re.DOTALL)
"""A block of reasoning before an answer, closed or cut off in the middle."""
THOUGHT = re.compile(r"(.*?)</think>\s*", re.DOTALL)
"""The same, where its beginning stands in the prompt."""
FILTERED = frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation", "data_inspection_failed"})
"""Codes of a 400 that means: this prompt is not answered (OpenAI and Azure, and those that speak as they do; seen 2026-12-01)."""


FLAGGED = re.compile(r"polic(?:y|ies)|safety|flagged|violat", re.IGNORECASE)
"""How a message says that a prompt is not answered, where its code alone (`invalid_prompt`) may mean anything."""


@dataclass(slots=True)
class RemoteCompletion(Completion):
    """
    A completion, and how it was asked for.

    Args:
        prompt: The messages, or the text, as sent.
        options: The options as sent, by the names they were asked for with.
        tries: Requests that it took.
    """

    prompt: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    tries: int = 1

    def add(
        self,
        text: str,
        finish_reason: str | None = None,
        *,
        reasoning: str | None = None,
        tool_calls: list[dict[str, Any]] | None = None,
        refusal: str | None = None,
        logprobs: Any = None,
    ) -> None:
        """Add one more answer."""
        self.completions.append(text)
        self.finish_reasons.append(finish_reason)
        self.reasoning.append(reasoning)
        self.tool_calls.append(tool_calls)
        self.refusals.append(refusal)
        self.logprobs.append(logprobs)


RemoteExchange = Generator[Send | Wait, Reply | None, RemoteCompletion]


class RemoteCompletionFn(ABC):
    """
    Ask a model over HTTP. A provider says what is sent (`body`) and how an answer is read (`read`).

    Args:
        model: The model's name, as the endpoint knows it.
        base_url: The endpoint's address; else the provider's variable, else its own.
        api_key: The key; else the variable that `api_key_env` names.
        api_key_env: The variable that holds the key.
        key_header: The header that carries the key.
        needs_key: Whether a key is needed; if not said, only by the provider's own address.
        timeout_s: Wall-clock seconds for each try; else `EVALS_THREAD_TIMEOUT`, else 300.
        max_retries: Tries after the first, 7 if not given.
        max_total_retry_s: Seconds for all tries of a call, 900 if not given.
        max_retry_after_s: The most that is believed of what a server asks to wait, 120 if not given.
        max_connections: How many are kept open; one for each worker.
        extra_options: Parameters that are sent as they are, whatever their names.
        extra_headers: Headers that are sent as they are.
        renames: Names under which this server takes options: {asked for: sent}.
        more_parameters: Options that this server takes beside the usual ones.
        think_tags: Whether a <think> block before an answer is taken for reasoning.
        cassette: A file of recorded replies that are given in place of the endpoint's; made by asking where it is not there yet.
        retry_policy: In place of the three numbers above, with the lengths of waits.
        sleep, clock, now, rng: Waits some seconds; monotonic seconds; seconds since 1970; source of the waits' spread.
        limiters, learnt: Where the endpoint's limiter is found, and what was learnt of models; those of this process if not given.
        options: Parameters of the endpoint, such as `temperature`; those of a call win over these. None is not sent.

    Attributes:
        model: As given.
        base_url: Without userinfo and query.

    Raises:
        BadArguments: If an option is unknown, or an argument does not fit.
        BadSetting: If a variable holds what cannot be used.
        MissingKey: If there is no key where one is needed.
    """

    provider: ClassVar[str] = "openai"
    """Stands in the identity of answers that are kept."""
    home: ClassVar[Home] = Home()
    """Where the provider's models are found."""
    PATH: ClassVar[str] = ""
    """What follows on the base URL."""
    PARAMETERS: ClassVar[frozenset[str]] = frozenset()
    """What may be asked for beside model and prompt; names of the provider, and those of chat completions that it can translate."""
    WIRE_NAMES: ClassVar[Mapping[str, str]] = {}
    """How options are called in the request, where that is not the name they are asked for with."""
    OURS: ClassVar[frozenset[str]] = frozenset({"model", "messages", "stream"})
    """What extra_options may not hold: the request is put together here, and its reply is read whole."""
    CALLED: ClassVar[str] = "This endpoint"
    """How a message calls what takes the options."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        key_header: str | None = None,
        needs_key: bool | None = None,
        timeout_s: float | None = None,
        max_retries: int | None = None,
        max_total_retry_s: float | None = None,
        max_retry_after_s: float | None = None,
        max_connections: int = 10,
        extra_options: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        renames: Mapping[str, str] | None = None,
        more_parameters: Iterable[str] = (),
        think_tags: bool = True,
        cassette: str | Path | None = None,
        retry_policy: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        rng: Random | None = None,
        limiters: Limiters | None = None,
        learnt: Learnt | None = None,
        **options: Any,
    ) -> None:
        self.model = str(model)
        policy = retry_policy or make_policy(max_retries, max_total_retry_s, max_retry_after_s)
        self.patience = Patience(policy, clock, now, rng or Random())
        self.timeout_s = read_timeout(timeout_s)
        self._renames = dict(renames or {})
        self._more = frozenset(more_parameters)
        where = partial(
            find_endpoint,
            self.home,
            path=self.PATH,
            base_url=base_url,
            api_key=api_key,
            api_key_env=api_key_env,
            key_header=key_header,
            needs_key=needs_key,
            extra_headers=extra_headers,
        )
        faults = Collector()
        found = faults.of(where)
        options = faults.of(partial(self.checked_options, options)) or {}
        self._options = {**options, **(faults.of(partial(self._checked_extra, extra_options)) or {})}
        if faults:
            raise faults.all()
        self._endpoint: Endpoint = found
        self.base_url = self._endpoint.base_url
        self._think_tags = think_tags
        self._senders: Senders = OwnSenders(max_connections)
        if cassette is not None:
            self._senders = taped(cassette, self._senders)
        self._sleep = sleep
        self._limiters = limiters or LIMITERS
        self._lane: Lane | None = None
        self._told_before = Throttling()
        self._repairs = (learnt or LEARNT).of(self.base_url, self.model)
        self._mended: dict[str, Repair] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, base_url={self.base_url!r})"

    # ------------------------------------------------------------------ what a provider says

    @abstractmethod
    def body(self, prompt: Prompt, options: Mapping[str, Any]) -> Any:
        """
        The request, as JSON.

        Args:
            prompt: With local files read.
            options: Those that are to be sent, none of them None.

        Raises:
            RequestRefused: If the endpoint cannot be asked this.
        """

    @abstractmethod
    def read(self, raw: dict[str, Any]) -> RemoteCompletion:
        """
        Read a good reply.

        Raises:
            Unreadable: If it is no answer.
        """

    def url(self) -> str:
        """Where the request goes."""
        return self._endpoint.url(self.PATH)

    def request_method(self) -> str:
        """The HTTP method."""
        return "POST"

    def as_sent(self, prompt: Prompt) -> Prompt:
        """The prompt as the log shows it: as it is sent."""
        return as_messages(prompt)

    def read_refusal(self, reply: Reply, raw: Any) -> RemoteCompletion | None:
        """The answer that an error amounts to: a prompt that is filtered gets a refusal. None for an error."""
        error = raw.get("error") if isinstance(raw, Mapping) else None
        if reply.status not in (400, 403, 422) or not isinstance(error, Mapping):
            return None
        inner = error.get("innererror")
        codes = {str(part.get(name)).lower() for part in (error, inner) if isinstance(part, Mapping) for name in ("code", "type")}
        said = str(error.get("message") or "")
        if not codes & FILTERED and not ("invalid_prompt" in codes and FLAGGED.search(said)):
            return None
        completion = RemoteCompletion([], Usage(unknown=1), raw=raw)
        completion.add("", "content_filter", refusal=said or "the prompt was filtered")
        return completion

    def as_key_error(self, reply: Reply) -> bool:
        """Whether an error means that the key is wrong, though its status does not say so."""
        return False

    # ------------------------------------------------------------------ asking

    def __call__(self, prompt: Prompt, **options: Any) -> RemoteCompletion:
        """
        Ask the model, on this thread, and record the answer for the sample in scope. On an event loop: `await ask(function, prompt)`.

        Raises:
            CompletionFnError: If there is no answer.
        """
        return on_thread(self.answer_in_steps(prompt, options))

    def answer_in_steps(self, prompt: Prompt, options: Mapping[str, Any]) -> Steps[RemoteCompletion]:
        """The same in steps: see `core/steps.py`."""
        before_call(prompt)
        completion = yield from self.lane.run(self.exchange(prompt, options))
        self.record(completion)
        return completion

    def exchange(self, prompt: Prompt, options: Mapping[str, Any]) -> RemoteExchange:
        """What to send, and how to read the answer, as a generator; `options` are those of this call."""
        if not is_prompt(prompt):
            raise RequestRefused(f"A prompt is text or a list of chat messages, not {type(prompt).__name__}: {str(prompt)[:80]!r}.")
        prompt, wanted, tries = read_files(prompt, Path.cwd()), self._wanted(options), 0
        while True:
            try:
                return (yield from self._asked_once(prompt, wanted, tries))
            except Repaired:
                tries += 1

    def _asked_once(self, prompt: Prompt, wanted: Mapping[str, Any], tries: int) -> RemoteExchange:
        """
        Send with what is known of the model by now.

        Raises:
            Repaired: If more is known after it, and the request can be sent otherwise.
        """
        sent = self._repairs.applied(wanted)
        asked = {self._renames.get(name, name): value for name, value in sent.items()} if self._renames else sent
        body = json_text.dumps(self.body(prompt, asked))
        request = Send(self.url(), self._endpoint.all_headers, body, self.timeout_s, self.request_method(), secrets=self._endpoint.secrets)
        answered = yield from send_with_retries(
            request, self._read, self.patience, lambda reply: self._refused(request, reply, wanted, sent)
        )
        if sent is not wanted:
            self._mended.update({known.option: known for known in self._repairs if known.option in wanted})
        completion = answered.value
        completion.prompt, completion.options, completion.tries = self.as_sent(prompt), dict(sent), tries + answered.tries
        if answered.lost is not None:
            completion.usage += answered.lost
        if self._think_tags:
            part_reasoning(completion)
        return completion

    def _read(self, reply: Reply) -> RemoteCompletion:
        """
        A good reply, read.

        Raises:
            Unreadable: If it is no answer, however odd it is.
        """
        raw = json_of(reply)
        try:
            return self.read(raw)
        except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
            raise Unreadable(f"its shape is not that of an answer ({type(error).__name__}: {str(error)[:80]})") from error

    def _refused(self, request: Send, reply: Reply, wanted: Mapping[str, Any], sent: Mapping[str, Any]) -> RemoteCompletion | None:
        """
        What a status that will not change amounts to.

        Raises:
            Repaired: If the request can be sent otherwise.
        """
        if self.as_key_error(reply):
            refuse(request, replace(reply, status=401))
        raw = json_or_none(reply)
        completion = self.read_refusal(reply, raw)
        if completion is not None:
            return completion
        origin = {known.renamed_to: known.option for known in self._repairs if known.renamed_to}
        wire_names = {**self.WIRE_NAMES, **self._renames}
        by_wire_name = {wire_names.get(name, name): origin.get(name, name) if name not in wanted else name for name in sent}
        said = server_message(request, reply)
        repair = repair_for(reply, raw, said, wanted, by_wire_name, self.PARAMETERS)
        if repair is None:
            return None
        if self._repairs.learn(repair):
            told = {"option": repair.option, "renamed_to": repair.renamed_to, "said": repair.said}
            record_event_if_in_scope("repair", {"model": self.model, "base_url": self.base_url, **told})
        raise Repaired

    def _wanted(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of this call over those of the function, without those that are taken away by None."""
        return {name: value for name, value in {**self._options, **self.checked_options(options)}.items() if value is not None}

    # ------------------------------------------------------------------ what others ask of it

    def account(self) -> tuple[str, str]:
        """The endpoint's address, and what tells one account there from another."""
        return self.base_url, self._endpoint.account

    def cache_identity(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What its answers depend on, beside the prompt; see `CachedCompletionFn`. Gateways route by a query and by headers, too."""
        return {
            "provider": self.provider,
            "url": self.url(),
            "headers": dict(self._endpoint.headers),
            "model": self.model,
            "options": self._wanted(options),
        }

    @property
    def lane(self) -> Lane:
        """The way to the endpoint."""
        if self._lane is None:
            limiter = self._limiters.of(*self.account())
            self._told_before = limiter.told
            self._lane = Lane(self._senders, limiter, self._sleep, self.patience.policy.longest_hint_s)
        return self._lane

    def endpoint_facts(self) -> dict[str, Any]:
        """What the log's last line keeps of the endpoint: options that the model does not take, and how its limiter went; often nothing."""
        facts: dict[str, Any] = {}
        if self._mended:
            facts["repairs"] = [asdict(known) for known in self._mended.values()]
        if self._lane is not None and self._lane.limiter.told.since(self._told_before).times:
            told = self._lane.limiter.told.since(self._told_before)
            facts["throttled"] = {"times": told.times, "waited_s": round(told.waited_s, 3), "history": self._lane.limiter.history()}
        return {"model": self.model, "base_url": self.base_url, **facts} if facts else {}

    def notices(self) -> list[str]:
        """What a person should know at the end of a run."""
        if self._lane is None:
            return []
        said = [f"{self.model}: {known}" for known in self._mended.values()]
        told = self._lane.limiter.told.since(self._told_before)
        if told.times:
            waited = f"; others waited {told.waited_s:.0f} s for a slot in all" if told.waited_s >= 1 else ""
            said.append(f"{self.base_url} asked {told.times} times for fewer calls at once{waited}")
        return said

    def record(self, completion: RemoteCompletion) -> None:
        """Record an answer for the sample in scope."""
        more = {"tries": completion.tries} if completion.tries > 1 else {}
        record_answer(completion, prompt=completion.prompt, model=self.model, usage=completion.usage, options=completion.options, **more)

    # ------------------------------------------------------------------ what is refused before the first request

    def checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """
        The options, all of them known.

        Raises:
            BadArguments: With those that are not, each with the names most like it.
        """
        unknown = []
        for name in options:
            if name not in self.PARAMETERS and name not in self._more:
                near = closest(name, self.PARAMETERS | self._more | ARGUMENTS, most=3)
                unknown.append(f'"{name}" (closest: {", ".join(near)})' if near else f'"{name}"')
        if unknown:
            raise BadArguments(
                f"{self.CALLED} take{'' if self.CALLED.endswith('s') else 's'} no option {', '.join(unknown)}.",
                do='An option that only this server knows goes into extra_options: extra_options={"name": value}.',
            )
        return dict(options)

    def _checked_extra(self, extra: Mapping[str, Any] | None) -> dict[str, Any]:
        """
        The extra options.

        Raises:
            BadArguments: If they are no JSON object, or hold what is put together here.
        """
        if extra is None:
            return {}
        if not isinstance(extra, Mapping) or not all(isinstance(name, str) for name in extra):
            raise BadArguments(f"extra_options is a JSON object, not {extra!r}.", do='Write extra_options={"name": value}.')
        if taken := sorted(self.OURS & extra.keys()):
            raise BadArguments(f"extra_options cannot hold {', '.join(taken)}.")
        return dict(extra)


ARGUMENTS = frozenset({"base_url", "api_key", "api_key_env", "timeout_s", "max_retries", "max_connections", "extra_options"})
"""Arguments that somebody may have meant by a name that is no option."""


class Repaired(Exception):
    """The request can be sent otherwise."""


class OwnSenders:
    """
    Both ways to send, made when the first is needed and shared by all threads and tasks; see `Senders`.

    Args:
        max_connections: How many a thread pool keeps open.
    """

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections
        self._on_thread: Sender | None = None
        self._on_event_loop: AsyncSender | None = None
        self._lock = threading.Lock()

    @property
    def on_thread(self) -> Sender:
        """Connections for threads."""
        if self._on_thread is None:
            with self._lock:
                if self._on_thread is None:
                    from evalframe.completion_fns.transport import Transport  # only now, since urllib3 takes long to import

                    self._on_thread = Transport(max_connections=self._max_connections)
        return self._on_thread

    @property
    def on_event_loop(self) -> AsyncSender:
        """Connections for tasks."""
        if self._on_event_loop is None:
            with self._lock:
                if self._on_event_loop is None:
                    from evalframe.completion_fns.aio_transport import AioTransport  # only now, since aiohttp takes long to import

                    self._on_event_loop = AioTransport()
        return self._on_event_loop


def taped(cassette: str | Path, senders: Senders) -> Senders:
    """
    The senders with a cassette between them and the endpoint.

    Raises:
        BadSetting: If it cannot be read.
    """
    from evalframe.completion_fns.cassette import Cassette  # only now, since few need it

    return Cassette(cassette, senders)


def part_reasoning(completion: RemoteCompletion) -> None:
    """Take the reasoning that stands before an answer out of it, where the endpoint has not done so itself."""
    for index, text in enumerate(completion.completions):
        if "<think" not in text[:64] and "</think>" not in text:
            continue
        found = THINKING.match(text) or THOUGHT.match(text)
        if found is not None:
            completion.completions[index] = text[found.end() :]
            completion.reasoning[index] = "\n".join(filter(None, (completion.reasoning[index], found[1].strip())))
