"""
What a model does not take is learnt from its own refusal, once for each endpoint and model.

Whole families of models answer 400 to `temperature`, to `max_tokens` or to `stop`, also at their defaults, and nobody can know which ones
tomorrow. So what was asked for is sent; a 400 that names one of the options has that one renamed, where another name means the same, or
dropped, and the request is sent again. What was learnt is remembered, stands in the log and is told at the end of the run.

Covers: refusals in the words of OpenAI, Azure, Anthropic, Gemini, Mistral, vLLM and their like (seen 2026-12-01).
Does not cover: options that are the question itself, such as `tools` or `response_format`, and values that the endpoint would take if they
were others (a temperature of 5): these are told as errors, since a run without them would answer another question.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalframe.core.completion import Reply

OTHER_NAMES = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Options that mean the same under another name."""
THE_QUESTION = frozenset({
    "audio", "function_call", "functions", "logprobs", "modalities", "n", "parallel_tool_calls", "prediction", "reasoning",
    "reasoning_effort", "response_format", "text", "thinking", "tool_choice", "tools", "top_logprobs", "web_search_options",
})  # fmt: skip
"""Without these the model would be asked something else."""
REFUSING = re.compile(
    r"unsupported|not supported|not_supported|does(?: not|n't) (?:support|accept)|no longer|deprecat|unrecogni[sz]ed|unknown"
    r"|not (?:permitted|allowed|available|accepted|compatible)|extra inputs|cannot be (?:used|set|specified)|can not be|cannot both"
    r"|isn't supported|unexpected|only the default|must be (?:unset|omitted)|not a valid (?:parameter|field)|incompatible",
    re.IGNORECASE,
)
"""Words by which an endpoint says that it does not take an option at all, or not with this model."""
INSTEAD = re.compile(r"\buse\b[^.]{0,20}?[`'\"]?([a-z][a-z0-9_]{2,40})[`'\"]?\s+(?:instead|parameter instead)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Repair:
    """
    What is done with an option that a model refuses.

    Args:
        option: As it was asked for.
        renamed_to: The name under which it is sent now; None where it is not sent any more.
        said: What the endpoint said of it.
    """

    option: str
    renamed_to: str | None
    said: str

    def __str__(self) -> str:
        done = f"sent as {self.renamed_to}" if self.renamed_to else "not sent"
        return f"{self.option} is {done}, since the endpoint says: {self.said}"


class Repairs:
    """
    What was learnt of one model at one endpoint; for many threads at once.
    """

    def __init__(self) -> None:
        self._by_option: dict[str, Repair] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Repair]:
        return iter(tuple(self._by_option.values()))

    def __bool__(self) -> bool:
        return bool(self._by_option)

    def applied(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options as they are to be sent."""
        if not self._by_option:
            return options
        sent: dict[str, Any] = {}
        for name, value in options.items():
            known = self._by_option.get(name)
            if known is None:
                sent[name] = value
            elif known.renamed_to is not None:
                sent.setdefault(known.renamed_to, value)
        return sent

    def learn(self, repair: Repair) -> bool:
        """Remember a repair; whether it is new."""
        with self._lock:
            if self._by_option.get(repair.option) is not None and self._by_option[repair.option].renamed_to == repair.renamed_to:
                return False
            self._by_option[repair.option] = repair
            return True


class Learnt:
    """What was learnt in this process, by endpoint and model."""

    def __init__(self) -> None:
        self._repairs: dict[tuple[str, str], Repairs] = {}
        self._lock = threading.Lock()

    def of(self, url: str, model: str) -> Repairs:
        """What was learnt of a model at an endpoint."""
        with self._lock:
            return self._repairs.setdefault((url, model), Repairs())


LEARNT = Learnt()


def repair_for(reply: Reply, raw: Any, said: str, asked: Iterable[str], sent: Mapping[str, Any], taken: Iterable[str]) -> Repair | None:
    """
    What mends a request that was refused.

    Args:
        reply: The refusal.
        raw: Its body as JSON, if it is.
        said: What it says, in one line.
        asked: The options that the caller asked for, by the names he used.
        sent: Each option under the name it had in the request, with the caller's name for it.
        taken: All names that the provider knows.

    Returns:
        None where nothing mends it: no option is named, or one that is the question itself, or only its value is wrong.
    """
    if reply.status not in (400, 422):
        return None
    named = list(named_in(raw, said, sent))
    if not named or not (REFUSING.search(said) or refused_by_code(raw)):
        return None
    wire = named[0]
    option = sent[wire]
    if option in THE_QUESTION or wire in THE_QUESTION:
        return None
    return Repair(option, another_name(option, wire, said, frozenset(asked), frozenset(taken)), said)


def another_name(option: str, wire: str, said: str, asked: frozenset[str], taken: frozenset[str]) -> str | None:
    """The name under which the option may be taken: the one that the endpoint offers, else another that means the same."""
    offered = INSTEAD.search(said)
    other = offered[1] if offered else OTHER_NAMES.get(option) if wire == option else None
    return other if other in taken and other != wire and other not in asked else None


def named_in(raw: Any, said: str, names: Mapping[str, Any]) -> Iterator[str]:
    """The names among `names` that a refusal names: first where it says so in a field of its own, then in its words."""
    error = raw.get("error") if isinstance(raw, Mapping) else None
    param = error.get("param") if isinstance(error, Mapping) else None
    places = [param] if isinstance(param, str) else []
    details = raw.get("detail") if isinstance(raw, Mapping) else None
    if isinstance(details, list):
        places += [
            str(item["loc"][-1]) for item in details if isinstance(item, Mapping) and isinstance(item.get("loc"), list) and item["loc"]
        ]
    for place in places:
        for name in names:
            if place == name or re.split(r"[.\[\]]+", place)[-1] == name or place.startswith(f"{name}."):
                yield name
    found = [(match.start(), name) for name in names if (match := re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", said))]
    yield from (name for _, name in sorted(found))


def refused_by_code(raw: Any) -> bool:
    """Whether a refusal says by its code that the option, or its value with this model, is not supported."""
    error = raw.get("error") if isinstance(raw, Mapping) else None
    code = error.get("code") or error.get("type") if isinstance(error, Mapping) else None
    return code in ("unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden")
