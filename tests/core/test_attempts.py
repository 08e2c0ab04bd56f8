"""Which events count, as a table: a history of one sample, and what of it counts in the end."""

import itertools

import pytest

from evalframe.core.attempts import Attempts, has_verdict
from evalframe.core.event import Event


def event(kind, attempt, epoch=1, sample_id="a.dev.0"):
    return Event("run", 0, sample_id, kind, {}, "", "", epoch, attempt)


WRONG = {"status": "error", "scored_as_wrong": True}


def lived(*history, epoch=1, sample_id="a.dev.0", attempts=None):
    """
    Attempts that have ended so, one after the other: a status, or the data of the `sample` event; "open" is one that has not ended.
    """
    attempts = attempts or Attempts()
    for number, ending in enumerate(history, 1):
        if ending == "left out":
            attempts.leave_out(sample_id, epoch)
            continue
        attempts.begin(sample_id, epoch, number)
        if ending != "open":
            attempts.end(sample_id, epoch, number, {"status": ending} if isinstance(ending, str) else ending)
    return attempts


TABLE = [  # what became of attempts 1, 2, ...: in which of them a verdict counts, in which the end
    (["completed"], [1], [1]),
    (["limit"], [1], [1]),
    (["error"], [], [1]),
    (["interrupted"], [], [1]),
    ([WRONG], [1], [1]),
    (["open"], [], []),
    (["error", "completed"], [2], [2]),
    (["error", "limit"], [2], [2]),
    (["error", "error"], [], [2]),
    (["error", WRONG], [2], [2]),  # a failure that is scored as wrong has a verdict of its own
    (["error", "error", WRONG], [3], [3]),
    (["error", "open"], [], [1]),  # until the second ends, the first is what became of it
    (["completed", "open"], [1], [1]),
    (["completed", "completed"], [2], [2]),  # asked again, since its row has changed
    (["completed", "error"], [], [2]),
    (["completed", "interrupted"], [], [2]),
    (["completed", "error", "completed"], [3], [3]),
    (["interrupted", "completed"], [2], [2]),
    (["interrupted", "error", "error", "completed"], [4], [4]),
    ([WRONG, "completed"], [2], [2]),
    (["completed", "left out"], [], []),
    (["error", "left out"], [], []),
    (["completed", "left out", "completed"], [3], [3]),
    (["limit", "left out", "error"], [], [3]),
    (["limit", "left out", "open"], [], []),
]  # fmt: skip


@pytest.mark.parametrize(("history", "verdicts", "ends"), TABLE, ids=str)
def test_only_the_last_ended_attempt_counts_and_only_if_it_came_to_something(history, verdicts, ends):
    attempts = lived(*history)
    tries = range(1, len(history) + 1)
    for kind in ("match", "sampling", "metrics", "unscored", "raw_sample", "extra"):
        assert [number for number in tries if attempts.count(event(kind, number))] == verdicts
    for kind in ("sample", "error"):  # these tell what became of it
        assert [number for number in tries if attempts.count(event(kind, number))] == ends
    assert attempts.all_count is (history in (["completed"], ["limit"], [WRONG]))


@pytest.mark.parametrize(("history", "verdicts", "ends"), TABLE, ids=str)
def test_what_becomes_of_one_sample_or_epoch_is_nothing_to_another(history, verdicts, ends):
    attempts = lived("completed", sample_id="a.dev.1")
    lived("completed", epoch=2, attempts=attempts)
    lived(*history, attempts=attempts)
    lived("error", "completed", epoch=3, attempts=attempts)
    assert attempts.count(event("match", 1, sample_id="a.dev.1"))
    assert attempts.count(event("match", 1, epoch=2))
    assert [attempts.count(event("match", number, epoch=3)) for number in (1, 2, 3)] == [False, True, False]
    assert attempts.count(event("match", 1, sample_id="a.dev.999"))  # of which nothing is known, as in an old log
    assert [number for number in range(1, 6) if attempts.count(event("match", number))] == verdicts


def test_what_belongs_to_no_sample_counts():
    attempts = lived("error")
    assert attempts.count(event("extra", 1, sample_id=None))


@pytest.mark.parametrize(("data", "counts"), [
    ({"status": "completed"}, True), ({"status": "limit"}, True), ({"status": "error"}, False), ({"status": "interrupted"}, False),
    ({"status": "error", "scored_as_wrong": True}, True), ({"status": "error", "scored_as_wrong": False}, False),
    ({}, True), ({"status": None}, True), ({"status": "something new"}, True),
])  # fmt: skip
def test_an_end_says_whether_it_has_a_verdict(data, counts):
    assert has_verdict(data) is counts


def test_an_attempt_that_is_open_hides_its_own_events_only():
    attempts = lived("completed", "open")
    assert [attempts.count(event("match", number)) for number in (1, 2)] == [True, False]
    attempts.end("a.dev.0", 1, 2, {"status": "completed"})
    assert [attempts.count(event("match", number)) for number in (1, 2)] == [False, True]


def test_a_million_ordinary_samples_are_not_remembered():
    attempts = Attempts()
    for number in range(1000):
        attempts.begin(f"a.dev.{number}", 1, 1)
        attempts.end(f"a.dev.{number}", 1, 1, {"status": "completed"})
    assert attempts.all_count
    assert (len(attempts._open), len(attempts._odd)) == (0, 0)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_samples_that_end_in_whatever_order_count_alike(order):
    """Three epochs under way at once: one fails and is tried again, one fails for good, one is well."""
    steps = [[("error", 1), ("completed", 2)], [("error", 1), ("error", 2)], [("completed", 1)]]
    attempts = Attempts()
    for epoch in order:
        attempts.begin("a.dev.0", epoch + 1, 1)
    for epoch in reversed(order):
        for status, number in steps[epoch]:
            attempts.begin("a.dev.0", epoch + 1, number)
            attempts.end("a.dev.0", epoch + 1, number, {"status": status})
    counted = {(epoch, number) for epoch in (1, 2, 3) for number in (1, 2) if attempts.count(event("match", number, epoch))}
    assert counted == {(1, 2), (3, 1)}
    told = {(epoch, number) for epoch in (1, 2, 3) for number in (1, 2) if attempts.count(event("sample", number, epoch))}
    assert told == {(1, 2), (2, 2), (3, 1)}
