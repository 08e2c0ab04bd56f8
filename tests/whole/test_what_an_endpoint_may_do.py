"""Whole runs against a server that misbehaves in each of the ways that servers do."""

import json
import re
import subprocess
import time

import pytest
from loopback import Answer, ModelStub, chat, refused, said

from evalframe.logs.run_log import read_log

ROWS = 4


def spoken(body):
    return body["messages"][-1]["content"].split()[-1]


def right(body):
    return said(spoken(body))


def at_first(odd):
    """A server that answers the first request in its odd way, and all others well."""
    return lambda number, body: odd(body) if number == 1 else right(body)


def always(odd):
    return lambda _number, body: odd(body)


def usage_taken_away(body):
    return Answer(body=chat({"role": "assistant", "content": spoken(body)}, usage=...))


CASES = [
    # what the server does, its answers, exit code, completed, errors, accuracy, requests, what is said
    ("answers", always(right), 0, 4, 0, 1.0, 4, None),
    ("429 once, Retry-After 0", at_first(lambda _: refused(429, "slow down", {"retry-after": "0"})), 0, 4, 0, 1.0, 5, None),
    ("429 for ever", always(lambda _: refused(429, "slow down", {"retry-after": "0"})), 1, 0, 4, None, 8, "429"),
    ("500 once", at_first(lambda _: refused(500, "oops")), 0, 4, 0, 1.0, 5, None),
    ("500 for ever", always(lambda _: refused(500, "oops")), 1, 0, 4, None, 8, "500: oops"),
    ("empty content", always(lambda _: said("")), 0, 4, 0, 0.0, 4, None),
    ("null content", always(lambda _: said(None, finish_reason="length")), 0, 4, 0, 0.0, 4, None),
    ("no usage", always(usage_taken_away), 0, 4, 0, 1.0, 4, "unknown for 4 of 4 calls"),
    ("malformed JSON once", at_first(lambda _: Answer(body=b'{"choices": [{"mess')), 0, 4, 0, 1.0, 5, None),
    ("malformed JSON for ever", always(lambda _: Answer(body=b'{"choices": [{"mess')), 1, 0, 4, None, 8, "cannot be read"),
    ("a web page", always(lambda _: Answer(body=b"<html>hello</html>")), 1, 0, 4, None, 8, "cannot be read"),
    ("no choices", always(lambda _: Answer(body=chat())), 0, 4, 0, 0.0, 8, None),
    ("a cut body once", at_first(lambda _: Answer(body=chat({"content": "x"}), cut_after=10)), 0, 4, 0, 1.0, 5, None),
    ("a reset once", at_first(lambda _: Answer(body=chat({"content": "x"}), cut_after=10, reset=True)), 0, 4, 0, 1.0, 5, None),
    ("400", always(lambda _: refused(400, "no such parameter: colour")), 1, 0, 4, None, 4, "no such parameter: colour"),
    ("401", always(lambda _: refused(401, "Incorrect API key provided: sk-test-0000")), 1, 0, None, None, None, "given up, since every sample would fail"),
    ("404", always(lambda _: refused(404, "no such model")), 1, 0, None, None, None, "no such model"),
    ("a slow trickle", always(lambda body: Answer(body=right(body).body, trickle_s=0.3)), 1, 0, 4, None, 8, "timeout"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "code", "completed", "errors", "accuracy", "requests", "told"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_run_tells_what_its_endpoint_did(project, tmp_path, answers, code, completed, errors, accuracy, requests, told):
    made, began = project(ROWS), time.monotonic()
    with ModelStub(answers) as stub:
        done = subprocess.run(
            made.command("--record_path", "log.jsonl", "--max_retries", "1", "--timeout_s", "1", "--threads", "4"),
            cwd=tmp_path, env=made.environment(stub), capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        asked = stub.count
    log = read_log(tmp_path / "log.jsonl")
    samples = log.samples
    print(
        f"\nexit {done.returncode}, {asked} requests, {samples['completed']} completed, {samples['error']} in error, "
        f"accuracy {log.final_report['accuracy']}, {time.monotonic() - began:.1f} s"
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert samples["completed"] == completed
    assert errors is None or samples["error"] == errors
    assert log.final_report["accuracy"] == accuracy
    assert requests is None or asked == requests
    assert told is None or re.search(told, done.stdout + done.stderr, re.IGNORECASE), done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "sk-test-0000" not in done.stdout + done.stderr + (tmp_path / "log.jsonl").read_text(encoding="utf-8")


def test_null_content_keeps_its_finish_reason(project, tmp_path):
    made = project(1)
    with ModelStub(lambda _number, _body: said(None, finish_reason="length")) as stub:
        subprocess.run(
            made.command("--record_path", "log.jsonl"), cwd=tmp_path, env=made.environment(stub), check=True, capture_output=True
        )
    (event,) = read_log(tmp_path / "log.jsonl").events("sampling")
    assert (event.data["sampled"], event.data["finish_reason"]) == ("", "length")


def test_tokens_are_added_up_in_the_report(project, tmp_path):
    made = project(10)
    usage = {
        "prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 5},
    }  # fmt: skip
    with ModelStub(lambda _number, body: said(spoken(body), usage=usage)) as stub:
        done = subprocess.run(made.command("--json"), cwd=tmp_path, env=made.environment(stub), capture_output=True, text=True)
    spent = json.loads(done.stdout)["report"]["usage"]["gpt-4o-mini"]
    assert (spent["input_tokens"], spent["output_tokens"], spent["cached_tokens"], spent["reasoning_tokens"]) == (110, 70, 40, 50)


def test_as_many_requests_are_under_way_as_there_are_threads(project, tmp_path):
    import threading

    made, gate = project(40), threading.Barrier(40)

    def together(_number, body):
        gate.wait(20)  # broken, and the test with it, if the forty are not asked at once
        return right(body)

    with ModelStub(together) as stub:
        done = subprocess.run(made.command("--threads", "40"), cwd=tmp_path, env=made.environment(stub), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
