import pytest

from evalframe.analysis.gate import below_minimum, read_minimums
from evalframe.core.errors import BadSetting


def test_thresholds_are_read():
    assert read_minimums(["accuracy=0.8", "f1_score=1e-1"]) == {"accuracy": 0.8, "f1_score": 0.1}


@pytest.mark.parametrize("rule", ["accuracy", "accuracy=", "=0.5", "accuracy=high", "accuracy=nan"])
def test_what_is_no_threshold_is_told(rule):
    with pytest.raises(BadSetting, match="METRIC=NUMBER"):
        read_minimums([rule])


@pytest.mark.parametrize(("report", "told"), [
    ({"accuracy": 0.8}, None), ({"accuracy": 0.79}, "is 0.79"), ({"accuracy": None}, "no such number"), ({"f1_score": 1}, "it has: f1_score"),
    ({"accuracy": True}, "no such number"), ({}, "it has: none"),
])  # fmt: skip
def test_a_metric_below_its_threshold_is_told(report, told):
    failures = below_minimum(report, {"accuracy": 0.8})
    assert len(failures) == (told is not None)
    assert told is None or told in failures[0]
