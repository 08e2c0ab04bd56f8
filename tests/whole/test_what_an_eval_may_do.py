"""Evals that fork, that raise what no one expects, that leave threads behind, that hang: no sample is asked or counted twice, no lock stays."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from evalframe.logs.run_log import read_log

pytestmark = pytest.mark.slow
ROWS = 20
CODE = """
import asyncio, multiprocessing, os, threading, time
import evalframe


def rest(seconds):
    time.sleep(seconds)


class Odd(evalframe.Eval):
    what = ""

    def eval_sample(self, sample, rng):
        number = int(sample["input"].split()[-1])
        self.completion_fn(prompt=sample["input"])
        if number == 5:
            getattr(self, os.environ["WHAT"])()
        evalframe.record_match(True)

    def forks_and_forgets(self):
        if os.fork() == 0:
            return

    def cancels(self):
        raise asyncio.CancelledError

    def leaves_a_thread(self):
        from evalframe.core.recorder import default_recorder
        from evalframe.core.scope import current_scope
        recorder, scope = default_recorder(), current_scope()

        def late():
            time.sleep(0.2)
            with recorder.in_scope(scope):
                evalframe.record_match(False)

        threading.Thread(target=late, daemon=True).start()

    def works_elsewhere(self):
        multiprocessing.get_context("fork").Process(target=rest, args=(30,), daemon=True).start()

    def hangs(self):
        time.sleep(3600)

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        if os.environ["WHAT"] == "leaves_a_thread":
            time.sleep(0.5)
        verdicts = [event.data["correct"] for event in recorder.get_events("match")]
        return {"accuracy": sum(verdicts) / len(verdicts), "n": len(verdicts)}
"""


@pytest.fixture
def run(tmp_path):
    for name in ("evals", "data"):
        (tmp_path / "R" / name).mkdir(parents=True)
    (tmp_path / "R" / "odd.py").write_text(CODE, encoding="utf-8")
    spec = {"odd": {"id": "odd.dev.v0"}, "odd.dev.v0": {"class": "odd:Odd", "args": {"samples_jsonl": "s.jsonl"}}}
    (tmp_path / "R" / "evals" / "odd.yaml").write_text(json.dumps(spec), encoding="utf-8")
    (tmp_path / "R" / "data" / "s.jsonl").write_text(
        "".join(f'{{"input": "Say {n}", "ideal": "{n}"}}\n' for n in range(ROWS)), encoding="utf-8"
    )

    def start(what, *words):
        command = [str(Path(sys.executable).parent / words[0]), *words[1:]]
        return subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, "WHAT": what}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    start.log = tmp_path / "log.jsonl"
    start.first = ("oaieval", "echo", "odd", "--registry_path", "R", "--record_path", "log.jsonl")
    start.again = ("evalframe", "resume", "log.jsonl")
    return start


def ends_with(process, code):
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    return True


def wait_for(log, text):
    end = time.monotonic() + 30
    while not log.exists() or text not in log.read_bytes():
        assert time.monotonic() < end
        time.sleep(0.01)


def assert_once(log, n=ROWS):
    assert Counter(event.sample_id for event in read_log(log).events("match")) == Counter({f"odd.dev.{number}": 1 for number in range(n)})
    assert read_log(log).final_report["n"] == n


@pytest.mark.parametrize("more", [("--sequential",), ("--threads", "3")], ids=" ".join)
def test_a_process_that_was_forked_off_and_forgotten_asks_and_writes_nothing(run, more):
    process = run("forks_and_forgets", *run.first, *more)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert_once(run.log)
    assert len(list(read_log(run.log).events("sampling"))) == ROWS
    again = run("forks_and_forgets", *run.again)
    assert ends_with(again, 0)
    assert_once(run.log)


def test_a_process_that_outlives_the_run_does_not_keep_its_lock(run):
    process = run("works_elsewhere", *run.first, "--sequential")
    wait_for(run.log, b'"odd.dev.5","type":"match"')
    process.send_signal(signal.SIGKILL)
    process.stdout.close()
    process.stderr.close()
    process.wait()
    again = run("leaves_a_thread", *run.again)
    _, stderr = again.communicate(timeout=60)
    assert again.returncode == 0, stderr
    assert_once(run.log)


def test_whatever_a_sample_raises_is_its_error_and_the_others_go_on(run):
    process = run("cancels", *run.first, "--fail_on_error", "false")
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"{ROWS - 1} completed, 1 in error" in stdout
    again = run("leaves_a_thread", *run.again)
    assert ends_with(again, 0)
    assert_once(run.log)


def test_what_a_thread_records_after_its_sample_has_ended_counts_nowhere(run):
    for words in (run.first, run.again):
        process = run("leaves_a_thread", *words)
        stdout, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "accuracy  1.0000" in stdout
        assert_once(run.log)


def test_one_ctrl_c_ends_a_sample_that_hangs_though_it_is_asked_on_the_main_thread(run):
    process = run("hangs", *run.first, "--sequential", "--grace_s", "0.5")
    wait_for(run.log, b'"type":"sample"')
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "1 interrupted" in stdout
    assert "evalframe resume" in stderr
    again = run("leaves_a_thread", *run.again)
    assert ends_with(again, 0)
    assert_once(run.log)
