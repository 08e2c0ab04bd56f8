import json
import os
import threading

import pytest

from evalframe.core.errors import LogUnavailable
from evalframe.core.recorder import record_extra, record_match, record_sampling
from evalframe.core.scope import SampleScope, current_scope
from evalframe.core.secrets import Secrets
from evalframe.core.specs import RunSpec
from evalframe.recorders.jsonl import JsonlRecorder
from evalframe.recorders.memory import MemoryRecorder


def spec():
    return RunSpec(["fn"], "a.dev.v0", "a", "dev")


@pytest.fixture
def recorder(tmp_path):
    made = JsonlRecorder(spec(), tmp_path / "log.jsonl")
    yield made
    made.close()


@pytest.fixture(params=["jsonl", "memory"])
def any_recorder(request, tmp_path):
    made = JsonlRecorder(spec(), tmp_path / "log.jsonl") if request.param == "jsonl" else MemoryRecorder(spec())
    yield made
    made.close()


def lines(recorder):
    return [json.loads(line) for line in recorder.path.read_bytes().splitlines()]


def attempt(recorder, sample_id, status="completed", number=1, **data):
    scope = SampleScope(recorder, sample_id, attempt=number)
    recorder.begin(scope)
    with recorder.in_scope(scope):
        record_match(**data)
    recorder.end(scope, {"status": status})


def test_the_first_line_is_the_spec(recorder):
    assert lines(recorder)[0]["spec"]["eval_name"] == "a.dev.v0"


def test_a_finished_sample_is_on_disk_before_anyone_counts_it(recorder):
    attempt(recorder, "a.dev.0", correct=True, expected="x", picked="x")
    assert [line.get("type") for line in lines(recorder)[1:]] == ["match", "sample"]


def test_an_event_has_the_keys_of_the_mould(recorder):
    attempt(recorder, "a.dev.0", correct=True)
    assert set(lines(recorder)[1]) == {"run_id", "event_id", "sample_id", "type", "data", "created_by", "created_at"}


def test_the_second_attempt_says_so(recorder):
    attempt(recorder, "a.dev.0", status="error", correct=False)
    attempt(recorder, "a.dev.0", number=2, correct=True)
    assert [line.get("attempt") for line in lines(recorder)[1:]] == [None, None, 2, 2]


def test_what_is_recorded_is_what_was_there_at_that_moment(any_recorder):
    messages = [{"role": "user", "content": "hi"}]
    with any_recorder.as_default_recorder("a.dev.0"):
        record_sampling(messages, ["hello"])
        messages.append({"role": "assistant", "content": "hello"})
        record_sampling(messages, ["again"])
    assert [len(event.data["prompt"]) for event in any_recorder.get_events("sampling")] == [1, 2]


def test_only_the_last_ended_attempt_counts(any_recorder):
    attempt(any_recorder, "a.dev.0", status="error", correct=False)
    attempt(any_recorder, "a.dev.0", number=2, correct=True)
    attempt(any_recorder, "a.dev.1", status="interrupted", correct=True)
    attempt(any_recorder, "a.dev.2", status="limit", correct=False)
    in_flight = SampleScope(any_recorder, "a.dev.3")
    any_recorder.begin(in_flight)
    with any_recorder.in_scope(in_flight):
        record_match(True)
    counted = [(event.sample_id, event.data["correct"]) for event in any_recorder.get_events("match")]
    assert counted == [("a.dev.0", True), ("a.dev.2", False)]


@pytest.mark.parametrize("value", [
    float("nan"), float("inf"), "\ud800", "\u2028 \x00 \x1b[31m", {1, 2}, b"\xff", object(), {1: 2}, 10**30, [[]] * 3, "🤷",
    {"nested": {"deep": [float("-inf"), "\udfff"]}},
], ids=repr)  # fmt: skip
def test_no_value_stops_the_recorder_and_every_line_is_strict_json(recorder, value):
    with recorder.as_default_recorder("a.dev.0"):
        record_extra(value)
    recorder.flush()
    for line in recorder.path.read_bytes().decode("utf-8").split("\n")[:-1]:
        json.loads(line, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))


def test_a_list_that_holds_itself_does_not_stop_the_recorder(recorder):
    value = []
    value.append(value)
    with recorder.as_default_recorder("a.dev.0"):
        record_extra(value)
    assert len(recorder.get_events("extra")) == 1


def test_the_scope_outside_is_restored_whatever_happens_inside(any_recorder):
    with any_recorder.as_default_recorder("outer"):
        with pytest.raises(ZeroDivisionError), any_recorder.as_default_recorder("inner"):
            raise ZeroDivisionError
        record_match(True)
    assert current_scope() is None
    assert [event.sample_id for event in any_recorder.get_events("match")] == ["outer"]


def test_events_of_threads_keep_their_own_samples(recorder):
    def work(number):
        with recorder.as_default_recorder(f"a.dev.{number}"):
            for _ in range(20):
                record_extra(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = recorder.get_events("extra")
    assert len(events) == 400
    assert all(event.sample_id == f"a.dev.{event.data}" for event in events)
    assert len({event.event_id for event in events}) == 400


def test_pausing_drops_events_of_the_sample_in_scope(any_recorder):
    with any_recorder.as_default_recorder("a.dev.0"):
        any_recorder.pause()
        record_match(True)
        any_recorder.unpause()
        record_match(False)
    assert [event.data["correct"] for event in any_recorder.get_events("match")] == [False]


def test_an_event_without_a_sample_is_refused(any_recorder):
    with pytest.raises(ValueError, match="needs a sample"):
        any_recorder.record_event("extra", 1)
    any_recorder.record_event("extra", 1, sample_id="by hand")
    assert len(any_recorder.get_events("extra")) == 1


def test_a_verdict_is_a_real_bool(any_recorder):
    with pytest.raises(TypeError, match="bool"):
        any_recorder.record_match(1, sample_id="x")


def test_a_list_of_one_expected_answer_is_unwrapped(any_recorder):
    any_recorder.record_match(True, expected=["x"], sample_id="s")
    any_recorder.record_match(True, expected=["x", "y"], sample_id="s")
    assert [event.data["expected"] for event in any_recorder.get_events("match")] == ["x", ["x", "y"]]


def test_secrets_are_masked_wherever_they_occur(tmp_path):
    recorder = JsonlRecorder(spec(), tmp_path / "log.jsonl", secrets=Secrets(['sk-"quoted"-1234', "sk-plain-1234"]))
    recorder.record_event("extra", ['the key is sk-"quoted"-1234', {"sk-plain-1234": 1}], sample_id="s")
    recorder.close()
    assert b"1234" not in recorder.path.read_bytes()
    assert lines(recorder)[1]["data"] == ["the key is ***", {"***": 1}]


def test_a_log_is_never_overwritten(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("precious\n", encoding="utf-8")
    with pytest.raises(LogUnavailable, match="exists already"):
        JsonlRecorder(spec(), path)
    assert path.read_text(encoding="utf-8") == "precious\n"


def test_two_recorders_cannot_share_an_empty_file(tmp_path):
    path = tmp_path / "log.jsonl"
    path.touch()
    first = JsonlRecorder(spec(), path)
    with pytest.raises(LogUnavailable):
        JsonlRecorder(spec(), path)
    first.close()


@pytest.mark.parametrize("path", ["/proc/nope/log.jsonl", "/dev/null", "."])
def test_a_place_that_cannot_hold_a_log_is_told(path):
    with pytest.raises(LogUnavailable, match=r"log"):
        JsonlRecorder(spec(), path)


def test_the_folder_of_a_log_is_made(tmp_path):
    JsonlRecorder(spec(), tmp_path / "sub" / "dir" / "res.jsonl").close()
    assert (tmp_path / "sub" / "dir" / "res.jsonl").is_file()


def test_big_events_are_read_back_from_disk_and_not_kept(recorder):
    with recorder.as_default_recorder("a.dev.0"):
        for number in range(50):
            record_extra([number, "x" * 100_000])
    events = recorder.get_events("extra")
    assert [event.data[0] for event in events] == list(range(50))
    assert events[-1].data[0] == 49
    assert [event.data[0] for event in events[10:12]] == [10, 11]
    with pytest.raises(IndexError):
        events[50]
    assert sum(len(line) for line in recorder._pending) < 200_000


def test_a_full_disk_stops_the_run_and_leaves_whole_lines(tmp_path, monkeypatch):
    recorder = JsonlRecorder(spec(), tmp_path / "log.jsonl")
    real, room = os.write, [5000]

    def write(descriptor, data):  # a device with 5,000 bytes left, as the kernel answers for one
        if room[0] == 0:
            raise OSError(28, "No space left on device")
        sent = real(descriptor, data[: room[0]])
        room[0] -= sent
        return sent

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(LogUnavailable, match="No space left"):  # noqa: PT012 - some sample finds the disk full; which one does not matter
        for number in range(100):
            attempt(recorder, f"a.dev.{number}", correct=True, picked="x" * 200)
    with pytest.raises(LogUnavailable):
        attempt(recorder, "a.dev.100", correct=True)
    recorder.close()
    whole = lines(recorder)
    assert recorder.path.read_bytes().endswith(b"\n")
    assert len(whole) > 3
