"""Samples as tasks of an event loop: the same log, report, limits and stop as on threads."""

import asyncio
import json
import threading
import time
from pathlib import Path

import pytest
from loopback import Answer, ModelStub, chat, refused, said

from evalframe import Completion, Eval, Grade, ask, read_log, record_match, run_eval
from evalframe.completion_fns.openai import OpenAIChatCompletionFn

MATCH = "evalframe.evals.basic:Match"


def number_of(body):
    return int(body["messages"][-1]["content"].split()[-1])


class Peak:
    """Answers after a while, and knows how many were waiting at once."""

    def __init__(self, seconds=0.05):
        self.under_way, self.peak, self._lock, self.seconds = 0, 0, threading.Lock(), seconds

    def __call__(self, number, body):
        with self._lock:
            self.under_way += 1
            self.peak = max(self.peak, self.under_way)
        time.sleep(self.seconds)
        with self._lock:
            self.under_way -= 1
        return said(str(number_of(body)))


class Awaiting(Eval):
    async def eval_sample(self, sample, rng):
        answer = (await ask(self.completion_fn, sample["input"])).get_completions()[0]
        record_match(answer == sample["ideal"])
        return threading.current_thread().name

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        return {"n": len(recorder.get_events("match"))}


class Plain(Eval):
    def eval_sample(self, sample, rng):
        self.completion_fn(sample["input"])
        record_match(True)
        return threading.current_thread().name

    run = Awaiting.run


@pytest.fixture
def asks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "R/evals").mkdir(parents=True)

    def run(function, rows=20, *, cls=MATCH, log="out.jsonl", **settings):
        data = [{"input": f"Say the number {number}", "ideal": str(number)} for number in range(1, rows + 1)]
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
        told = {"class": cls, "args": {"samples_jsonl": str(tmp_path / "rows.jsonl")}}
        (tmp_path / "R/evals/a.yaml").write_text(json.dumps({"a": {"id": "a.dev.v1"}, "a.dev.v1": told}))
        settings = {"executor": "coroutines", "record_path": log, **settings}
        return run_eval(function, "a", registry_path="R", **settings)

    return run


def threads_of(log):
    return {event.data["result"] for event in read_log(log).events("sample")}


def test_an_eval_of_yaml_alone_runs_as_tasks_with_the_same_log(asks, monkeypatch):
    with ModelStub(Peak()) as stub:
        stub.answer = peak = Peak()
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        as_tasks = asks("m", threads=10)
        assert (as_tasks.status, as_tasks.report["accuracy"], peak.peak > 5) == ("success", 1.0, True)
        on_threads = asks("m", executor="threads", log="threads.jsonl")
    assert as_tasks.report == on_threads.report

    def told(log):
        return {(event.sample_id, event.type, str(event.data.get("sampled"))) for event in read_log(log).events()}

    assert told("out.jsonl") == told("threads.jsonl")


@pytest.mark.parametrize("executor", ["threads", "coroutines"])
def test_an_async_eval_runs_on_the_event_loop_whatever_is_asked(asks, monkeypatch, executor):
    with ModelStub(Peak()) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        assert asks("m", cls=f"{__name__}:Awaiting", executor=executor).report == {
            **asks("m", cls=f"{__name__}:Awaiting", log="b.jsonl").report
        }
    assert threads_of("out.jsonl") == {"evalframe-event-loop"}


def test_an_eval_that_can_only_block_stays_on_threads(asks):
    assert asks("echo", cls=f"{__name__}:Plain").report == {"n": 20} | asks("echo", cls=f"{__name__}:Plain", log="b.jsonl").report
    assert "evalframe-event-loop" not in threads_of("out.jsonl")


def test_a_function_that_blocks_is_called_beside_the_loop(asks):
    peak = Peak()

    def blocking(prompt, **options):
        return Completion([json.loads(peak(0, {"messages": [{"content": prompt}]}).body)["choices"][0]["message"]["content"]])

    assert asks(blocking, threads=10).report["accuracy"] == 1.0
    assert peak.peak > 5


def test_an_async_function_may_be_asked_by_any_eval(asks):
    async def later(prompt, **options):
        await asyncio.sleep(0.01)
        return Completion([prompt.split()[-1]])

    assert asks(later).report["accuracy"] == 1.0
    assert asks(later, executor="threads", log="threads.jsonl").report["accuracy"] == 1.0


class Judged:
    """A grader that asks a judge."""

    needs_ideal = False

    def __init__(self, base_url):
        self.judge = OpenAIChatCompletionFn("judge", base_url=base_url)

    def __call__(self, completion, sample):
        return Grade.correct() if self.judge(f"Is it {completion}").completions[0] == completion else Grade.incorrect()


def test_judges_are_asked_several_at_once_and_hold_nobody_up(asks):
    with ModelStub(Peak()) as stub:
        stub.answer = peak = Peak()
        grader = {"class": f"{__name__}:Judged", "args": {"base_url": stub.base_url}}
        result = asks("echo", cls="evalframe.evals.graded:Graded", threads=10, extra_eval_params={"grader": grader})
    assert result.status == "success"
    assert result.report["judge_usage"]["judge"]["calls"] == 20
    assert peak.peak > 5


def test_retries_pauses_and_waiting_are_booked(asks, monkeypatch):
    def answer(number, body):
        return refused(429, headers={"retry-after-ms": "50"}) if number <= 2 else said(str(number_of(body)))

    with ModelStub(answer) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        result = asks("m", rows=4, threads=2)
    assert (result.status, stub.count) == ("success", 6)
    assert sum(event.data["waiting_seconds"] for event in read_log("out.jsonl").events("sample")) > 0.05


def test_a_limit_on_time_cuts_a_call_under_way(asks, monkeypatch):
    slow = Answer(body=chat({"content": "x"}), delay_s=30)
    with ModelStub(lambda number, body: slow if number_of(body) == 2 else said(str(number_of(body)))) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        began = time.monotonic()
        result = asks("m", rows=3, time_limit=0.5)
    assert time.monotonic() - began < 20
    assert (result.status, result.counts.limit, result.counts.completed) == ("success", 1, 2)


def test_the_cache_and_limits_work_as_on_threads(asks, monkeypatch, tmp_path):
    with ModelStub(Peak(0.0)) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        asks("m", cache_dir=str(tmp_path / "c"), turn_limit=3)
        again = asks("m", cache_dir=str(tmp_path / "c"), turn_limit=3, log="again.jsonl", executor="threads")
        assert (stub.count, again.report["accuracy"]) == (20, 1.0)


def test_a_run_on_tasks_is_taken_up_on_threads(asks, monkeypatch):
    broken = [True]

    def answer(number, body):
        return refused(400, "broken") if broken[0] and number_of(body) > 10 else said(str(number_of(body)))

    with ModelStub(answer) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        asks("m")
        broken[0] = False
        result = asks("m", executor="threads", log=None, resume="out.jsonl")
        assert (result.status, result.reused, stub.count) == ("success", 10, 30)


def test_without_the_library_it_says_what_to_install_before_anything_is_asked(asks, monkeypatch):
    import sys

    from evalframe.core.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(MissingExtra, match=r'--executor coroutines needs "aiohttp". Install it: pip install "evalframe\[async\]"'):
        asks("m", rows=2)
    assert asks("echo", rows=2).status == "success"  # who asks no endpoint needs no library for it


def test_another_word_is_refused(asks):
    from evalframe.core.errors import EvalframeError

    with pytest.raises(EvalframeError, match='--executor takes threads or coroutines, not "fibres"'):
        asks("echo", executor="fibres")
    assert not Path("out.jsonl").exists()
