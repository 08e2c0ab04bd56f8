"""
A language model in this process, by llama.cpp (the extra `local`): no server, no key, no network once its file is there.

Covers: `smollm2`, which is SmolLM2-135M-Instruct and is fetched on first use, and any GGUF file by its path; the same answer to the same
prompt in every run, whatever else is asked meanwhile; a clean end of the process in the middle of an answer.
Does not cover: several answers to one prompt, tools, images, log-likelihoods. One prompt is answered at a time; more at once would not be
faster on a processor, and would make answers depend on what is asked beside them.

The library opens a port on the loopback interface, which cannot be helped; it is closed to all who lack a key that is drawn at random.
"""

from __future__ import annotations

import atexit
import math
import os
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evalframe.completion_fns.model_files import SMOLLM2, fetched
from evalframe.completion_fns.recorded import record_answer
from evalframe.core.completion import Completion, Usage
from evalframe.core.errors import BadArguments, CallFailed, EvalframeError, MissingExtra, ModelUnavailable, RequestRefused, closest
from evalframe.core.prompts import Prompt, as_messages, is_prompt
from evalframe.core.scope import before_call, time_left_s

OPTIONS = ("temperature", "top_p", "max_tokens", "stop", "seed")
GGUF_MAGIC = b"GGUF"
EXIT_WAIT_S = 20.0
"""Seconds that the end of the process waits for the model to stop, which it does after the token, or the prompt, it is busy with."""


class LocalCompletionFn:
    """
    Ask a model in this process.

    Args:
        model: "smollm2", or the path of a GGUF file.
        temperature: 0 for the likeliest token each time.
        top_p: Share of the likeliest tokens that is drawn from.
        max_tokens: Longest answer.
        stop: Text, or texts, that end an answer.
        seed: Source of the draws.
        context_tokens: Longest prompt and answer together.
        threads: How many compute; by default one less than there are processors, since they wait for each other at every step: where
            one loses its processor to another program, two are many times slower than one.
        cache_dir: Where fetched models are kept; else `EVALFRAME_CACHE_DIR`, else the user's cache directory.

    Raises:
        MissingExtra: If the library is not installed.
        ModelUnavailable: If there is no such model.
    """

    def __init__(
        self,
        model: str = "smollm2",
        *,
        temperature: float = 0.0,
        top_p: float | None = None,
        max_tokens: int = 256,
        stop: str | list[str] | None = None,
        seed: int = 0,
        context_tokens: int = 4096,
        threads: int | None = None,
        cache_dir: str | Path | None = None,
    ) -> None:
        if find_spec("xllamacpp") is None:
            raise MissingExtra.named(f"the model local/{model}", library="xllamacpp", extra="local")
        self.model = model
        self.context_tokens = context_tokens
        self.threads = threads or max(1, usable_cpus() - 1)
        self._options = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens, "stop": stop, "seed": seed}
        self._cache_dir = cache_dir
        self._lock = threading.Lock()
        self._loaded: LoadedModel | EvalframeError | None = None
        if model != SMOLLM2.name:
            check_file(model)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r})"

    def __call__(self, prompt: Prompt, **options: Any) -> Completion:
        """
        Answer `prompt`; `temperature`, `top_p`, `max_tokens`, `stop` and `seed` may differ for this call.

        Raises:
            ModelUnavailable: If the model cannot be fetched or loaded.
            RequestRefused: If the prompt is too long, or no prompt.
            BadArguments: If an option is unknown.
        """
        if not is_prompt(prompt):
            raise RequestRefused(f"A prompt is text or a list of chat messages, not {type(prompt).__name__}: {str(prompt)[:80]!r}.")
        for name in options:
            if name not in OPTIONS:
                near = closest(name, OPTIONS)
                raise BadArguments(
                    f'local/{self.model} takes no option "{name}" ({"closest" if near else "it takes"}: {", ".join(near or OPTIONS)}).'
                )
        messages = as_messages(prompt)
        sent = {name: value for name, value in {**self._options, **options}.items() if value is not None}
        before_call(prompt)
        answer = self._load().answer(messages, sent)
        completion = Completion([answer.text], answer.usage, [answer.finish_reason], [answer.reasoning or None], model=self.model)
        record_answer(completion, prompt=messages, model=self.model, usage=answer.usage, options=sent)
        return completion

    def cache_identity(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What its answers depend on, beside the prompt: see `CachedCompletionFn`."""
        sent = {name: value for name, value in {**self._options, **options}.items() if value is not None}
        told: dict[str, Any] = {"provider": "local", "model": self.model, "context_tokens": self.context_tokens, "options": sent}
        if self.model == SMOLLM2.name:
            return {**told, "sha256": SMOLLM2.sha256}
        path = Path(self.model).expanduser().resolve()
        return {**told, "path": str(path), "bytes": path.stat().st_size, "changed": path.stat().st_mtime_ns}

    def _load(self) -> LoadedModel:
        """The model; why it cannot be had is found out once, not by each of ten threads."""
        with self._lock:
            if self._loaded is None:
                try:
                    path = fetched(SMOLLM2, self._cache_dir) if self.model == SMOLLM2.name else check_file(self.model)
                    self._loaded = load(path, self.context_tokens, self.threads)
                except EvalframeError as error:
                    self._loaded = error
            if isinstance(self._loaded, EvalframeError):
                raise self._loaded
            return self._loaded


def check_file(model: str) -> Path:
    """
    The path of a GGUF file.

    Raises:
        ModelUnavailable: If there is none.
    """
    path = Path(model).expanduser()
    try:
        with path.open("rb") as file:
            head = file.read(len(GGUF_MAGIC))
    except (OSError, ValueError) as error:
        raise ModelUnavailable(
            f'There is no local model "{model}": it is neither {SMOLLM2.name} nor a file that can be read ({error}).',
            do=f"Name a GGUF file, as in local/models/mine.gguf, or use local/{SMOLLM2.name}.",
        ) from error
    if head != GGUF_MAGIC:
        raise ModelUnavailable(f"{path} is not a GGUF file (it begins with {head!r}).", do="If it is a Git LFS pointer: git lfs pull")
    return path.resolve()


@dataclass
class Answer:
    """
    An answer, as it grows.

    Args:
        text: What was said so far.
        reasoning: What was thought aloud before, where the model's format tells it apart.
        finish_reason: "stop" or "length".
        usage: Tokens.
        error: What the library says of a request that it refuses.
    """

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    usage: Usage = field(default_factory=lambda: Usage(unknown=1))
    error: Mapping[str, Any] | None = None

    def add(self, chunk: Any) -> None:
        """Take the next piece."""
        if not isinstance(chunk, Mapping):
            return
        if isinstance(chunk.get("error"), Mapping):
            self.error = chunk["error"]
        if isinstance(chunk.get("usage"), Mapping):
            self.usage = Usage.from_dict(chunk["usage"])
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            self.text += delta.get("content") or ""
            self.reasoning += delta.get("reasoning_content") or ""
            self.finish_reason = choice.get("finish_reason") or self.finish_reason


class LoadedModel:
    """
    A model in memory.

    Args:
        path: Its GGUF file.
        context_tokens: Longest prompt and answer together.
        threads: How many compute.

    Raises:
        ModelUnavailable: If it cannot be loaded.
    """

    def __init__(self, path: Path, context_tokens: int, threads: int) -> None:
        import xllamacpp

        settings = xllamacpp.CommonParams()
        settings.model.path = str(path)
        settings.n_ctx = context_tokens
        settings.n_parallel = 1
        settings.cache_prompt = False  # else an answer would depend, in the last bits, on what was asked before
        settings.cache_ram_mib = 0
        settings.warmup = False
        settings.verbosity = -1
        settings.ui = False
        settings.endpoint_slots = False
        settings.api_keys = [secrets.token_urlsafe(32)]
        settings.cors_origins = ""
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        self.path = path
        self._lock = threading.Lock()
        self._closing = False
        try:
            self._server: Any = xllamacpp.Server(settings)
        except RuntimeError as error:
            raise ModelUnavailable(
                f"{path} cannot be loaded: {error}", do="Check that it is whole, that llama.cpp knows its kind, and that it fits in memory."
            ) from error

    def answer(self, messages: list[dict[str, Any]], options: Mapping[str, Any]) -> Answer:
        """
        Answer a prompt, after those that came before it.

        Raises:
            RequestRefused: If the library refuses the prompt.
            CallFailed: If it fails, or the process is about to end.
        """
        answer = Answer()
        left_s = time_left_s()
        until = time.monotonic() + (math.inf if left_s is None else left_s)

        def take(chunk: Any) -> bool:
            answer.add(chunk)
            return self._closing or time.monotonic() >= until  # True ends the answer here

        request = {"messages": clean(messages), **options, "stream": True, "stream_options": {"include_usage": True}}
        with self._lock:
            if self._closing:
                raise CallFailed(f"{self.path.name} is closed, since the process ends.")
            try:
                self._server.handle_chat_completions(request, take)
            except RuntimeError as error:
                raise RequestRefused(f"{self.path.name} refuses the prompt: {error}") from error
        if answer.error is not None:
            said = str(answer.error.get("message", answer.error)).rstrip(".")
            if answer.error.get("type") == "exceed_context_size_error":
                raise RequestRefused(f"{self.path.name}: {said}.", do="Shorten the prompt, or raise context_tokens.")
            kind = RequestRefused if answer.error.get("code") == 400 else CallFailed
            raise kind(f"{self.path.name}: {said}.")
        if answer.finish_reason is None and not self._closing and time.monotonic() >= until:
            answer.finish_reason = "time_limit"  # what there is of it gets graded
        if answer.finish_reason is None:
            raise CallFailed(f"{self.path.name} was stopped in the middle of an answer.")
        return answer

    def close(self) -> None:
        """Stop what is under way, and free the memory. At the end of a process the library would crash without this."""
        self._closing = True
        if self._lock.acquire(timeout=EXIT_WAIT_S):
            self._server = None
            self._lock.release()


_loaded: dict[tuple[Path, int, int], LoadedModel] = {}
_loading = threading.Lock()


def load(path: Path, context_tokens: int, threads: int) -> LoadedModel:
    """The model in a file, loaded once in this process; raises as `LoadedModel`."""
    with _loading:
        key = (path, context_tokens, threads)
        if key not in _loaded:
            _loaded[key] = LoadedModel(*key)
            atexit.register(_loaded[key].close)
        return _loaded[key]


def usable_cpus() -> int:
    """How many processors this process may use."""
    with suppress(AttributeError, OSError):  # not every system has it
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def clean(value: Any) -> Any:
    """A copy without lone surrogates, which the library takes for broken JSON."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {key: clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list) else value
