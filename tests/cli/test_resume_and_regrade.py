"""`evalframe resume`, `evalframe regrade` and `oaieval --resume` as a person at a terminal meets them: real processes, killed and stopped."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from xml.etree import ElementTree

import pytest
from loopback import Answer, ModelStub
from number_rows import numbers

from evalframe.cli.main import main as evalframe
from evalframe.cli.oaieval import main as oaieval
from evalframe.logs.run_log import read_log

MATCH = "evalframe.evals.basic:Match"
EXAMPLE_SPEC = {
    "completion_fns": ["gpt-4"], "eval_name": "ten.dev.v0", "base_eval": "ten", "split": "dev", "run_config": {"seed": 1}, "created_by": "",
    "run_id": "230101120000ABCDEFGH", "created_at": "2023-01-01 12:00:00",
}  # fmt: skip


@pytest.fixture
def place(workplace):
    """A workplace with runs that are killed, and readings of their logs."""

    def killed(*words, plan="kill=[3];delay_s=0.02", command=("oaieval", "planned", "ten"), log="log.jsonl"):
        """A run that -9 has ended."""
        workplace.set_plan(plan)
        done = workplace.run(*command, *(["--record_path", log] if log else []), "--threads", "2", *words)
        assert done.returncode == -9, done.stderr
        workplace.set_plan("")
        return workplace.folder / (log or "")

    def start(*words):
        started.append(begin(*words))
        return started[-1]

    started, begin = [], workplace.start
    workplace.killed, workplace.start = killed, start
    yield workplace
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def here(workplace, monkeypatch, capsys):
    """Commands given in this process, which is quicker; for those that import nothing of the workplace's own."""
    monkeypatch.chdir(workplace.folder)
    monkeypatch.setenv("HOME", workplace.env["HOME"])

    def run(command, *words):
        capsys.readouterr()
        given = [*map(str, words), "--registry_path", "R"]
        try:
            code = oaieval(given) if command == "oaieval" else evalframe(given)
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return subprocess.CompletedProcess([command, *given], code, said.out, said.err)

    workplace.run = run
    return workplace


def resume_lines(log):
    return [line["resume"] for line in map(json.loads, log.read_bytes().splitlines()) if "resume" in line]


def ended_in(log):
    """The numbers whose samples have ended in a log."""
    return [int(event.sample_id.rpartition(".")[2]) for event in read_log(log).events("sample", all_attempts=True)]


def assert_as_undisturbed(place, log, *words, command=("oaieval", "planned", "ten")):
    """The log tells what the log of an undisturbed run does, each sample once."""
    done = place.run(*command, "--record_path", "undisturbed.jsonl", *words)
    assert done.returncode == 0, done.stderr
    mine, other = read_log(log), read_log(place.folder / "undisturbed.jsonl")
    assert (mine.status, mine.samples, mine.final_report) == (other.status, other.samples, other.final_report)
    for kind in ("match", "sampling"):
        said = [sorted((event.sample_id, event.epoch, json.dumps(event.data)) for event in one.events(kind)) for one in (mine, other)]
        assert said[0] == said[1]
    numbered = [line for line in mine.lines() if "event_id" in line]
    assert len({line["event_id"] for line in numbered}) == len(numbered)
    assert len({line["run_id"] for line in numbered}) == 1


def wait_until(is_so, *processes):
    """Wait for something, as long as one of these goes on."""
    end = time.monotonic() + 60
    while not is_so() and any(process.poll() is None for process in processes):
        assert time.monotonic() < end
        time.sleep(0.01)


def away(place, *words, name="elsewhere", env=None):
    """A command given in another folder, without a word of the registry."""
    (place.folder / name).mkdir(exist_ok=True)
    return subprocess.run(
        [str(word) for word in words],
        cwd=place.folder / name,
        env={**place.env, **(env or {})},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


# ---------------------------------------------------------------------- resume


@pytest.mark.parametrize("command", [
    ("evalframe", "resume", "log.jsonl"),
    ("oaieval", "planned", "ten", "--resume", "log.jsonl"),
    ("oaieval", "--resume", "log.jsonl", "planned", "ten"),
    ("oaieval", "planned", "ten", "--record_path", "log.jsonl", "--resume"),
], ids=" ".join)  # fmt: skip
def test_a_killed_run_goes_on_and_asks_nothing_that_has_ended(place, command):
    log = place.killed()
    ended = ended_in(log)
    before = place.asked()
    done = place.run(*command, registry=command[0] == "oaieval")
    assert done.returncode == 0, done.stderr
    assert f"log: {log}, taken up again" in done.stderr
    assert f"samples  10 in all, 10 completed in {seconds(done.stdout)} s; {len(ended)} of them were in the log already" in done.stdout
    assert {number: times - before.get(number, 0) for number, times in place.asked().items() if number in ended} == dict.fromkeys(ended, 0)
    assert set(place.asked()) == set(range(10))
    assert_as_undisturbed(place, log)


def seconds(stdout):
    return next(line for line in stdout.splitlines() if line.startswith("samples")).split(" in ")[2].split(" s")[0]


def test_without_a_path_it_is_the_newest_that_fits_and_before_the_words_too(place):
    place.killed(log=None)
    assert len(place.logs()) == 1
    done = place.run("oaieval", "--resume", "planned", "ten")
    assert done.returncode == 0, done.stderr
    assert len(place.logs()) == 1
    assert_as_undisturbed(place, place.logs()[0])


def test_where_there_is_none_the_exit_code_is_2_and_it_is_said_what_to_do(place):
    done = place.run("oaieval", "planned", "ten", "--resume")
    assert (done.returncode, done.stdout, place.asked()) == (2, "", {})
    assert "BadLog: no log in" in done.stderr
    assert "tells of ten.dev.v0 with planned: there is nothing to take up. Name one with --resume LOG" in done.stderr
    assert "Traceback" not in done.stderr
    assert place.logs() == []


def test_what_the_log_says_of_settings_holds_and_what_is_given_goes_over_it(place):
    log = place.killed(
        "--max_samples", "8", "--retry_on_error", "1", "--timeout_s", "7", "--fail_on_error", "0.5", "--epochs_reducer", "max"
    )
    done = place.run("evalframe", "resume", log, registry=False)
    assert done.returncode == 0, done.stderr
    assert "8 of 8 samples done" in done.stderr
    (line,) = resume_lines(log)
    assert line["changed"] == {}
    assert line["command"].endswith(f"resume {log}")
    place.run("evalframe", "resume", log, "--threads", "3", "--fail_on_error", "false", "--timeout_s", "9", registry=False)
    assert resume_lines(log)[1]["changed"] == {"threads": 3, "fail_on_error": False, "timeout_s": 9.0}
    assert_as_undisturbed(place, log, "--max_samples", "8", "--epochs_reducer", "max")


def test_the_environment_of_today_does_not_go_over_the_log(place):
    log = place.killed("--retry_on_error", "1")
    env = {"EVALFRAME_EPOCHS": "3", "EVALFRAME_RETRY_ON_ERROR": "5", "EVALS_THREADS": "7"}
    done = place.run("evalframe", "resume", log, registry=False, env=env)
    assert done.returncode == 0, done.stderr
    assert "10 of 10 samples done" in done.stderr
    assert read_log(log).settings["retry_on_error"] == 1


@pytest.mark.parametrize(
    ("words", "total"), [(["--max_samples", "7"], 7), (["--epochs", "3"], 15), (["--max_samples", "7", "--epochs", "2"], 14)], ids=str
)
def test_more_of_it_asks_only_what_is_new(place, words, total):
    assert place.run("oaieval", "planned", "ten", "--max_samples", "5", "--record_path", "log.jsonl").returncode == 0
    done = place.run("evalframe", "resume", "log.jsonl", *words, registry=False)
    assert done.returncode == 0, done.stderr
    assert len(place.calls()) == total
    assert f"{total} in all" in done.stdout
    assert "5 of them were in the log already" in done.stdout


def test_another_question_is_refused_and_the_log_stays_as_it_is(place):
    log = place.killed()
    before, calls = log.read_bytes(), place.calls()
    for words, told in (
        (["--seed", "7"], "seed was 20220722 and is 7"),
        (
            ["--max_samples", "3", "--turn_limit", "3"],
            "max_samples was not set and is 3; it may grow, not shrink; turn_limit was not set and is 3",
        ),
        (["--completion_args", "x=1"], 'completion_args was {} and is {"x": 1}'),
    ):
        for command in (("evalframe", "resume", log), ("oaieval", "planned", "ten", "--resume", log)):
            done = place.run(*command, *words)
            assert (done.returncode, done.stdout) == (2, "")
            assert told in done.stderr
            assert "Traceback" not in done.stderr
    assert (log.read_bytes(), place.calls()) == (before, calls)


def test_a_secret_has_to_be_given_again(place):
    log = place.killed("--completion_args", "api_key=sk-secret-1,x=1")
    done = place.run("evalframe", "resume", log, registry=False)
    assert done.returncode == 2
    assert "held a secret (api_key), which the log does not keep. Give --completion_args again." in done.stderr
    done = place.run("evalframe", "resume", log, "--completion_args", "api_key=sk-secret-1,x=1", registry=False)
    assert done.returncode == 0, done.stderr
    assert b"sk-secret" not in log.read_bytes()
    assert "sk-secret" not in done.stdout + done.stderr


def test_it_is_begun_in_the_folder_where_it_was_begun(place):
    replies = "".join(json.dumps({"prompt": f"Say the number {number}", "reply": str(number)}) + "\n" for number in range(10))
    (place.folder / "replies.jsonl").write_text(replies, encoding="utf-8")
    done = place.run(
        "oaieval", "scripted", "ten", "--completion_args", "replies_path=replies.jsonl", "--max_samples", "4", "--record_path", "log.jsonl"
    )
    assert done.returncode == 0, done.stderr
    done = away(place, "evalframe", "resume", "../log.jsonl", "--max_samples", "9")
    assert done.returncode == 0, done.stderr
    assert f"in {place.folder}, where it was begun" in done.stderr
    assert "9 of 9 samples done" in done.stderr
    assert sorted((place.folder / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(("flag", "value"), [("--junit", "out.xml"), ("--log_to_file", "messages.txt"), ("--registry_path", "../R")])
def test_what_is_named_on_the_command_line_lies_where_the_command_is_given(place, flag, value):
    log = place.killed()
    done = away(place, "evalframe", "resume", "../log.jsonl", flag, value)
    assert done.returncode == 0, done.stderr
    assert read_log(log).status == "success"
    assert (place.folder / "elsewhere" / value).exists()
    assert not (place.folder / value).exists()


def test_messages_may_go_to_a_file(place):
    log = place.killed()
    done = place.run("evalframe", "resume", log, "--log_to_file", "messages.txt", registry=False)
    assert done.returncode == 0, done.stderr
    assert "taken up again" in (place.folder / "messages.txt").read_text(encoding="utf-8")
    assert "taken up again" not in done.stderr


def test_a_folder_that_is_gone_is_replaced_by_this_one(place, tmp_path):
    place.killed()
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    shutil.copytree(tmp_path, moved)
    told = json.dumps(str(tmp_path))[1:-1]
    lines = (moved / "log.jsonl").read_text(encoding="utf-8")
    (moved / "log.jsonl").write_text(lines.replace(told, f"{told}-gone"), encoding="utf-8")
    done = subprocess.run(
        ["evalframe", "resume", "log.jsonl", "--registry_path", "R"],
        cwd=moved,
        env=place.env,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert read_log(moved / "log.jsonl").status == "success"


def test_a_registry_that_is_gone_is_told(place):
    log = place.killed()
    before = log.read_bytes()
    (place.folder / "R").rename(place.folder / "R2")
    done = place.run("evalframe", "resume", log, registry=False)
    assert (done.returncode, log.read_bytes()) == (2, before)
    assert str(place.folder / "R") in done.stderr
    assert "Traceback" not in done.stderr
    done = place.run("evalframe", "resume", log, "--registry_path", "R2", registry=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_taken_up_can_be_stopped_and_taken_up_again(place, number):
    log = place.killed()
    place.set_plan("delay_s=0.2")
    calls = len(place.calls())
    process = place.start("evalframe", "resume", log, "--threads", "1")
    wait_until(lambda: len(place.calls()) > calls + 1, process)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert f"to go on with what is left: evalframe resume {log}" in stderr
    assert read_log(log).status == "cancelled"
    place.set_plan("")
    assert place.run("evalframe", "resume", log, registry=False).returncode == 0
    assert_as_undisturbed(place, log)


def test_killed_again_and_again_it_asks_each_sample_that_has_ended_once(place):
    log = place.killed(plan="kill=[5];delay_s=0.01")
    ended = set(ended_in(log))
    for number in (2, 6, 4):
        place.set_plan(f"kill=[{number}];delay_s=0.01")
        before = place.asked()
        assert place.run("evalframe", "resume", log, registry=False).returncode == -9
        assert all(place.asked()[other] == before[other] for other in ended)
        ended = set(ended_in(log))
    place.set_plan("")
    assert place.run("evalframe", "resume", log, registry=False).returncode == 0
    assert_as_undisturbed(place, log)


def test_while_a_run_goes_on_no_other_process_takes_it_up(place):
    place.set_plan("hang_from=9")  # the fourth that is asked
    process = place.start("oaieval", "planned", "ten", "--record_path", "log.jsonl", "--threads", "1")
    log = place.folder / "log.jsonl"
    wait_until(lambda: 9 in place.calls(), process)
    before, calls = log.read_bytes(), place.calls()
    for command in (
        ("evalframe", "resume", log),
        ("oaieval", "planned", "ten", "--resume", log),
        ("oaieval", "planned", "ten", "--record_path", log),
    ):
        done = place.run(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert "another process is writing the log" in done.stderr
    assert (log.read_bytes(), place.calls(), process.poll()) == (before, calls, None)
    process.kill()
    process.communicate(timeout=60)
    place.set_plan("")
    assert place.run("evalframe", "resume", log, registry=False).returncode == 0
    assert place.asked() == {number: 1 + (number == 9) for number in range(10)}
    assert_as_undisturbed(place, log)


def test_of_several_that_take_it_up_at_once_one_does(place):
    log = place.killed()
    before = place.asked()
    place.set_plan("hang_from=0")
    processes = [place.start("evalframe", "resume", log, "--threads", "1") for _ in range(4)]
    wait_until(lambda: sum(process.poll() is not None for process in processes) == 3, *processes)
    (winner,) = [process for process in processes if process.poll() is None]
    for process in processes:
        if process is not winner:
            _, stderr = process.communicate(timeout=60)
            assert process.returncode == 2
            assert "another process is writing the log" in stderr
    wait_until(lambda: place.asked() != before, winner)
    assert sum((Counter(place.asked()) - Counter(before)).values()) == 1
    assert len(resume_lines(log)) == 1
    winner.kill()
    winner.communicate(timeout=60)
    place.set_plan("")
    assert place.run("evalframe", "resume", log, registry=False).returncode == 0
    assert_as_undisturbed(place, log)


def test_a_run_that_was_started_from_python_with_a_callable_is_taken_up_there(place):
    script = """
import os, sys
sys.path.insert(0, "R")
import evalframe
from probe import LastWord

class Mine(LastWord):
    def __call__(self, prompt, **options):
        if sys.argv[1] == "kill" and int(prompt.split()[-1]) == 4:
            os.kill(os.getpid(), 9)
        return super().__call__(prompt)

resume = {"record_path": "log.jsonl"} if sys.argv[1] == "kill" else {"resume": "log.jsonl"}
result = evalframe.run_eval(Mine(), "ten", registry_path="R", sequential=True, **resume)
print(result.status, result.reused, result.report["accuracy"])
"""
    (place.folder / "mine.py").write_text(script, encoding="utf-8")
    assert place.run(sys.executable, "mine.py", "kill", registry=False).returncode == -9
    log = place.folder / "log.jsonl"
    before, ended = log.read_bytes(), len(ended_in(log))
    done = place.run("evalframe", "resume", log)
    assert (done.returncode, log.read_bytes()) == (2, before)
    assert "was started from Python, with __main__:Mine: a command cannot make that again" in done.stderr
    assert f'run_eval(..., resume="{log}")' in done.stderr
    done = place.run(sys.executable, "mine.py", "go on", registry=False)
    assert done.stdout == f"success {ended} 1.0\n", done.stderr


@pytest.mark.parametrize(("content", "told"), [
    (None, "No such file"), (b"", ""), (b"no log\n", "is not a log of evalframe"), (b'{"spec": {"eval_na', "is not a log of evalframe"),
    (json.dumps({"spec": EXAMPLE_SPEC}).encode() + b"\n", "was not written by evalframe"), ("folder", "is no file, so it is no log"),
    (b'{"spec": {"evalframe": {"format": 1}}}\n', ""), (b'{"spec": {"evalframe": 5, "run_config": 5}}\n', ""),
], ids=str)  # fmt: skip
def test_what_is_no_log_is_told_in_words(here, content, told):
    path = here.folder / "x.jsonl"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    done = here.run("evalframe", "resume", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr
    assert "evalframe met an error of its own" not in done.stderr
    assert path.is_dir() or not path.exists() or path.read_bytes() == content


@pytest.mark.parametrize(
    "words", [["--record_path", "y.jsonl"], ["--log_dir", "L"], ["--dry-run"], ["--resume"], ["--nonsense"], ["more"]], ids=" ".join
)
def test_flags_that_make_no_sense_here_are_not_taken(here, words):
    done = here.run("evalframe", "resume", "log.jsonl", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: unrecognized arguments" in done.stderr


def test_json_is_all_there_is_on_stdout_and_tells_what_was_there(place):
    log = place.killed()
    ended = len(ended_in(log))
    done = place.run("evalframe", "resume", log, "--json", registry=False)
    told = json.loads(done.stdout)
    assert (told["eval"], told["status"], told["reused"], told["log"]) == ("ten.dev.v0", "success", ended, str(log))
    assert told["samples"] == {"total": 10, "completed": 10, "error": 0, "limit": 0, "unscored": 0}
    assert told["report"]["usage"]["planned"]["calls"] == 10


def test_junit_after_it_holds_every_sample_once(place):
    place.set_plan("fail=[3];wrong=[5]")
    done = place.run("oaieval", "planned", "ten", "--record_path", "log.jsonl", "--junit", "first.xml")
    assert done.returncode == 1
    place.set_plan("wrong=[5]")
    done = place.run("evalframe", "resume", "log.jsonl", "--junit", "second.xml", registry=False)
    assert done.returncode == 0, done.stderr
    suite = ElementTree.parse(place.folder / "second.xml").getroot()
    suite = suite if suite.tag == "testsuite" else suite[0]
    assert sorted(case.attrib["name"] for case in suite.iter("testcase")) == [f"ten.dev.{number}" for number in range(10)]
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("10", "1", "0")


def test_a_threshold_holds_for_the_whole_run(place):
    log = place.killed(plan="kill=[4];wrong=[1,2];delay_s=0.02")
    place.set_plan("wrong=[1,2]")
    done = place.run("evalframe", "resume", log, "--min", "accuracy=0.9", registry=False)
    assert done.returncode == 1
    assert "accuracy" in done.stderr
    assert place.run("evalframe", "resume", log, "--min", "accuracy=0.8", registry=False).returncode == 0


def test_events_of_what_is_new_can_be_sent_elsewhere(place):
    log = place.killed()
    ended = ended_in(log)
    with ModelStub(lambda number, body: Answer(204)) as stub:
        url = f"http://127.0.0.1:{stub.port}/events"
        done = place.run("evalframe", "resume", log, "--http-run", "--http-run-url", url, "--http-batch-size", "4", registry=False)
    assert done.returncode == 0, done.stderr
    sent = [event for body in stub.bodies for event in (body if isinstance(body, list) else [body])]
    ends = [int(event["sample_id"].rpartition(".")[2]) for event in sent if event.get("type") == "sample"]
    assert sorted(ends) == sorted(set(range(10)) - set(ended))
    assert_as_undisturbed(place, log)


def test_a_comma_parts_several_models_again(place):
    place.add_eval("two", numbers(4), cls="probe:Numbers")
    place.killed(command=("oaieval", "planned,last-word", "two"), plan="kill=[2]")
    done = place.run("evalframe", "resume", "log.jsonl", registry=False)
    assert done.returncode == 0, done.stderr
    assert read_log(place.folder / "log.jsonl").samples["completed"] == 4


def test_arguments_of_the_eval_are_those_of_the_log(place):
    place.add_eval("basic", numbers(6), cls=MATCH)
    log = place.killed("--extra_eval_params", "max_tokens=5", command=("oaieval", "planned", "basic"))
    done = place.run("evalframe", "resume", log, registry=False)
    assert done.returncode == 0, done.stderr
    assert resume_lines(log)[0]["changed"] == {}


# ---------------------------------------------------------------------- sets


@pytest.fixture
def trio(place):
    """Three evals of eight samples; the numbers of each are its own."""
    for number, name in enumerate(("alpha", "beta", "gamma")):
        place.add_eval(name, numbers(8, start=100 * number))
    place.add_set("trio", ["alpha", "beta", "gamma"])
    return place


SET = ("oaievalset", "planned", "trio")


def statuses(done):
    lines = done.stdout.strip().splitlines()[-3:]
    known = ("done before", "success", "error", "cancelled", "not begun", "could not begin")
    return [(line.split()[0], next(status for status in known if status in line)) for line in lines]


@pytest.mark.parametrize("kill", [5, 103, 206])
def test_a_killed_set_repeats_exactly_what_had_not_ended(trio, kill):
    trio.set_plan(f"kill=[{kill}];delay_s=0.01")
    assert trio.run(*SET, "--parallel", "3", "--threads", "4").returncode == -9
    ended = {}
    for log in trio.logs():
        read = read_log(log)
        offset = {"alpha": 0, "beta": 100, "gamma": 200}[read.spec["base_eval"]]
        ended |= {offset + int(event.sample_id.rpartition(".")[2]): log for event in read.events("sample")}
    before, logs = trio.asked(), set(trio.logs())
    trio.set_plan("")
    done = trio.run(*SET, "--parallel", "3", "--threads", "4")
    assert done.returncode == 0, done.stderr
    assert all(trio.asked()[number] == before[number] for number in ended)
    assert set(trio.asked()) == {*range(8), *range(100, 108), *range(200, 208)}
    assert len(trio.logs()) == 3
    assert logs <= set(trio.logs())
    assert [name for name, _ in statuses(done)] == ["alpha.dev.v0", "beta.dev.v0", "gamma.dev.v0"]
    assert {read_log(log).status for log in trio.logs()} == {"success"}
    assert all(read_log(log).final_report["n"] == 8 for log in trio.logs())
    done = trio.run(*SET)
    assert (done.returncode, statuses(done)) == (0, [(f"{name}.dev.v0", "done before") for name in ("alpha", "beta", "gamma")])


def test_what_failed_is_repeated_and_the_table_is_in_the_registrys_order(trio):
    trio.set_plan("fail=[3,203];delay_s=0.01")
    done = trio.run(*SET, "--parallel", "3")
    assert (done.returncode, statuses(done)) == (1, [("alpha.dev.v0", "error"), ("beta.dev.v0", "success"), ("gamma.dev.v0", "error")])
    assert "not done: alpha.dev.v0, gamma.dev.v0. The same command runs what is missing." in done.stderr
    before = trio.asked()
    trio.set_plan("fail=[203]")
    done = trio.run(*SET)
    assert (done.returncode, statuses(done)) == (
        1,
        [("alpha.dev.v0", "success"), ("beta.dev.v0", "done before"), ("gamma.dev.v0", "error")],
    )
    assert Counter(trio.asked()) - Counter(before) == Counter([3, 203])
    trio.set_plan("")
    done = trio.run(*SET)
    assert (done.returncode, len(trio.logs())) == (0, 3)


def test_a_log_of_a_set_can_be_taken_up_by_itself(trio):
    trio.set_plan("fail=[3]")
    done = trio.run(*SET)
    command = next(line.partition(": ")[2] for line in done.stderr.splitlines() if "to go on with what is left" in line)
    trio.set_plan("")
    done = trio.run(*command.split(), registry=False)
    assert done.returncode == 0, done.stderr
    done = trio.run(*SET)
    assert {status for _, status in statuses(done)} == {"done before"}


def test_an_eval_that_cannot_begin_stops_no_other_and_is_told(trio):
    (trio.folder / "R" / "data" / "beta" / "s.jsonl").write_text('{"input": "Say 1", "ideal": "1"}\n{broken\n', encoding="utf-8")
    done = trio.run(*SET, "--parallel", "1")
    assert (done.returncode, statuses(done)) == (
        2,
        [("alpha.dev.v0", "success"), ("beta.dev.v0", "could not begin"), ("gamma.dev.v0", "success")],
    )
    assert "s.jsonl:2" in done.stderr
    data = "".join(json.dumps(row) + "\n" for row in numbers(8, start=100))
    (trio.folder / "R" / "data" / "beta" / "s.jsonl").write_text(data, encoding="utf-8")
    done = trio.run(*SET)
    assert (done.returncode, statuses(done)[1]) == (0, ("beta.dev.v0", "success"))
    assert trio.asked() == dict.fromkeys([*range(8), *range(100, 108), *range(200, 208)], 1)


def test_after_the_first_that_fails_no_other_is_begun_where_that_is_asked_for(trio):
    trio.set_plan("fail=[3]")
    done = trio.run(*SET, "--parallel", "1", "--exit-on-error")
    assert (done.returncode, statuses(done)) == (
        1,
        [("alpha.dev.v0", "error"), ("beta.dev.v0", "not begun"), ("gamma.dev.v0", "not begun")],
    )
    assert len(trio.logs()) == 1
    trio.set_plan("")
    assert trio.run(*SET, "--exit-on-error").returncode == 0
    assert trio.asked() == {**dict.fromkeys([*range(8), *range(100, 108), *range(200, 208)], 1), 3: 2}


def test_an_eval_that_cannot_begin_is_a_failure_where_the_first_one_ends_the_set(trio):
    (trio.folder / "R" / "data" / "alpha" / "s.jsonl").unlink()
    done = trio.run(*SET, "--parallel", "1", "--exit-on-error")
    assert (done.returncode, [status for _, status in statuses(done)]) == (2, ["could not begin", "not begun", "not begun"])
    assert trio.asked() == {}


@pytest.mark.parametrize(("parallel", "threads"), [(3, 2), (3, 5), (1, 4)])
def test_threads_are_the_samples_at_once_of_all_evals_together(trio, parallel, threads):
    trio.set_plan("delay_s=0.02")
    assert trio.run(*SET, "--parallel", parallel, "--threads", threads).returncode == 0
    assert 2 <= trio.most_at_once() <= threads


def test_one_after_the_other_is_one_at_once(trio):
    trio.set_plan("delay_s=0.005")
    assert trio.run(*SET, "--sequential").returncode == 0
    assert trio.most_at_once() == 1


ASYNC = """
import asyncio
import evalframe
from probe import Numbers


class Waits(Numbers):
    async def eval_sample(self, sample, rng):
        await asyncio.sleep(0.001)
        super().eval_sample(sample, rng)
"""


def test_evals_written_as_coroutines_run_beside_the_others_and_are_taken_up(trio):
    (trio.folder / "R" / "waits.py").write_text(ASYNC, encoding="utf-8")
    for number, name in enumerate(("tide", "wave")):
        trio.add_eval(name, numbers(8, start=1000 + 100 * number), cls="waits:Waits")
    trio.add_set("mixed", ["tide", "wave", "alpha"])
    trio.set_plan("fail=[1003,3]")
    done = trio.run("oaievalset", "planned", "mixed", "--parallel", "3", "--threads", "4")
    assert (done.returncode, statuses(done)) == (1, [("alpha.dev.v0", "error"), ("tide.dev.v0", "error"), ("wave.dev.v0", "success")])
    trio.set_plan("")
    done = trio.run("oaievalset", "planned", "mixed", "--parallel", "3", "--threads", "4")
    assert (done.returncode, statuses(done)) == (
        0,
        [("alpha.dev.v0", "success"), ("tide.dev.v0", "success"), ("wave.dev.v0", "done before")],
    )
    assert {number: times for number, times in trio.asked().items() if times > 1} == {3: 2, 1003: 2}


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_evals_in_order_and_the_same_command_goes_on(trio, parallel, number):
    trio.set_plan("delay_s=0.1")
    process = trio.start(*SET, "--parallel", str(parallel), "--threads", "2")
    wait_until(lambda: len(trio.calls("end")) >= 3, process)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert "not done: " in stderr
    assert "Traceback" not in stderr
    lines = stdout.strip().splitlines()[-3:]
    assert [line.split()[0] for line in lines] == ["alpha.dev.v0", "beta.dev.v0", "gamma.dev.v0"]
    assert {read_log(log).status for log in trio.logs()} == {"cancelled"}
    before, had = trio.asked(), len(trio.logs())
    assert set(before) == set(trio.calls("end"))  # what was in flight has ended within its grace
    trio.set_plan("")
    done = trio.run(*SET)
    assert (done.returncode, len(trio.logs())) == (0, 3), done.stderr
    assert had <= 3
    assert trio.asked() == dict.fromkeys([*range(8), *range(100, 108), *range(200, 208)], 1)


def test_a_second_signal_ends_the_set_at_once_and_the_same_command_goes_on(trio):
    trio.set_plan("hang_from=3;delay_s=0.01")
    process = trio.start(*SET, "--parallel", "3", "--threads", "6", "--grace_s", "60")
    wait_until(lambda: len(trio.calls()) - len(trio.calls("end")) == 6, process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    ended = {number: times for number, times in trio.asked().items() if number in trio.calls("end")}
    trio.set_plan("")
    done = trio.run(*SET)
    assert (done.returncode, len(trio.logs())) == (0, 3), done.stderr
    assert {number: trio.asked()[number] for number in ended} == ended


def test_a_line_of_the_sets_file_that_a_crash_has_torn_costs_nothing_but_itself(trio):
    trio.add_set("trio", ["alpha"])
    assert trio.run(*SET).returncode == 0
    (ledger,) = (trio.folder / "evallogs").glob("*.set.jsonl")
    ledger.write_bytes(ledger.read_bytes() + b'{"eval": "beta.dev.v0", "finger')
    trio.add_set("trio", ["alpha", "beta", "gamma"])
    assert trio.run(*SET).returncode == 0
    done = trio.run(*SET)
    assert {status for _, status in statuses(done)} == {"done before"}
    assert len(trio.logs()) == 3


def test_while_one_process_runs_a_set_another_does_it_no_harm(trio):
    trio.set_plan("hang_from=5")
    process = trio.start(*SET, "--parallel", "3", "--threads", "3")
    wait_until(lambda: len(trio.logs()) == 3 and len(trio.calls()) - len(trio.calls("end")) == 3, process)
    before, calls = {log: log.read_bytes() for log in trio.logs()}, trio.calls()
    other = trio.run(*SET)
    assert (other.returncode, [status for _, status in statuses(other)]) == (2, ["could not begin"] * 3)
    assert other.stderr.count("another process is writing the log") == 3
    assert ({log: log.read_bytes() for log in trio.logs()}, trio.calls()) == (before, calls)
    process.kill()
    process.communicate(timeout=60)
    ended = trio.calls("end")
    trio.set_plan("")
    assert trio.run(*SET).returncode == 0
    assert {number: trio.asked()[number] for number in ended} == dict.fromkeys(ended, 1)
    assert len(trio.logs()) == 3


# ---------------------------------------------------------------------- regrade


@pytest.fixture
def graded(here):
    """A log of ten answers, of which an eval that wants the bare number takes four for wrong."""
    here.add_eval("strict", numbers(10), cls=MATCH)
    here.add_eval("lax", numbers(10), cls="evalframe.evals.basic:Includes")
    replies = "".join(json.dumps({"prompt": f"Say the number {n}", "reply": f"It is {n}" if n < 4 else str(n)}) + "\n" for n in range(10))
    (here.folder / "replies.jsonl").write_text(replies, encoding="utf-8")
    done = here.run("oaieval", "scripted", "strict", "--completion_args", "replies_path=replies.jsonl", "--record_path", "log.jsonl")
    assert done.returncode == 0, done.stderr
    (here.folder / "replies.jsonl").unlink()  # nobody can be asked any more
    here.log = here.folder / "log.jsonl"
    return here


def test_a_log_is_graded_again_and_nothing_changes(graded):
    before = graded.log.read_bytes()
    done = graded.run("evalframe", "regrade", "log.jsonl", "--record_path", "again.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("no verdict changed")
    assert graded.log.read_bytes() == before
    again = read_log(graded.folder / "again.jsonl")
    assert again.spec["run_config"]["source"]["log"] == str(graded.log)
    assert again.final_report["accuracy"] == read_log(graded.log).final_report["accuracy"] == 0.6


def test_verdicts_that_changed_are_shown(graded):
    done = graded.run("evalframe", "regrade", "log.jsonl", "--eval", "lax", "--record_path", "again.jsonl")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("lax.dev.") and not line.startswith("lax.dev.v0")]
    assert sorted(rows) == [[f"lax.dev.{number}", "false", "true"] for number in range(4)]
    assert read_log(graded.folder / "again.jsonl").final_report["verdicts_changed"] == 4
    assert len(list(read_log(graded.folder / "again.jsonl").events("verdict_changed"))) == 4


def test_where_many_changed_the_first_are_shown_and_the_rest_is_counted(here):
    here.add_eval("strict", numbers(30), cls=MATCH)
    here.add_eval("lax", numbers(30), cls="evalframe.evals.basic:Includes")
    assert here.run("oaieval", "echo", "strict", "--record_path", "log.jsonl").returncode == 0
    done = here.run("evalframe", "regrade", "log.jsonl", "--eval", "lax")
    assert sum(line.startswith("lax.dev.") and not line.startswith("lax.dev.v0") for line in done.stdout.splitlines()) == 20
    assert "... and 10 more" in done.stdout


def test_its_json_is_all_there_is_on_stdout(graded):
    done = graded.run("evalframe", "regrade", "log.jsonl", "--eval", "lax", "--json")
    told = json.loads(done.stdout)
    assert (told["status"], told["report"]["verdicts_changed"], told["report"]["accuracy"]) == ("success", 4, 1.0)


def test_thresholds_and_junit_hold_for_it_too(graded):
    done = graded.run("evalframe", "regrade", "log.jsonl", "--min", "accuracy=0.7", "--junit", "out.xml")
    assert done.returncode == 1
    assert len(list(ElementTree.parse(graded.folder / "out.xml").getroot().iter("testcase"))) == 10
    assert graded.run("evalframe", "regrade", "log.jsonl", "--eval", "lax", "--min", "accuracy=0.7").returncode == 0


def test_it_can_be_given_anywhere_and_the_registry_is_that_of_the_log(graded):
    done = away(graded, "evalframe", "regrade", "../log.jsonl")
    assert done.returncode == 0, done.stderr
    (log,) = (graded.folder / "elsewhere" / "evallogs").glob("*.jsonl")
    assert read_log(log).final_report["verdicts_changed"] == 0


def test_its_messages_may_go_to_a_file(graded):
    done = graded.run("evalframe", "regrade", "log.jsonl", "--log_to_file", "messages.txt")
    assert done.returncode == 0, done.stderr
    assert "strict.dev.v0 with replay/" in (graded.folder / "messages.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("words", "told"), [
    (["log.jsonl", "--eval", "lex"], 'no eval "lex"'), (["missing.jsonl"], "No such file"), (["replies.jsonl"], "cannot read the log"),
    (["R"], "is no file, so it is no log"), (["log.jsonl", "--record_path", "log.jsonl"], "exists already"), (["log.jsonl", "--timeout_s", "5"], "unrecognized"),
    (["log.jsonl", "--completion_args", "x=1"], "unrecognized"), (["log.jsonl", "--resume"], "unrecognized"), ([], "required: log"),
    (["log.jsonl", "--epochs", "0"], "--epochs takes a whole number"), (["log.jsonl", "--min", "accuracy"], "accuracy"),
], ids=" ".join)  # fmt: skip
def test_what_cannot_be_done_is_told_and_the_exit_code_is_2(graded, words, told):
    before = graded.log.read_bytes()
    done = graded.run("evalframe", "regrade", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert graded.log.read_bytes() == before
    assert graded.logs() == []


def test_a_log_can_be_asked_whatever_it_was_asked_before(graded):
    done = graded.run("oaieval", "replay/log.jsonl", "lax", "--record_path", "again.jsonl")
    assert done.returncode == 0, done.stderr
    assert read_log(graded.folder / "again.jsonl").final_report["accuracy"] == 1.0
    done = graded.run("oaieval", "replay/missing.jsonl", "lax")
    assert done.returncode == 2
    assert "there is no log" in done.stderr


def test_a_killed_regrading_goes_on_as_a_regrading(place):
    killer = """
import os
import evalframe


class Killer:
    def __call__(self, completion, sample):
        if sample.ideals[0] == os.environ.get("KILL_AT"):
            os.kill(os.getpid(), 9)
        return evalframe.Grade(0.0)
"""
    (place.folder / "R" / "killer.py").write_text(killer, encoding="utf-8")
    place.add_eval("strict", numbers(10), cls=MATCH)
    place.add_eval("never", numbers(10), cls="evalframe.evals.graded:Graded", grader="killer:Killer")
    place.set_plan("kill=[6];delay_s=0.01")
    assert place.run("oaieval", "planned", "strict", "--record_path", "log.jsonl", "--threads", "1").returncode == -9
    source = sorted(ended_in(place.folder / "log.jsonl"))
    words = ("evalframe", "regrade", "log.jsonl", "--eval", "never", "--record_path", "again.jsonl", "--sequential")
    assert place.run(*words, env={"KILL_AT": str(ended_in(place.folder / "log.jsonl")[1])}).returncode == -9
    before = place.calls()
    done = place.run("evalframe", "resume", "again.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["samples"]["total"], told["reused"], told["report"]["verdicts_changed"]) == (len(source), 1, len(source))
    assert place.calls() == before
