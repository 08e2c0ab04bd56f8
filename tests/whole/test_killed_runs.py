"""`kill -9` at a random moment costs at most what was in flight."""

import json
import random
import signal
import subprocess
import time

import pytest
from loopback import ModelStub, said

from evalframe.logs.run_log import read_log

WORKERS = 10
ROWS = 400


def spoken(body):
    return body["messages"][-1]["content"].split()[-1]


@pytest.mark.slow
def test_twenty_runs_killed_at_random_moments_lose_only_what_was_in_flight(project, tmp_path):
    made, draw, table = project(ROWS), random.Random(5), []
    for number in range(20):
        with ModelStub(lambda _number, body: said(spoken(body))) as stub:
            log = tmp_path / f"killed-{number}.jsonl"
            process = subprocess.Popen(
                made.command("--record_path", log, "--threads", WORKERS),
                cwd=tmp_path, env=made.environment(stub), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            goal = draw.randrange(1, ROWS - 20)
            while stub.count < goal and process.poll() is None:
                time.sleep(0.001)
            time.sleep(draw.random() * 0.02)
            process.send_signal(signal.SIGKILL)
            process.wait()
            answered = stub.count
        raw = log.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1].splitlines()
        for line in whole:
            json.loads(line)
        read = read_log(log)
        finished = sum(1 for event in read.events("sample") if event.data["status"] == "completed")
        table.append((answered, finished, answered - finished))
        assert read.torn_lines <= 1
        assert 0 <= answered - finished <= WORKERS, table[-1]
        assert len(list(read.events("match"))) == finished
    print("\nanswered  in the log  in flight", *(f"{a:8} {f:11} {m:10}" for a, f, m in table), sep="\n")
