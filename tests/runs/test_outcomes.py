"""What became of the answers, and who was paid for what: whole runs against a real server that filters, truncates and says nothing."""

import json
from pathlib import Path

import pytest
from loopback import Answer, ModelStub, chat, refused, said

from evalframe import Grade, read_log, run_eval
from evalframe.completion_fns.openai import OpenAIChatCompletionFn

MATCH = "evalframe.evals.basic:Match"
FILTERED = {"code": "content_filter", "innererror": {"content_filter_result": {"violence": {"filtered": True, "severity": "medium"}}}}


class Judged:
    """A grader that asks a model of its own."""

    needs_ideal = False

    def __init__(self, base_url):
        self.judge = OpenAIChatCompletionFn("judge-1", base_url=base_url)

    def __call__(self, completion, sample):
        verdict = self.judge(f"Is this right? {completion}").completions[0]
        return Grade.correct() if verdict == "yes" else Grade.incorrect()


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Runs an eval over rows "Say the number 1", ... against a server that answers by the row's number."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "R/evals").mkdir(parents=True)
    (tmp_path / "R/data/a").mkdir(parents=True)

    current = []
    server = ModelStub(lambda number, body: current[-1](body))
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)

    def run(answer, rows=6, *, cls=MATCH, args=None, log="out.jsonl", **settings):
        data = [{"input": f"Say the number {number}", "ideal": str(number)} for number in range(1, rows + 1)]
        (tmp_path / "R/data/a/s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
        told = {"class": cls, "args": {"samples_jsonl": "a/s.jsonl", **(args or {})}}
        (tmp_path / "R/evals/a.yaml").write_text(json.dumps({"a": {"id": "a.dev.v1"}, "a.dev.v1": told}))
        current.append(answer)
        before = server.count
        settings = {"record_path": log, "fail_on_error": False, **settings}
        return run_eval("m-1", "a", registry_path="R", **settings), server.count - before

    with server:
        yield run


def last_line():
    return json.loads(Path("out.jsonl").read_text().splitlines()[-1])


def number_of(body):
    return int(body["messages"][-1]["content"].split()[-1])


def test_answers_that_are_filtered_or_empty_are_told_apart(ask):  # CFN-07
    def answer(body):
        number = number_of(body)
        if number <= 2:
            return Answer(body=chat())
        return Answer(body=chat(None, finish_reason="content_filter")) if number <= 4 else said(str(number))

    result, _ = ask(answer)
    assert result.report["outcomes"] == {"answered": 2, "empty": 2, "refused": 2}
    assert (result.report["accuracy"], result.report["n"], result.status) == (2 / 6, 6, "success")
    raw = [event.data.get("raw") for event in read_log("out.jsonl").events("sampling")]
    assert len([reply for reply in raw if reply]) == 4


def test_a_filtered_prompt_is_a_refusal_that_is_asked_once(ask):  # CFN-08
    result, requests = ask(lambda body: refused(400, "no", **FILTERED) if number_of(body) == 3 else said(str(number_of(body))), rows=5)
    assert result.report["outcomes"] == {"answered": 4, "refused": 1}
    assert (result.report["accuracy"], result.report["n"]) == (0.8, 5)
    assert requests == 5
    (event,) = [event for event in read_log("out.jsonl").events("sampling") if event.data.get("outcome") == "refused"]
    assert event.data["raw"]["error"]["innererror"]["content_filter_result"]["violence"]["severity"] == "medium"


def test_all_five_outcomes_and_the_screen(ask):
    from evalframe.reports.console import report_text

    def answer(body):
        return {
            1: said("1"),
            2: said("2, and so", finish_reason="length"),
            3: Answer(body=chat({"content": None, "refusal": "I will not."})),
            4: said("  "),
            5: refused(400, "broken"),
            6: said("6"),
        }[number_of(body)]

    result, _ = ask(answer)
    assert result.report["outcomes"] == {"answered": 2, "empty": 1, "truncated": 1, "refused": 1, "error": 1}
    shown = report_text("a", result.report, result.counts.to_line(), log_path=None, status="success")
    assert "answers  2 answered, 1 empty, 1 truncated, 1 refused, 1 in error" in shown


def test_a_resumed_run_counts_the_outcomes_of_both_processes(ask):
    def broken(body):
        return refused(400, "broken") if number_of(body) > 3 else answer(body)

    def answer(body):
        return said(str(number_of(body)), finish_reason="length" if number_of(body) % 2 else "stop")

    ask(broken)
    resumed, _ = ask(answer, log=None, resume="out.jsonl")
    whole, _ = ask(answer, log="whole.jsonl")
    assert resumed.report == whole.report
    assert whole.report["outcomes"] == {"answered": 3, "truncated": 3}
    assert resumed.reused == 3


def test_answers_that_were_kept_for_another_grading_keep_their_outcome(ask, tmp_path):
    class Once:
        needs_ideal = False
        fail = True

        def __call__(self, completion, sample):
            if Once.fail:
                raise ZeroDivisionError
            return Grade.correct()

    import sys

    module = type(sys)("once_failing")
    module.Once = Once
    sys.modules["once_failing"] = module
    graded = {"cls": "evalframe.evals.graded:Graded", "args": {"grader": "once_failing:Once"}}

    def answer(body):
        return said("1", finish_reason="length")

    ask(answer, rows=2, **graded)
    Once.fail = False
    result, requests = ask(answer, rows=2, log=None, resume="out.jsonl", **graded)
    assert (requests, result.report["outcomes"]) == (0, {"truncated": 2})


def test_what_a_judge_was_paid_stands_apart(ask):
    with ModelStub(lambda number, body: said("yes", finish_reason="length")) as judge:
        grader = {"class": f"{__name__}:Judged", "args": {"base_url": judge.base_url}}
        result, _ = ask(lambda body: said("4"), rows=3, cls="evalframe.evals.graded:Graded", args={"grader": grader})
    assert {model: spent["calls"] for model, spent in result.report["usage"].items()} == {"m-1": 3}
    assert {model: spent["calls"] for model, spent in result.report["judge_usage"].items()} == {"judge-1": 3}
    assert result.report["outcomes"] == {"answered": 3}  # the judge's own truncation is not the tested model's
    roles = [event.data.get("role") for event in read_log("out.jsonl").events("sampling")]
    assert sorted(map(str, roles)) == ["None"] * 3 + ["judge"] * 3


def test_an_option_that_the_model_refuses_is_told_in_log_and_report(ask):  # CFN-04
    def answer(body):
        if "temperature" in body:
            return refused(400, "Unsupported parameter: 'temperature'.", param="temperature", code="unsupported_parameter")
        return said(str(number_of(body)))

    result, requests = ask(answer, completion_args={"temperature": 0}, threads=1)
    assert (result.report["accuracy"], requests) == (1.0, 7)
    assert any("temperature is not sent, since the endpoint says" in notice for notice in result.notices)
    (repair,) = last_line()["endpoints"][0]["repairs"]
    assert (repair["option"], repair["renamed_to"]) == ("temperature", None)
    log = read_log("out.jsonl")
    assert len(list(log.events("repair"))) == 1
    assert all("options" not in event.data for event in log.events("sampling"))


def test_a_limiter_that_was_told_to_slow_down_leaves_its_history_in_the_log(ask):
    seen = []

    def answer(body):
        seen.append(1)
        return refused(429, headers={"retry-after-ms": "20"}) if len(seen) in (3, 4) else said(str(number_of(body)))

    result, _ = ask(answer, rows=12)
    assert result.report["accuracy"] == 1.0
    (told,) = last_line()["endpoints"]
    assert told["throttled"]["times"] == 2
    assert told["throttled"]["history"]


def test_a_row_brings_its_own_tools(ask, tmp_path):  # CFN-11
    tools = [{"type": "function", "function": {"name": "get_weather"}}]
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}}
    seen = []

    def answer(body):
        seen.append(body.get("tools"))
        return Answer(body=chat({"content": None, "tool_calls": [call]}, finish_reason="tool_calls"))

    original = json.dumps
    rows = [{"input": "Weather in Oslo?", "ideal": "get_weather", "tools": tools}, {"input": "Say 2", "ideal": "2", "tools": ["hammer"]}]
    data = "".join(original(row) + "\n" for row in rows)
    (tmp_path / "R/data/a/own.jsonl").write_text(data)
    result, _ = ask(answer, args={"samples_jsonl": "a/own.jsonl"})
    assert sorted(seen, key=str) == [None, tools] or sorted(seen, key=str) == [tools, None]
    assert (result.report["accuracy"], result.report["outcomes"]) == (0.0, {"answered": 2})
    calls = [event.data["tool_calls"][0]["function"] for event in read_log("out.jsonl").events("sampling")]
    assert calls[0] == {"name": "get_weather", "arguments": '{"city":"Oslo"}'}


def test_a_resumed_run_knows_what_judges_were_paid_before(ask):
    with ModelStub(lambda number, body: said("yes")) as judge:
        grader = {"class": f"{__name__}:Judged", "args": {"base_url": judge.base_url}}
        graded = {"rows": 4, "cls": "evalframe.evals.graded:Graded", "args": {"grader": grader}}
        ask(lambda body: refused(400, "broken") if number_of(body) > 2 else said("4"), **graded)
        resumed, _ = ask(lambda body: said("4"), log=None, resume="out.jsonl", **graded)
        whole, _ = ask(lambda body: said("4"), log="whole.jsonl", **graded)
    assert resumed.report == whole.report
    assert whole.report["judge_usage"]["judge-1"]["calls"] == 4
    assert judge.count == 8


@pytest.mark.parametrize("always", [True, False], ids=["whatever is sent", "one option after the other"])
def test_a_server_that_refuses_everything_is_not_asked_for_ever(ask, always):
    names = ["temperature", "top_p", "seed", "stop", "max_tokens", "max_completion_tokens", "presence_penalty"]

    def answer(body):
        named = next((name for name in names if name in body), "temperature" if always else None)
        if named is None:
            return said("1")
        return refused(
            400, f"Unsupported parameter: '{named}' is not supported with this model.", param=named, code="unsupported_parameter"
        )

    options = {"temperature": 0, "top_p": 1, "seed": 7, "stop": ["x"], "max_tokens": 9, "presence_penalty": 0.5}
    result, requests = ask(answer, rows=1, completion_args=options)
    assert requests == 8  # six are dropped, one of them after it was renamed, and one more
    assert (result.counts.error, result.counts.completed) == ((1, 0) if always else (0, 1))
