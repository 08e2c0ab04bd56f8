"""
The five stock evals: `Graded` with a grader chosen, and the constructor arguments of openai/evals.

    Match          the answer begins with an ideal, ended at a word boundary
    Includes       an ideal stands in the answer, whole
    FuzzyMatch     the words of one stand within the other
    JsonMatch      the answer is JSON equal in value to an ideal
    JsonValidator  the answer is JSON

What openai/evals hard-codes is not sent here: a temperature or a limit on tokens reaches the model only if YAML or command line ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evalframe.core.completion import CompletionFn
from evalframe.core.recorder import record_match
from evalframe.core.sample import Sample
from evalframe.evals.graded import Graded
from evalframe.graders.fuzzy import FuzzyMatch as FuzzyMatchGrader
from evalframe.graders.includes import Includes as IncludesGrader
from evalframe.graders.json_match import JsonMatch as JsonMatchGrader
from evalframe.graders.json_valid import JsonValid
from evalframe.graders.match import Match as MatchGrader


class Match(Graded):
    """Right if the answer begins with an ideal that ends there at a word boundary. Arguments: see `Graded`."""

    def __init__(
        self, completion_fns: Sequence[CompletionFn], samples_jsonl: str, *args: Any, ignore_case: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(completion_fns, samples_jsonl, *args, grader=MatchGrader(ignore_case), **kwargs)


class Includes(Graded):
    """Right if an ideal stands in the answer, not inside a longer word or number. Arguments: see `Graded`."""

    def __init__(
        self, completion_fns: Sequence[CompletionFn], samples_jsonl: str, ignore_case: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(completion_fns, samples_jsonl, *args, grader=IncludesGrader(ignore_case), **kwargs)


class FuzzyMatch(Graded):
    """Right if, normalised, the words of the answer and of an ideal stand within one another. Arguments: see `Graded`."""

    def __init__(self, completion_fns: Sequence[CompletionFn], samples_jsonl: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(completion_fns, samples_jsonl, *args, grader=FuzzyMatchGrader(), **kwargs)


class JsonMatch(Graded):
    """Right if the answer is JSON equal in value to an ideal, which is JSON text. Arguments: see `Graded`."""

    def __init__(self, completion_fns: Sequence[CompletionFn], samples_jsonl: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(completion_fns, samples_jsonl, *args, grader=JsonMatchGrader(), **kwargs)


class JsonValidator(Graded):
    """Right if the answer is valid JSON. Arguments: see `Graded`."""

    def __init__(self, completion_fns: Sequence[CompletionFn], samples_jsonl: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(completion_fns, samples_jsonl, *args, grader=JsonValid(), **kwargs)


def record_and_check_match(
    prompt: Any,
    sampled: str,
    expected: str | list[str] | tuple[str, ...],
    separator: Callable[[str], bool] | None = None,
    options: Sequence[str] | None = None,
) -> str | None:
    """
    Record whether an answer begins with what was expected, ended at a word boundary; of several options the longest is picked.

    Args:
        prompt: What was asked.
        sampled: The answer.
        expected: The right answer, or right answers.
        separator: Whether an option may end before this character; instead of the word boundary.
        options: All answers that may be picked; by default the right ones.

    Returns:
        The option that the answer begins with, or None.
    """
    right = [expected] if isinstance(expected, str) else list(expected)
    offered = right if options is None else list(options)
    as_given = {option.strip(): option for option in reversed(offered)}
    if separator is None:
        found = MatchGrader()(sampled, Sample(input=prompt, ideal=list(as_given))).picked
    else:
        text = sampled.strip()
        begun = [option for option in as_given if option and text.startswith(option)]
        found = max((option for option in begun if len(option) == len(text) or separator(text[len(option)])), key=len, default=None)
    picked = as_given.get(found)
    record_match(picked in right, expected=right, picked=picked, sampled=sampled, options=offered)
    return picked
