import pytest

from evalframe.core.sample import Sample
from evalframe.graders.json_match import JsonMatch
from evalframe.graders.json_valid import JsonValid


@pytest.mark.parametrize(("completion", "ideal", "correct"), [
    ('{"a": 1, "b": [1, 2]}', '{"b": [1, 2], "a": 1.0}', True), ("[1, 2]", "[2, 1]", False), ("true", "1", False), ("1", "true", False),
    ("null", "null", True), ('{"a": null}', "{}", False), ("nonsense", "1", False), ("", "1", False), ("[1]", ["[2]", "[1]"], True),
    ('{"a": 1}', [{"a": 1}], True), ('"x"', '"x"', True), ("NaN", "NaN", None), (" 1 ", "1", True), ('{"a": {"b": true}}', '{"a": {"b": 1}}', False),
    ("{}", "[]", False), ("0", "false", False), ("10000000000000001", "10000000000000000", False), ("x", [], None), ("[" * 100_000, "1", False),
])  # fmt: skip
def test_json_is_compared_by_value(completion, ideal, correct):
    sample = Sample(input="", ideal=ideal)
    if JsonMatch().check(sample):
        assert correct is None
        return
    grade = JsonMatch()(completion, sample)
    assert (None if grade.score is None else grade.is_correct) is correct


def test_an_ideal_that_is_no_json_is_a_fault_of_the_row():
    assert "no JSON" in JsonMatch().check(Sample(input="", ideal=['{"a": 1}', "{broken"]))
    assert JsonMatch().check(Sample(input="", ideal='{"a": 1}')) is None


@pytest.mark.parametrize(("completion", "correct"), [
    ('{"a": 1}', True), ("[]", True), ('"x"', True), ("3", True), ("null", True), ("", False), ("{a: 1}", False), ("NaN", False), ("[Infinity]", False),
    ("{} and more", False), ("'x'", False), ("[1,]", False),
])  # fmt: skip
def test_only_strict_json_is_valid(completion, correct):
    assert JsonValid()(completion, Sample(input="")).is_correct is correct
