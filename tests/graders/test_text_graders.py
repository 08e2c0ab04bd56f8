import pytest

from evalframe.core.sample import Sample
from evalframe.graders.boundaries import found_whole, is_boundary
from evalframe.graders.fuzzy import FuzzyMatch, f1_score, words_of
from evalframe.graders.includes import Includes
from evalframe.graders.match import Match


def judge(grader, completion, ideal):
    grade = grader(completion, Sample(input="", ideal=ideal))
    return None if grade.score is None else grade.is_correct


@pytest.mark.parametrize(("completion", "ideal", "correct"), [
    ("Paris", "Paris", True), ("Paris.", "Paris", True), ("Paris is it", "Paris", True), (" \n Paris", "Paris", True),
    ("It is Paris", "Paris", False),  # it does not begin with it
    ("Parisian", "Paris", False), ("42", "4", False), ("4.", "4", True), ("3.14", "3", False), ("3,000", "3", False), ("3, then 4", "3", True),
    ("B) because", "B", True), ("Because", "B", False), ("東京です", "東京", True), ("東京。", "東京", True), ("paris", "Paris", False),
    ("", "Paris", False), ("   ", "Paris", False), ("-5", "-5", True), ("yes", ["no", "yes"], True), ("5", 5, True), ("50", 5, False),
    ("Annabel, Kim", "Annabel", True),  # the rule is about the beginning; what follows does not count
    ("été", "été", True), ("e\u0301te", "e", False),  # a combining accent belongs to its letter
    ("x", "", None), ("x", ["", "  "], None), ("x", ["", "x"], True), ("x", [], None),
])  # fmt: skip
def test_match_is_a_whole_word_at_the_beginning(completion, ideal, correct):
    assert judge(Match(), completion, ideal) is correct


def test_the_longest_ideal_that_matches_is_picked():
    assert Match()("a b c", Sample(input="", ideal=["a", "a b", "a b c d"])).picked == "a b"


@pytest.mark.parametrize("grader", [Match(ignore_case=True), Includes(ignore_case=True)])
def test_case_is_ignored_when_asked(grader):
    assert judge(grader, "PARIS!", "Paris") is True
    assert judge(grader, "STRASSE 5", "Straße") is True  # folding changes the length
    assert judge(grader, "STRASSEN", "Straße") is False


@pytest.mark.parametrize(("completion", "ideal", "correct"), [
    ("It is Paris.", "Paris", True), ("I know", "no", False), ("the answer is 42", "4", False), ("3.14", "14", False), ("3.14", "3", False),
    ("costs 4.", "4", True), ("x = -5", "5", False), ("x = -5", "-5", True), ("7-5", "5", True), ("A-4", "4", True), ("1,000", "1", False),
    ("首都は東京です", "東京", True), ("", "x", False), ("no, no know", "no", True), ("snow no", "no", True), ("x", "", None),
    (".5", "5", False), ("$.50", "50", False), ("-.5", ".5", False), ("x = -.5", "-.5", True), (".5", ".5", True), ("0.5", ".5", False),
    ("so it is.5", "5", True), ("...5", "5", True),  # these points end a sentence
    ("v2.5", "2.5", False), ("(5)", "5", True), ("5%", "5", True), ("naïve", "na", False),
])  # fmt: skip
def test_includes_is_a_whole_word_anywhere(completion, ideal, correct):
    assert judge(Includes(), completion, ideal) is correct


@pytest.mark.parametrize(("completion", "ideal", "correct"), [
    ("The Danube!", "danube", True), ("the river Danube", "Danube", True), ("Danube", "the river Danube", True), ("I know", "no", False),
    ("3.5", "35", False), ("35", "3.5", False), ("3.5", "3.5", True), ("1,000", "1000", False), ("...", "x", False), ("the", "x", False),
    ("", "x", False), ("don't", "dont", True), ("Straße", "STRASSE", True), ("ＡＢＣ", "abc", True), ("東京。", "東京", True), ("x", "...", None),
    ("x", "", None), ("new york city", "york new", False), ("one", ["two", "one"], True), ("-5", "5", False), ("十", "二十", True),
    ("नमस्ते दुनिया", "नमस्ते", True), (".5", "5", False), ("5", ".5", False), ("-.5", ".5", False), (".5.", ".5", True),
    ("11.2", "14.7", False), ("1", "13.1", False), ("The area of a WT8X44.5 beam is 11", "11.3", False),  # numbers go by whole words
    ("", "Paris", False), ("   ", "Paris", False), (".", "Paris", False), ("the", "Paris", False),  # silence is no answer
])  # fmt: skip
def test_fuzzy_match_compares_whole_words(completion, ideal, correct):
    assert judge(FuzzyMatch(), completion, ideal) is correct


def test_the_f1_score_is_the_best_over_the_ideals():
    grade = FuzzyMatch()("the cat sat", Sample(input="", ideal=["cat sat down", "dog"]))
    assert grade.metrics == {"f1_score": pytest.approx(2 * (2 / 2) * (2 / 3) / (1 + 2 / 3))}
    assert FuzzyMatch()("", Sample(input="", ideal="x")).metrics == {"f1_score": 0.0}
    assert f1_score(["a", "a"], ["a"]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(("completion", "rule"), [
    ("The Danube!", "same words"), ("the river Danube", "ideal within completion"), ("Rhine", None),
])  # fmt: skip
def test_a_fuzzy_verdict_says_which_rule_held(completion, rule):
    assert FuzzyMatch()(completion, Sample(input="", ideal="Danube")).details.get("rule") == rule
    assert FuzzyMatch()("Danube", Sample(input="", ideal="the river Danube")).details["rule"] == "completion within ideal"


def test_why_there_is_no_verdict_is_told():
    assert "empty" in FuzzyMatch()("x", Sample(input="", ideal="")).reason
    assert "articles" in FuzzyMatch()("A", Sample(input="", ideal="A")).reason


def test_words_keep_their_numbers():
    assert words_of("The price: 3.50, or -1,000 (a bargain)") == ["price", "3.50", "or", "-1,000", "bargain"]


@pytest.mark.parametrize(
    ("text", "position", "boundary"), [("ab", 0, True), ("ab", 2, True), ("ab", 1, False), ("a b", 1, True), ("3.1", 1, False)]
)
def test_a_boundary_lies_between_words(text, position, boundary):
    assert is_boundary(text, position) is boundary


def test_what_is_not_there_is_not_found():
    assert found_whole("x", "") == -1
    assert found_whole("no", "know no") == 5


@pytest.mark.parametrize("grader", [Match(), Includes(), FuzzyMatch()])
def test_a_grader_keeps_nothing_between_samples(grader):
    first = grader("a", Sample(input="", ideal="a"))
    grader("b", Sample(input="", ideal="a"))
    assert grader("a", Sample(input="", ideal="a")) == first
