"""
Nearly the same words: for answers that may be said a little longer or shorter than the ideal.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass

from evalframe.core.grade import Grade
from evalframe.core.sample import Sample
from evalframe.graders.boundaries import is_unspaced
from evalframe.graders.ideals import NO_IDEAL, texts

ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True)
class FuzzyMatch:
    """
    Correct if, case, punctuation and English articles aside, the words of the completion and those of an ideal answer stand as a run within
    one another, neither being empty.

    Points and commas inside numbers are kept: 3.5 is not 35. Scripts without spaces are compared character by character.

    Metrics:
        f1_score: Of the words that both have; the best over the ideals, in [0, 1].
    """

    def __call__(self, completion: str, sample: Sample) -> Grade:
        ideals = texts(sample)
        usable = [(ideal, words) for ideal in ideals if (words := words_of(ideal))]
        if not usable:
            return Grade.unscored(reason=NO_IDEAL)
        said = words_of(completion)
        metrics = {"f1_score": max(f1_score(said, words) for _, words in usable)}
        for ideal, words in usable:
            if said and (stands_within(said, words) or stands_within(words, said)):
                return Grade.correct(picked=ideal, metrics=metrics)
        return Grade.incorrect(metrics=metrics)


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
    """Whether a character is the point or comma between two digits, or the sign before one."""
    before, character, after = text[position - 1 : position], text[position], text[position + 1 : position + 2]
    if character in ".,":
        return before.isdigit() and after.isdigit()
    return character in "-\u2212" and after.isdigit() and not before.isalnum()


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
