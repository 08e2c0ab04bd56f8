"""
A completion function answers a prompt; a completion is its answer.

Waiting is written once: whatever talks to a model over a wire is a generator that yields `Send` or `Wait`, receives a `Reply` to each
`Send`, and returns a `Completion`. A driver runs it: on a thread, on an event loop, or through a batch file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

from evalframe.core.errors import BadReply
from evalframe.core.prompts import Prompt


class CompletionResult(ABC):
    """An answer, or several, to one prompt."""

    @abstractmethod
    def get_completions(self) -> list[str]:
        """The answers as text, at least one."""


def texts_of(result: object) -> list[str]:
    """
    The answers of whatever a completion function gave.

    Raises:
        BadReply: If it gave something else than one or several texts.
    """
    give = getattr(result, "get_completions", None)
    if not callable(give):
        raise BadReply(
            f"the completion function gave a {type(result).__name__}, not a result with get_completions().",
            do="Return evalframe.Completion([text]).",
        )
    answers = give()
    if not isinstance(answers, list | tuple) or not answers or not all(isinstance(answer, str) for answer in answers):
        raise BadReply(f"get_completions() of {type(result).__name__} is to give a list of texts, but gave {repr(answers)[:100]}.")
    return list(answers)


@runtime_checkable
class CompletionFn(Protocol):
    """
    Whatever answers a prompt. Any callable of this shape will do.

    Its prompt is text or a list of chat messages; keyword arguments are options for this one call, such as `temperature`.
    """

    def __call__(self, prompt: Prompt, **kwargs: Any) -> CompletionResult:
        """Answer `prompt`."""
        ...


@dataclass(frozen=True, slots=True)
class Usage:
    """
    Tokens spent; None where the endpoint did not say.

    Args:
        input_tokens: All tokens of the prompt, cached ones among them.
        cached_tokens: Those of them read from the endpoint's cache.
        output_tokens: All tokens of the answer, reasoning among them.
        reasoning_tokens: Those of them spent on reasoning.
        calls: Answers these tokens were spent on.
        unknown: Those of them whose usage is not known, so that a sum is known to be partial.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    calls: int = 1
    unknown: int = 0

    def __add__(self, other: Usage) -> Usage:
        sums = {}
        for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"):
            known = [value for value in (getattr(self, name), getattr(other, name)) if value is not None]
            sums[name] = sum(known) if known else None
        return Usage(**sums, calls=self.calls + other.calls, unknown=self.unknown + other.unknown)

    def to_dict(self) -> dict[str, int | None]:
        """The fields by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_dict(cls, raw: object) -> Usage:
        """
        Read usage as we, the OpenAI-compatible endpoints or old logs spell it; what is missing, null or no count is unknown.
        """
        if not isinstance(raw, Mapping):
            return cls(unknown=1)

        def count(*names: str) -> int | None:
            for name in names:
                value: Any = raw
                for step in name.split("."):
                    value = value.get(step) if isinstance(value, Mapping) else None
                if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                    return value
            return None

        spent, answered = count("input_tokens", "prompt_tokens"), count("output_tokens", "completion_tokens")
        calls = count("calls")
        known = spent is not None or answered is not None or calls == 0
        return cls(
            input_tokens=spent,
            cached_tokens=count("cached_tokens", "prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens"),
            output_tokens=answered,
            reasoning_tokens=count(
                "reasoning_tokens", "completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"
            ),
            calls=1 if calls is None else calls,
            unknown=(count("unknown") or 0) if known else (count("unknown") or 1),
        )


@dataclass(slots=True)
class Completion(CompletionResult):
    """
    Our own completion result.

    Args:
        completions: The answers as text; an answer without text is "".
        usage: Tokens spent on all of them, retries included.
        finish_reasons: Why each answer ended, as the endpoint calls it: "stop", "length", "content_filter", ...
        reasoning: What the model thought aloud before each answer, where the endpoint tells it apart.
        tool_calls: The tools each answer asks for, as the endpoint spells them.
        model: The model that answered, as it calls itself.
        raw: The reply as it came.
    """

    completions: list[str]
    usage: Usage = field(default_factory=lambda: Usage(unknown=1))
    finish_reasons: list[str | None] = field(default_factory=list)
    reasoning: list[str | None] = field(default_factory=list)
    tool_calls: list[list[dict[str, Any]] | None] = field(default_factory=list)
    model: str | None = None
    raw: Any = None

    def get_completions(self) -> list[str]:
        """The answers as text."""
        return self.completions

    @property
    def finish_reason(self) -> str | None:
        """Why the first answer ended."""
        return self.finish_reasons[0] if self.finish_reasons else None


@dataclass(frozen=True, slots=True)
class Send:
    """
    A request that a provider wants sent.

    Args:
        url: Where to.
        headers: With the key in them; never to be logged.
        body: JSON, encoded.
        timeout_s: Wall-clock seconds for the whole exchange, connecting apart.
        method: HTTP method.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    timeout_s: float = 300.0
    method: str = "POST"


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause that a provider wants: how many seconds, and why."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Reply:
    """
    What came back for a `Send`.

    Args:
        status: HTTP status; 0 where no whole reply came.
        headers: With lower-case names.
        body: As it came.
        fault: Why no whole reply came: one sentence without a full stop.
        timed_out: Whether that was the time limit.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    fault: str | None = None
    timed_out: bool = False


Exchange = Generator[Send | Wait, Reply | None, Completion]
