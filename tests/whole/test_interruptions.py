"""However a run ends before its time, its log takes it up again: only what was in flight is asked twice, and the report is the same."""

import json
import os
import pty
import resource
import signal
import subprocess
import time
from collections import Counter

import pytest
from loopback import Answer, ModelStub, chat, said

from evalframe.logs.run_log import read_log

pytestmark = pytest.mark.slow

ROWS, WORKERS = 120, 4


def spoken(body):
    return body["messages"][-1]["content"].split()[-1]


def slowly(number, body):
    return Answer(body=chat({"role": "assistant", "content": spoken(body)}), delay_s=0.02)


def wait_until(is_so, process):
    end = time.monotonic() + 30
    while not is_so() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.002)


def resumed(made, stub, log, *more):
    words = ["evalframe", "resume", str(log), *map(str, more)]
    return subprocess.run(words, cwd=made.folder, env=made.environment(stub), capture_output=True, text=True, timeout=60)


def assert_whole(log, asked, most_twice=WORKERS):
    """The log tells of every sample once, the report is that of an undisturbed run, and no ended sample was asked again."""
    for line in log.read_bytes().splitlines():
        json.loads(line)
    read = read_log(log)
    assert (read.status, read.samples["completed"], read.final_report["accuracy"], read.final_report["n"]) == ("success", ROWS, 1.0, ROWS)
    assert set(Counter((event.sample_id, event.epoch) for event in read.events("match")).values()) == {1}
    assert read.final_report["usage"]["gpt-4o-mini"]["calls"] == ROWS
    assert len(asked) - len(set(asked)) <= most_twice


ENDS = [  # how it ends, the exit code, the status in the log
    ("SIGINT", 130, "cancelled"),
    ("SIGTERM", 143, "cancelled"),
    ("SIGHUP", 129, "cancelled"),
    ("SIGKILL", -9, "unfinished"),
]


@pytest.mark.parametrize(("name", "code", "status"), ENDS)
def test_a_signal_costs_at_most_what_is_in_flight(project, tmp_path, name, code, status):
    made, log = project(ROWS), tmp_path / "log.jsonl"
    with ModelStub(slowly) as stub:
        command = made.command("--record_path", log, "--threads", WORKERS)
        process = subprocess.Popen(
            command, cwd=tmp_path, env=made.environment(stub), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        wait_until(lambda: stub.count > 30, process)
        process.send_signal(getattr(signal, name))
        stdout, stderr = process.communicate(timeout=30)
        assert process.returncode == code
        assert read_log(log).status == status
        if status == "cancelled":
            assert "not begun" in stdout
            assert f"evalframe resume {log}" in stderr
        done = resumed(made, stub, log)
        assert done.returncode == 0, done.stderr
        assert_whole(log, [spoken(body) for body in stub.bodies])


def test_a_closed_terminal_ends_the_run_in_order(project, tmp_path):
    made, log = project(ROWS), tmp_path / "log.jsonl"
    with ModelStub(slowly) as stub:
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(tmp_path)
            command = made.command("--record_path", log, "--threads", WORKERS)
            os.execve(command[0], command, made.environment(stub))
        end = time.monotonic() + 30
        while stub.count < 30 and time.monotonic() < end:
            time.sleep(0.002)
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 129
        assert read_log(log).status == "cancelled"
        assert resumed(made, stub, log).returncode == 0
        assert_whole(log, [spoken(body) for body in stub.bodies])


def test_a_process_without_memory_is_killed_and_taken_up_again(project, tmp_path):
    """The system kills it without a word, in the middle of a sample: here an eval's own code that asks for all there is."""
    made, log = project(ROWS), tmp_path / "log.jsonl"
    hungry = (
        "import os, evalframe\nfrom evalframe.evals.basic import Match\n\n\nclass Hungry(Match):\n    def eval_sample(self, sample, rng):\n"
    )
    hungry += "        if os.environ.get('HUNGRY') and sample['ideal'] == '77':\n            held = [bytearray(b'x' * 2**26) for _ in range(200)]\n"
    hungry += "        return super().eval_sample(sample, rng)\n"
    (tmp_path / "R" / "hungry.py").write_text(hungry, encoding="utf-8")
    path = tmp_path / "R" / "evals" / "count.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("evalframe.evals.basic:Match", "hungry:Hungry"), encoding="utf-8")
    limit = 1_500_000_000
    with ModelStub(lambda number, body: said(spoken(body))) as stub:
        command = made.command("--record_path", log, "--threads", WORKERS, "--sequential")
        process = subprocess.run(
            command, cwd=tmp_path, env=made.environment(stub, HUNGRY="1"), capture_output=True, text=True, timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )  # fmt: skip
        assert process.returncode == 1
        assert "MemoryError" in process.stdout
        done = resumed(made, stub, log)
        assert done.returncode == 0, done.stderr
        assert_whole(log, [spoken(body) for body in stub.bodies], most_twice=0)


@pytest.mark.parametrize("blocks", [8, 9, 12, 13, 17, 24, 33, 47])
def test_a_full_disk_keeps_whole_lines_and_says_what_to_do(project, tmp_path, blocks):
    """A limit on the file's size stands for the disk: the same failed write, in the middle of a line."""
    made, log = project(ROWS), tmp_path / "log.jsonl"
    with ModelStub(lambda number, body: said(spoken(body))) as stub:
        command = made.command("--record_path", log, "--threads", WORKERS)
        full = subprocess.run(
            command, cwd=tmp_path, env=made.environment(stub), capture_output=True, text=True, timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (blocks * 1024, blocks * 1024)),
        )  # fmt: skip
        assert full.returncode == 1
        assert "File too large" in full.stdout
        assert "Make room" in full.stdout
        assert f"evalframe resume {log}" in full.stderr
        assert "Traceback" not in full.stdout + full.stderr
        assert log.read_bytes().endswith(b"\n")
        kept = len([event for event in read_log(log).events("sample") if event.data["status"] == "completed"])
        assert f"{kept} completed" in full.stdout
        done = resumed(made, stub, log)
        assert done.returncode == 0, done.stderr
        assert f"{kept} of them were in the log already" in done.stdout
        assert_whole(log, [spoken(body) for body in stub.bodies], most_twice=2 * WORKERS)


def test_the_second_signal_ends_it_at_once(project, tmp_path):
    made, log = project(ROWS), tmp_path / "log.jsonl"
    with ModelStub(lambda number, body: Answer(body=b"", delay_s=20)) as stub:
        command = made.command("--record_path", log, "--threads", WORKERS, "--grace_s", "15")
        process = subprocess.Popen(
            command, cwd=tmp_path, env=made.environment(stub), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        wait_until(lambda: stub.count >= WORKERS, process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
        assert process.returncode == 130
        assert time.monotonic() - began < 5  # of the twenty that an answer takes
        assert "stopped at once" in stderr
        assert f"evalframe resume {log}" in stderr
