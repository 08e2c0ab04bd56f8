import io

import pytest

from evalframe.core.scope import SampleScope
from evalframe.core.secrets import Secrets
from evalframe.core.specs import RunSpec
from evalframe.recorders.console import LONGEST, ConsoleRecorder
from evalframe.recorders.memory import MemoryRecorder
from evalframe.recorders.tee import TeeRecorder


def spec():
    return RunSpec(["fn"], "a.dev.v0", "a", "dev")


@pytest.fixture
def stream():
    return io.StringIO()


def test_each_event_is_a_line(stream):
    made = ConsoleRecorder(spec(), stream)
    scope = SampleScope(made, "a.dev.3")
    with made.in_scope(scope):
        made.record_sampling([{"role": "user", "content": "long prompt"}], "Paris")
        made.record_match(True, expected="Paris", picked="Paris")
        made.record_match(False, expected="Paris", picked=None)
        made.record_metrics(score=0.5)
    made.end(scope, {"status": "completed"})
    made.end(scope, {"status": "error", "error": {"type": "BadReply", "message": "no JSON"}})
    made.record_final_report({"accuracy": 0.5})
    made.flush()
    assert stream.getvalue().splitlines() == [
        'sampling  a.dev.3 "Paris"',
        'match     a.dev.3 correct picked="Paris" expected="Paris"',
        'match     a.dev.3 incorrect picked=null expected="Paris"',
        'metrics   a.dev.3 {"score":0.5}',
        "sample    a.dev.3 completed",
        "sample    a.dev.3 error BadReply: no JSON",
        'final_report {"accuracy":0.5}',
    ]


@pytest.mark.parametrize("text", ["\x1b[2J", "\r\n", "\x07", "\u202e", "\u2028", "\x9b31m", "\ud800", "\x00"])
def test_a_model_cannot_drive_the_terminal(stream, text):
    made = ConsoleRecorder(spec(), stream)
    made.record_sampling("?", f"a{text}b", sample_id=f"id{text}")
    line = stream.getvalue()
    assert line.endswith("\n")
    assert line[:-1].isprintable()


def test_long_lines_are_cut(stream):
    made = ConsoleRecorder(spec(), stream)
    made.record_sampling("?", "\x01" * 10_000, sample_id="a.dev.0")
    assert len(stream.getvalue()) == LONGEST + 1


def test_a_terminal_that_knows_only_ascii_gets_ascii():
    raw = io.BytesIO()
    made = ConsoleRecorder(spec(), io.TextIOWrapper(raw, encoding="ascii"))
    made.record_sampling("?", "ä€😀", sample_id="a.dev.0")
    made.flush()
    assert raw.getvalue() == b'sampling  a.dev.0 "\\xe4\\u20ac\\U0001f600"\n'


def test_secrets_are_not_shown(stream):
    made = ConsoleRecorder(spec(), stream, secrets=Secrets(["sk-very-secret"]))
    made.record_sampling("?", "key: sk-very-secret", sample_id="a.dev.0")
    assert "key: ***" in stream.getvalue()
    assert "sk-very" not in stream.getvalue()


def test_it_looks_on_while_another_keeps_the_events(stream):
    tee = TeeRecorder(MemoryRecorder(spec()), made := ConsoleRecorder(spec(), stream))
    tee.record_match(True, sample_id="a.dev.0")
    assert len(tee.get_events("match")) == 1
    assert made.get_events("match") == []
    assert stream.getvalue().count("\n") == 1
