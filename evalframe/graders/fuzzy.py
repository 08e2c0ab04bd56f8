"""
Nearly the same words: for answers that may be said a little longer or shorter than the ideal.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass

from evalframe.core.grade import Grade
from evalframe.core.sample import Sample
from evalframe.graders.boundaries import is_unspaced, opens_number
from evalframe.graders.ideals import NO_IDEAL, texts

ARTICLES = frozenset({"a", "an", "the"})
NO_WORDS = "no ideal answer has a word left once punctuation and articles are taken out"


@dataclass(frozen=True)
class FuzzyMatch:
    """
    Correct if, case, punctuation and English articles aside, the words of the completion and those of an ideal answer stand as a run within
    one another, neither being empty.

    Points and commas inside numbers are kept: 3.5 is not 35. Scripts without spaces are compared character by character. The log keeps
    which of the two stood within the other, as `rule`.

    Metrics:
        f1_score: Of the words that both have; the best over the ideals, in [0, 1].
    """

    def __call__(self, completion: str, sample: Sample) -> Grade:
        ideals = texts(sample)
        usable = [(ideal, words) for ideal in ideals if (words := words_of(ideal))]
        if not usable:
            return Grade.unscored(reason=NO_WORDS if ideals else NO_IDEAL)
        said = words_of(completion)
        metrics = {"f1_score": max(f1_score(said, words) for _, words in usable)}
        for ideal, words in usable:
            if rule := rule_that_holds(said, words):
                return Grade.correct(picked=ideal, metrics=metrics, rule=rule)
        return Grade.incorrect(metrics=metrics)


def rule_that_holds(said: list[str], wanted: list[str]) -> str | None:
    """How the words of an answer and of an ideal stand within one another, as the log says it; None if they do not, or one is empty."""
    if not said or not wanted:
        return None
    if said == wanted:
        return "same words"
    if stands_within(wanted, said):
        return "ideal within completion"
    return "completion within ideal" if stands_within(said, wanted) else None


def words_of(text: str) -> list[str]:
    """The words of a text, normalised."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    spaced = []
    for position, character in enumerate(folded):
        if is_unspaced(character):
            spaced.append(f" {character} ")
        elif character.isalnum() or unicodedata.category(character) in ("Mn", "Mc") or is_inside_number(folded, position):
            spaced.append(character)
        elif character in "'\u2019":
            continue  # don't and dont are one word
        else:
            spaced.append(" ")
    return [word for word in "".join(spaced).split() if word not in ARTICLES]


def is_inside_number(text: str, position: int) -> bool:
    """Whether a character is the point or comma between two digits, the point of a number such as .5, or the sign before a number."""
    before, character, after = text[position - 1 : position], text[position], text[position + 1 : position + 2]
    if character in ".,":
        return (before.isdigit() and after.isdigit()) or opens_number(text, position)
    return character in "-\u2212" and not before.isalnum() and (after.isdigit() or (after == "." and opens_number(text, position + 1)))


def stands_within(inner: list[str], outer: list[str]) -> bool:
    """Whether the words of `inner` stand side by side, in order, in `outer`."""
    return any(outer[start : start + len(inner)] == inner for start in range(len(outer) - len(inner) + 1))


def f1_score(said: list[str], wanted: list[str]) -> float:
    """
    The harmonic mean of precision and recall over words, each counted as often as it stands.

    Source: Rajpurkar et al., SQuAD: 100,000+ Questions for Machine Comprehension of Text (2016), section 6.1.
    """
    common = sum((Counter(said) & Counter(wanted)).values())
    if not common:
        return 0.0
    precision, recall = common / len(said), common / len(wanted)
    return 2 * precision * recall / (precision + recall)
