import json

import pytest

from evalframe.core.errors import BadLog
from evalframe.core.recorder import record_match
from evalframe.core.scope import SampleScope
from evalframe.core.specs import RunSpec
from evalframe.logs.find import LONGEST_NAME, log_dir, log_name
from evalframe.logs.run_log import read_log
from evalframe.recorders.jsonl import JsonlRecorder


def attempt(recorder, sample_id, status, number=1, correct=True):
    scope = SampleScope(recorder, sample_id, attempt=number)
    recorder.begin(scope)
    with recorder.in_scope(scope):
        record_match(correct)
    if status:
        recorder.end(scope, {"status": status})


@pytest.fixture
def path(tmp_path):
    recorder = JsonlRecorder(RunSpec(["fn"], "a.dev.v0", "a", "dev"), tmp_path / "log.jsonl")
    attempt(recorder, "a.dev.0", "completed")
    attempt(recorder, "a.dev.1", "error", correct=False)
    attempt(recorder, "a.dev.1", "completed", number=2)
    attempt(recorder, "a.dev.2", "interrupted")
    attempt(recorder, "a.dev.3", None)
    recorder.record_final_report({"accuracy": 1.0}, status="success", samples={"total": 4})
    recorder.close()
    return tmp_path / "log.jsonl"


def test_only_the_last_ended_attempt_counts(path):
    log = read_log(path)
    assert [(event.sample_id, event.attempt) for event in log.events("match")] == [("a.dev.0", 1), ("a.dev.1", 2)]
    assert len(list(log.events("match", all_attempts=True))) == 5


def test_the_report_is_read_back(path):
    log = read_log(path)
    assert (log.final_report, log.status, log.samples) == ({"accuracy": 1.0}, "success", {"total": 4})
    assert log.spec["eval_name"] == "a.dev.v0"


def test_a_torn_last_line_is_left_out(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    log = read_log(path)
    assert log.status == "unfinished"
    assert log.torn_lines == 1
    assert len(list(log.events("match"))) == 2


def test_a_log_of_openai_evals_counts_whole(tmp_path):
    path = tmp_path / "old.jsonl"
    event = {
        "run_id": "r",
        "event_id": 0,
        "sample_id": "a.dev.0",
        "type": "match",
        "data": {"correct": True},
        "created_by": "",
        "created_at": "",
    }
    lines = [{"spec": {"eval_name": "a"}}, {"final_report": {"accuracy": 1.0}, "run_id": "r"}, event]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    log = read_log(path)
    assert log.status == "success"
    assert [event.data for event in log.events("match")] == [{"correct": True}]


@pytest.mark.parametrize("content", [b"", b"not json\n", b'{"a": 1}\n', b"[1]\n", b"\xff\xfe"])
def test_a_file_that_is_no_log_is_told(tmp_path, content):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadLog, match="not a log"):
        read_log(path)


def test_a_log_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BadLog, match="cannot read"):
        read_log(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    "name", ["ft:gpt-4o-mini:acme::9abc", "org/model:free", "a,b", "con", "x y\\z?*", "..", "", "模型", "m" * 300, "m<b>"]
)
def test_a_logs_name_is_safe_and_short(name):
    made = log_name("20261201-101010_abcdef", name, 'x"y/../z.dev.v0')
    assert made.startswith("20261201-101010_")
    assert made.endswith("_abcdef.jsonl")
    assert len(made) <= LONGEST_NAME
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-")


def test_long_names_keep_a_part_of_both():
    made = log_name("20261201-101010_abcdef", "m" * 300, "e" * 300)
    assert len(made) == LONGEST_NAME
    assert "mmmm" in made
    assert "eeee" in made


def test_userinfo_in_a_name_stays_out():
    assert "secret" not in log_name("20261201-101010_abcdef", "http://user:secret@host/v1", "e")


def test_the_folder_is_as_given_else_of_the_environment_else_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert log_dir("x", {"EVALFRAME_LOG_DIR": "y"}) == tmp_path / "x"
    assert log_dir(None, {"EVALFRAME_LOG_DIR": "y"}) == tmp_path / "y"
    assert log_dir(None, {}) == tmp_path / "evallogs"
