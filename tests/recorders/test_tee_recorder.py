import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from evalframe.core.errors import LogUnavailable
from evalframe.core.recorder import record_extra, record_match
from evalframe.core.scope import SampleScope
from evalframe.core.specs import RunSpec
from evalframe.recorders.jsonl import JsonlRecorder
from evalframe.recorders.memory import MemoryRecorder
from evalframe.recorders.tee import TeeRecorder


def spec():
    return RunSpec(["fn"], "a.dev.v0", "a", "dev")


class Failing(MemoryRecorder):
    """An observer that cannot."""

    def write(self, event):
        raise RuntimeError("no room")

    def close(self):
        raise OSError("gone")


class Full(MemoryRecorder):
    """A log that cannot be written."""

    def write(self, event):
        raise LogUnavailable("the disk is full.")


@pytest.fixture
def log(tmp_path):
    made = JsonlRecorder(spec(), tmp_path / "log.jsonl")
    yield made
    made.close()


def ask(recorder, sample_id, status="completed", number=1):
    scope = SampleScope(recorder, sample_id, attempt=number)
    recorder.begin(scope)
    with recorder.in_scope(scope):
        record_extra({"messages": [sample_id]})
        record_match(status == "completed")
    recorder.end(scope, {"status": status})


def logged(log):
    return [json.loads(line) for line in log.path.read_bytes().splitlines()][1:]


def test_every_recorder_gets_the_same_events(log):
    others = MemoryRecorder(spec()), MemoryRecorder(spec())
    for other in others:
        other.run_spec = log.run_spec
    tee = TeeRecorder(log, *others)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: ask(tee, f"a.dev.{number}"), range(100)))
    tee.record_final_report({"accuracy": 1.0}, status="success")
    lines = logged(log)
    events = sorted(lines[:-1], key=lambda line: line["event_id"])
    assert [event["event_id"] for event in events] == list(range(300))
    for other in others:
        assert sorted((event.to_line() for event in other.events), key=lambda line: line["event_id"]) == events  # `created_at`, too
        assert other.lines == lines[-1:]
        assert len(other.get_events("match")) == 100


def test_numbering_goes_on_where_the_first_has_got_to(log):
    log.record_extra(1, sample_id="a.dev.0")
    tee = TeeRecorder(log, other := MemoryRecorder(spec()))
    tee.record_extra(2, sample_id="a.dev.0")
    assert [event.event_id for event in log.get_events("extra")] == [0, 1]
    assert [event.event_id for event in other.events] == [1]


def test_a_finished_sample_is_on_disk(log):
    tee = TeeRecorder(log, MemoryRecorder(spec()))
    ask(tee, "a.dev.0")
    assert [line["type"] for line in logged(log)] == ["extra", "match", "sample"]


def test_events_are_read_back_from_the_first_and_only_those_that_count(log):
    tee = TeeRecorder(log, Failing(spec()))
    ask(tee, "a.dev.0", status="error")
    ask(tee, "a.dev.0", number=2)
    assert [(event.attempt, event.data["correct"]) for event in tee.get_events("match")] == [(2, True)]
    assert tee.get_events("match") == log.get_events("match")


def test_a_recorder_that_keeps_the_event_keeps_its_own(log):
    first, second = MemoryRecorder(spec()), MemoryRecorder(spec())
    tee = TeeRecorder(first, second)
    tee.record_extra({"a": [1]}, sample_id="a.dev.0")
    first.events[0].data["a"].append(2)
    assert second.events[0].data == {"a": [1]}


def test_an_observer_that_fails_does_not_stop_the_run(log):
    tee = TeeRecorder(log, Failing(spec()), other := MemoryRecorder(spec()))
    ask(tee, "a.dev.0")
    ask(tee, "a.dev.1")
    tee.flush()
    tee.close()
    assert len(other.events) == 6
    assert len(logged(log)) == 6
    assert tee.faults == ["Failing failed 7 times; at first: RuntimeError: no room"]


def test_without_faults_there_is_nothing_to_tell(log):
    tee = TeeRecorder(log, MemoryRecorder(spec()))
    ask(tee, "a.dev.0")
    assert tee.faults == []


def test_a_fault_of_the_first_is_raised_and_the_others_are_closed():
    closed = []
    other = MemoryRecorder(spec())
    other.close = lambda: closed.append(True)
    tee = TeeRecorder(Full(spec()), other)
    with pytest.raises(LogUnavailable, match="full"):
        ask(tee, "a.dev.0")
    tee.close()
    assert closed == [True]
    assert other.events == []
