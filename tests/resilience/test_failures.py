import pytest

from evalframe.resilience.failures import FailurePolicy


@pytest.mark.parametrize(("rule", "errors", "total", "failed"), [
    (True, 0, 10, False),
    (True, 1, 10, True),
    (False, 10, 10, False),
    (0.1, 1, 10, False),  # a tenth is not more than a tenth
    (0.1, 2, 10, True),
    (3, 3, 10, False),
    (3, 4, 10, True),
    (0, 0, 10, False),  # none may fail, and none did
    (0, 1, 10, True),
    (1, 1, 10, False),  # a count of one, not a share of all
    (1, 2, 10, True),
    (1.0, 2, 10, True),
])  # fmt: skip
def test_more_than_means_more_than(rule, errors, total, failed):
    assert FailurePolicy(rule).has_failed(errors, total) is failed


def test_a_run_stops_early_only_when_it_was_asked_to():
    assert not FailurePolicy(True).must_stop(1, 10)
    assert FailurePolicy(True, continue_on_fail=False).must_stop(1, 10)
    assert not FailurePolicy(2, continue_on_fail=False).must_stop(2, 10)
