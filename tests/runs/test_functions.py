"""Where a model is asked bears on what it answers, also where only the environment says so."""

import json

import pytest
from loopback import ModelStub, said

from evalframe import run_eval
from evalframe.core.errors import BadLog
from evalframe.core.specs import EvalSpec
from evalframe.runs.eval_set import run_set


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"input": f"Say {n}", "ideal": str(n)}) + "\n" for n in range(4)), encoding="utf-8")
    return EvalSpec(cls="evalframe.evals.basic:Match", args={"samples_jsonl": str(path)}, key="n.dev.v0")


@pytest.fixture
def servers():
    with (
        ModelStub(lambda number, body: said(body["messages"][-1]["content"].split()[-1])) as right,
        ModelStub(lambda number, body: said("wrong")) as wrong,
    ):
        yield right, wrong


def test_a_run_is_not_taken_up_at_another_address(spec, servers, tmp_path, monkeypatch):
    right, wrong = servers
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000")
    monkeypatch.setenv("OPENAI_BASE_URL", right.base_url)
    log = str(run_eval("m", spec, max_samples=2, log_dir=str(tmp_path)).log_path)
    monkeypatch.setenv("OPENAI_BASE_URL", wrong.base_url)
    with pytest.raises(BadLog, match=f"base_url was .*{right.port}.* and is .*{wrong.port}"):
        run_eval("m", spec, max_samples=4, resume=log)
    assert wrong.count == 0
    monkeypatch.setenv("OPENAI_BASE_URL", right.base_url)
    assert run_eval("m", spec, max_samples=4, resume=log).report["n"] == 4


def test_an_eval_of_a_set_is_not_done_because_another_server_has_answered_it(servers, tmp_path, monkeypatch):
    right, wrong = servers
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000")
    (tmp_path / "R" / "evals").mkdir(parents=True)
    (tmp_path / "R" / "eval_sets").mkdir()
    (tmp_path / "R" / "data").mkdir()
    (tmp_path / "R" / "data" / "s.jsonl").write_text('{"input": "Say 1", "ideal": "1"}\n', encoding="utf-8")
    entry = {"p": {"id": "p.dev.v0"}, "p.dev.v0": {"class": "evalframe.evals.basic:Match", "args": {"samples_jsonl": "s.jsonl"}}}
    (tmp_path / "R" / "evals" / "p.yaml").write_text(json.dumps(entry), encoding="utf-8")
    (tmp_path / "R" / "eval_sets" / "solo.yaml").write_text('{"solo": {"evals": ["p"]}}', encoding="utf-8")
    accuracies = []
    for server in (right, wrong, right):
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        (member,) = run_set("m", "solo", registry_path=[str(tmp_path / "R")], log_dir=str(tmp_path / "L"))
        report = member.result.report if member.result else member.done_before.final_report
        accuracies.append((report["accuracy"], member.done_before is not None))
    assert accuracies == [(1.0, False), (0.0, False), (1.0, True)]
    assert (right.count, wrong.count) == (1, 1)


def test_no_password_of_a_command_reaches_the_line_of_a_resume(spec, servers, tmp_path, monkeypatch):
    right, _ = servers
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000")
    monkeypatch.setenv("OPENAI_BASE_URL", right.base_url)
    log = run_eval("m", spec, max_samples=2, log_dir=str(tmp_path)).log_path
    monkeypatch.setattr("sys.argv", ["evalframe", "resume", "--http-run-url", "http://user:PW12345@127.0.0.1/e"])
    run_eval("m", spec, max_samples=4, resume=str(log))
    assert b"PW12345" not in log.read_bytes()
