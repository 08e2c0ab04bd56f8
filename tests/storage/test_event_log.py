import json

import pytest

from evalframe.core.recorder import record_match, record_sampling
from evalframe.core.scope import SampleScope
from evalframe.core.specs import RunSpec
from evalframe.recorders.jsonl import JsonlRecorder
from evalframe.storage.event_log import Ends, event_at, resumes_of, scan

SHA = "0123456789abcdef" * 4


def attempt(recorder, number, status="completed", attempt=1, epoch=1, **data):
    scope = SampleScope(recorder, f"a.dev.{number}", epoch, attempt)
    recorder.begin(scope)
    with recorder.in_scope(scope):
        record_sampling("q", 'it ends "created_at":"x","epoch":9,"attempt":9}', model="m", usage={"input_tokens": 1, "output_tokens": 2})
        record_match(True)
    if status:
        usage = {model: spent.to_dict() for model, spent in scope.usage.items()}
        recorder.end(scope, {"status": status, "input_sha256": SHA, "seconds": 1, "waiting_seconds": 0.5, "usage": usage, **data})


@pytest.fixture
def recorder(tmp_path):
    recorder = JsonlRecorder(RunSpec(["fn"], "a.dev.v0", "a", "dev"), tmp_path / "log.jsonl")
    yield recorder
    recorder.close()


def matches(log, path):
    return [
        (event.sample_id, event.epoch, event.attempt)
        for event in (event_at(path, at) for at in log.offsets["match"])
        if log.attempts.count(event)
    ]


def test_a_pass_tells_how_each_sample_ended_and_what_was_spent(recorder):
    attempt(recorder, 0)
    attempt(recorder, 1, "error")
    attempt(recorder, 1, attempt=2)
    attempt(recorder, 0, epoch=2, unscored=True)
    attempt(recorder, 2, None)
    recorder.flush()
    log = scan(recorder.path)
    ends = {key: log.ends.get(recorder.path, *key) for key in log.ends.keys()}  # noqa: SIM118
    assert {key: (end.attempt, end.status, end.is_unscored) for key, end in ends.items()} == {
        ("a.dev.0", 1): (1, "completed", False),
        ("a.dev.1", 1): (2, "completed", False),
        ("a.dev.0", 2): (1, "completed", True),
    }
    assert ends["a.dev.0", 1].input_sha256 == SHA[:16]
    assert ends["a.dev.0", 2].data()["unscored"] is True
    assert matches(log, recorder.path) == [("a.dev.0", 1, 1), ("a.dev.1", 1, 2), ("a.dev.0", 2, 1)]
    assert (log.earlier.ended, log.earlier.seconds, log.earlier.waiting_s) == (3, 4, 2)
    assert (log.earlier.usage["m"].input_tokens, log.earlier.usage["m"].output_tokens) == (4, 8)
    assert log.next_event_id == 14


def test_events_of_no_sample_count_though_nothing_ends_them(recorder):
    recorder.record_event("note", "x", sample_id="of my own")
    attempt(recorder, 0)
    recorder.flush()
    log = scan(recorder.path)
    assert log.attempts.count(event_at(recorder.path, log.offsets["note"][0]))


@pytest.mark.parametrize(
    ("tail", "torn", "is_cut"),
    [
        (b"", 0, False),
        (b'{"run_id": "x", "event_id"', 1, True),
        (b"\x00\x00\x00\x00", 1, True),
        (b'{"final_report": {}}', 0, False),  # whole, but for its newline
        (b"garbage\n", 1, False),
        (b"[1]\n", 1, False),
    ],
)
def test_a_torn_tail_is_known_by_where_the_last_whole_line_ends(recorder, tail, torn, is_cut):
    attempt(recorder, 0)
    recorder.close()
    whole = recorder.path.stat().st_size
    with recorder.path.open("ab") as file:
        file.write(tail)
    log = scan(recorder.path)
    assert log.torn == torn
    assert log.whole_bytes == (whole if is_cut else whole + len(tail))


def test_a_report_before_the_run_was_taken_up_again_is_not_its_report(recorder):
    recorder.record_final_report({"accuracy": 1.0})
    recorder.write_line({"resume": {"changed": {"threads": 3}, "left_out": [["a.dev.0", 1]]}})
    assert scan(recorder.path).final is None
    assert resumes_of(recorder.path)[0]["changed"] == {"threads": 3}


def test_what_is_left_out_counts_no_more_until_it_is_asked_again(recorder):
    attempt(recorder, 0)
    attempt(recorder, 1)
    recorder.write_line({"resume": {"left_out": [["a.dev.0", 1], ["a.dev.1", 1]]}})
    attempt(recorder, 1, attempt=2)
    log = scan(recorder.path)
    assert matches(log, recorder.path) == [("a.dev.1", 1, 2)]
    assert log.ends.get(recorder.path, "a.dev.0", 1).status == "left out"
    assert log.ends.get(recorder.path, "a.dev.1", 1).attempt == 2


def test_lines_that_others_wrote_are_parsed(tmp_path):
    lines = [
        {"spec": {"base_eval": "a", "split": "dev"}},
        {"type": "match", "data": {"correct": True}, "sample_id": "a.dev.0", "event_id": 7, "run_id": "r", "created_at": "x"},
        {"run_id": "r", "event_id": 8, "sample_id": "a.dev.0", "type": "match", "data": {}, "created_by": "", "created_at": 'q"uote'},
    ]
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    log = scan(path)
    assert len(log.offsets["match"]) == 2
    assert log.next_event_id == 9
    assert matches(log, path) == [("a.dev.0", 1, 1)] * 2


@pytest.mark.parametrize("sample_id", ["a.dev.0", "a.dev.99999999999", "b.dev.3", "no number", "a.dev.007", ""])
def test_odd_ids_are_kept_like_all_others(tmp_path, sample_id):
    ends = Ends()
    ends.add("a.dev.1", 1, 1, 50, {"status": "completed", "input_sha256": SHA})
    ends.add(sample_id, 3, 2, 99, {"status": "limit", "input_sha256": SHA})
    end = ends.get(tmp_path, sample_id, 3)
    assert (end.attempt, end.status, end.input_sha256) == (2, "limit", SHA[:16])
    assert ends.get(tmp_path, sample_id, 2) is None
    assert set(ends.keys()) == {("a.dev.1", 1), (sample_id, 3)}


def test_an_attempt_that_nothing_ended_keeps_its_number(recorder):
    attempt(recorder, 0, None)
    attempt(recorder, 1, "error", answers=["kept"])
    attempt(recorder, 1, None, attempt=2)
    recorder.flush()
    log = scan(recorder.path)
    first, second = (log.ends.get(recorder.path, f"a.dev.{number}", 1) for number in (0, 1))
    assert (first.attempt, first.status) == (1, "interrupted")
    assert (second.attempt, second.status, second.data()["answers"]) == (2, "error", ["kept"])
    assert set(log.ends.keys()) == {("a.dev.1", 1)}
    assert matches(log, recorder.path) == []
