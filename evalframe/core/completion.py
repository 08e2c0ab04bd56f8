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


REFUSED = frozenset({
    "content_filter", "content_filtered", "refusal", "refused", "safety", "recitation", "blocklist", "prohibited_content", "spii",
    "blocked", "image_safety", "sensitive",
})  # fmt: skip
"""Reasons, as endpoints spell them, why an answer was withheld."""
TRUNCATED = frozenset({
    "length", "max_tokens", "max_output_tokens", "max_completion_tokens", "model_length", "model_context_window_exceeded", "time_limit",
    "incomplete",
})  # fmt: skip
"""Reasons why an answer was cut off."""
OUTCOMES = ("answered", "empty", "truncated", "refused")
"""What may become of an answer, the better first."""


def outcome_of(text: str, finish_reason: str | None, *, has_calls: bool = False, refusal: str | None = None) -> str:
    """
    What became of an answer: one of `OUTCOMES`.

    Args:
        text: What it says.
        finish_reason: Why it ended, as the endpoint calls it.
        has_calls: Whether it asks for tools, which is an answer without a text.
        refusal: What was said in place of an answer.
    """
    reason = (finish_reason or "").lower()
    if refusal or reason in REFUSED:
        return "refused"
    if reason in TRUNCATED:
        return "truncated"
    return "answered" if text.strip() or has_calls else "empty"


def outcome_of_all(sampled: Any, finish_reason: Any = None, outcome: Any = None, *, has_calls: bool = False) -> str:
    """
    What became of the answers to one prompt, as a log tells of them: of several, the worst.

    Args:
        sampled: The answer, or answers.
        finish_reason: Why it ended, or a list of reasons.
        outcome: What is known already, or a list of it.
        has_calls: Whether tools are asked for.
    """
    if outcome is not None:
        known = outcome if isinstance(outcome, list) else [outcome]
    else:
        answers = sampled if isinstance(sampled, list) else [sampled]
        reasons = finish_reason if isinstance(finish_reason, list) else [finish_reason] * len(answers)
        known = [
            outcome_of("" if text is None else str(text), reason if isinstance(reason, str) else None, has_calls=has_calls)
            for text, reason in zip(answers, reasons, strict=False)
        ]
    return max(known, key=lambda one: OUTCOMES.index(one) if one in OUTCOMES else 0, default="empty")


def one_or_all(values: list[Any]) -> Any:
    """The only value, or the list where there are many."""
    return values[0] if len(values) == 1 else values


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


def add_usage(total: dict[str, Usage], spent: Mapping[str, Usage]) -> None:
    """Add tokens by model to a sum of them."""
    for model, usage in spent.items():
        total[model] = total[model] + usage if model in total else usage


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
        refusals: What was said in place of each answer, where refusals are told apart.
        logprobs: Log-probabilities of each answer, as the endpoint spells them, where they were asked for.
    """

    completions: list[str]
    usage: Usage = field(default_factory=lambda: Usage(unknown=1))
    finish_reasons: list[str | None] = field(default_factory=list)
    reasoning: list[str | None] = field(default_factory=list)
    tool_calls: list[list[dict[str, Any]] | None] = field(default_factory=list)
    model: str | None = None
    raw: Any = None
    refusals: list[str | None] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)

    def get_completions(self) -> list[str]:
        """The answers as text."""
        return self.completions

    @property
    def finish_reason(self) -> str | None:
        """Why the first answer ended."""
        return self.finish_reasons[0] if self.finish_reasons else None

    @property
    def outcomes(self) -> list[str]:
        """What became of each answer: one of `OUTCOMES`."""

        def of(values: list[Any], index: int) -> Any:
            return values[index] if index < len(values) else None

        return [
            outcome_of(text, of(self.finish_reasons, index), has_calls=bool(of(self.tool_calls, index)), refusal=of(self.refusals, index))
            for index, text in enumerate(self.completions)
        ]


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
        secrets: Values of headers that no message may show, beside those whose names say so.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    timeout_s: float = 300.0
    method: str = "POST"
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """
    A pause that a provider wants.

    Args:
        seconds: How long.
        reason: Why.
        is_firm: Whether the endpoint has asked for it; if not, it may be shorter where others are answered meanwhile.
    """

    seconds: float
    reason: str
    is_firm: bool = False


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
        is_final: Whether another try would fare no better: a certificate that is not trusted.
        queued_s: Seconds that the request waited for its turn before it was sent.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    fault: str | None = None
    timed_out: bool = False
    is_final: bool = False
    queued_s: float = 0.0


Exchange = Generator[Send | Wait, Reply | None, Completion]
