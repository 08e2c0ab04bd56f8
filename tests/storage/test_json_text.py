import dataclasses
import datetime
import enum
import json

import pytest

from evalframe.storage import json_text


@dataclasses.dataclass
class Point:
    x: int
    y: float


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(("value", "text"), [
    ({"a": [1, 2.5, None, True, "é🤷"]}, '{"a":[1,2.5,null,true,"é🤷"]}'),
    (float("nan"), "null"), ([float("inf"), -float("inf")], "[null,null]"),
    ("\ud800", '"\\ud800"'), ({1: 2, None: 3}, None), ((1, 2), "[1,2]"), ({3, 1}, "[1,3]"),
    (10**30, str(10**30)), (Point(1, float("nan")), '{"x":1,"y":null}'), (b"abc", '"abc"'),
    (datetime.date(2026, 12, 1), '"2026-12-01"'), (Colour.RED, "1"), ("\x00\x1f\u2028", '"\\u0000\\u001f\u2028"'),
], ids=repr)  # fmt: skip
def test_any_value_is_one_line_of_strict_json(value, text):
    line = json_text.dumps(value)
    assert b"\n" not in line
    json.loads(line, parse_constant=lambda constant: pytest.fail(constant))
    assert text is None or line.decode("utf-8") == text


@pytest.mark.parametrize(("text", "value"), [
    ("[1, 2]", [1, 2]), (b'{"a": "\xc3\xa9"}', {"a": "é"}), ("12345678901234567890123", 12345678901234567890123), ("1e400", float("inf")),
    ('"\\ud800"', "\ud800"), ("0.1234567890123456789", 0.1234567890123456789), ("[Infinity]", [float("inf")]), ('{"a": 1, "a": 2}', {"a": 2}),
])  # fmt: skip
def test_whatever_the_standard_library_reads_is_read_alike(text, value):
    assert json_text.loads(text) == value
    assert type(json_text.loads(text)) is type(value)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nope", b"\xff"])
def test_what_is_no_json_is_told_with_its_place(text):
    with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)):
        json_text.loads(text)


def test_numpy_values_are_spelt_as_numbers():
    import numpy

    assert json_text.dumps({"a": numpy.int64(3), "b": numpy.arange(2), "c": numpy.float32(0.5)}) == b'{"a":3,"b":[0,1],"c":0.5}'
