"""The command as a person uses it: real processes, real signals."""

import json
import re
import signal
import sys
import time
import xml.etree.ElementTree as ElementTree

import pytest
from number_rows import numbers

from evalframe.runs.config import RunConfig


def test_a_run_prints_its_report_and_its_log(workplace):
    done = workplace.run("oaieval", "last-word", "ten")
    assert done.returncode == 0, done.stderr
    (log,) = workplace.logs()
    assert re.search(r"accuracy +1\.0000", done.stdout)
    assert f"log      {log}" in done.stdout
    assert f"log: {log}" in done.stderr
    assert "10 of 10 samples done" in done.stderr
    assert [line.get("type", "line") for line in workplace.lines(log)].count("sample") == 10


def test_wrong_answers_alone_never_fail_a_run_and_a_threshold_does(workplace):
    wrong = ["oaieval", "last-word", "ten", "--completion_args", "wrong=[0,1,2,3,4,5,6,7,8,9]"]
    done = workplace.run(*wrong)
    assert done.returncode == 0
    assert re.search(r"accuracy +0\.0000", done.stdout)
    assert workplace.run(*wrong, "--min", "accuracy=0").returncode == 0
    failed = workplace.run(*wrong, "--min", "accuracy=0.5")
    assert failed.returncode == 1
    assert "accuracy must be 0.5 at least, but is 0." in failed.stderr
    assert workplace.run(*wrong, "--min", "accuracy").returncode == 2


@pytest.mark.parametrize("env", [
    {}, {"EVALS_SHOW_EVAL_PROGRESS": "0"}, {"EVALS_SHOW_EVAL_PROGRESS": "1"}, {"NO_COLOR": "1", "CI": "1"},
], ids=str)  # fmt: skip
def test_the_display_changes_nothing_but_the_display(workplace, env):
    done = workplace.run("oaieval", "last-word", "ten", "--fail_on_error", "false", "--completion_args", "fail=[4]", env=env)
    assert done.returncode == 0
    assert "10 in all, 9 completed, 1 in error" in done.stdout
    assert re.search(r"accuracy +1\.0000", done.stdout)
    assert "accuracy_errors_as_wrong  0.9000" in done.stdout
    assert ("samples done" in done.stderr) == (env.get("EVALS_SHOW_EVAL_PROGRESS") != "0")
    for character in "\x1b\r":
        assert character not in done.stdout + done.stderr


def test_when_all_samples_fail_the_exit_code_is_not_0(workplace):
    done = workplace.run("oaieval", "last-word", "ten", "--fail_on_error", "false", "--completion_args", "fail=[0,1,2,3,4,5,6,7,8,9]")
    assert done.returncode == 1
    assert "10 of 10 samples failed. Most often (1): RuntimeError: no answer to" in done.stdout


def test_junit_tells_wrong_from_failed_and_is_valid_whatever_was_said(workplace):
    done = workplace.run(
        "oaieval", "last-word", "ten", "--junit", "out.xml", "--fail_on_error", "false", "--completion_args", "wrong=[1],fail=[2]"
    )
    assert done.returncode == 0, done.stderr
    root = ElementTree.parse(workplace.folder / "out.xml").getroot()
    suite = root if root.tag == "testsuite" else root.find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("10", "1", "1")


def test_json_is_all_there_is_on_stdout(workplace):
    done = workplace.run("oaieval", "last-word", "ten", "--json")
    told = json.loads(done.stdout)
    assert (told["status"], told["report"]["accuracy"], told["samples"]["completed"]) == ("success", 1.0, 10)


@pytest.mark.parametrize(("arguments", "told"), [
    (["last-word", "tenn"], 'UnknownName: no eval "tenn".* Closest: ten'),
    (["last-word", "ten", "--max_sample", "3"], "unrecognized arguments: --max_sample 3. Closest: --max_samples"),
    (["last-word"], "the following arguments are required: eval"),
    (["last-word", "ten", "--max_samples", "0"], "--max_samples takes a whole number, at least 1"),
    (["last-word", "ten", "--seed", "1.5"], "--seed takes a whole number"),
    (["last-word", "ten", "--completion_args", "dellay_s=3"], 'takes no argument "dellay_s" .closest: delay_s'),
    (["last-word", "ten", "--extra_eval_params", "nonsense=1"], 'takes no argument "nonsense"'),
    (["last-word", "ten", "--http-run"], "Say --http-run-url"),
    (["last-word", "ten", "--record_path", "/proc/nope/out.jsonl"], "cannot make the log /proc/nope/out.jsonl"),
    (["last-word", "ten", "--registry_path", "nowhere"], "nowhere"),
    (["last-word", "ten", "--extra_eval_params", "seed=3"], "seed cannot be given as an argument"),
    (["last-word", "ten", "--junit", "/proc/nope/out.xml"], "--junit /proc/nope/out.xml cannot be written"),
    (["last-wrod", "ten"], 'no completion function is called "last-wrod" .closest: last-word.* OPENAI_API_KEY is not set'),
    (["", "ten"], "the name of a completion function is empty"),
    (["last-word", ""], 'no eval ""'),
    (["last-word", "ten", "--record_path", "a" * 300], "File name too long"),
    (["last-word", "ten", "--threads", "100000000"], "--threads takes a whole number, from 1 to 10,000"),
])  # fmt: skip
def test_a_wrong_question_is_told_in_words(workplace, arguments, told):
    done = workplace.run("oaieval", *arguments)
    assert done.returncode == 2
    assert re.search(told, done.stderr, re.DOTALL), done.stderr
    assert "Traceback" not in done.stderr
    assert workplace.logs() == []


def test_all_faults_are_told_at_once(workplace):
    done = workplace.run("oaieval", "last-word", "tenn", "--completion_args", "dellay_s=3")
    assert "tenn" in done.stderr
    assert "dellay_s" in done.stderr
    assert "Run again with --debug" not in done.stderr


def test_debug_shows_the_traceback(workplace):
    assert "Traceback" in workplace.run("oaieval", "last-word", "tenn", "--debug").stderr


def test_dashes_and_underscores_in_flags_are_the_same(workplace):
    done = workplace.run("oaieval", "last-word", "ten", "--max-samples=2", "--fail-on-error", "false", "--dry_run", "--no-dry_run_logging")
    assert done.returncode == 0, done.stderr
    assert "2 in all, 2 completed" in done.stdout


def test_every_flag_of_the_mould_is_taken(workplace):
    done = workplace.run(
        "oaieval", "last-word", "ten", "--extra_eval_params", "", "--completion_args", "", "--max_samples", "2", "--no-cache", "--cache", "--visible",
        "--no-visible", "--seed", "7", "--user", "me", "--record_path", "a/b.jsonl", "--log_to_file", "messages.txt", "--debug", "--no-debug",
        "--local-run", "--no-http-run", "--http-batch-size", "10", "--http-fail-percent-threshold", "5", "--no-dry-run", "--dry-run-logging",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert workplace.lines(workplace.folder / "a" / "b.jsonl")[1]["created_by"] == "me"
    assert "log: " in (workplace.folder / "messages.txt").read_text(encoding="utf-8")


def test_help_names_every_setting(workplace):
    done = workplace.run("oaieval", "--help", registry=False)
    assert done.returncode == 0
    for name, known in RunConfig.settings().items():
        assert (known.flag or f"--{name}") in done.stdout
        assert known.variable is None or f"[{known.variable}]" in " ".join(done.stdout.split())


def test_no_locale_matters(workplace):
    (workplace.folder / "R" / "evals" / "jp.yaml").write_text("# 東京\n", encoding="utf-8")
    workplace.add_eval("odd", [{"input": "Say 1", "ideal": "東京"}])
    env = {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [
        sys.executable,
        "-X",
        "warn_default_encoding",
        "-W",
        "error::EncodingWarning",
        "-m",
        "evalframe.cli.oaieval",
        "last-word",
        "odd",
    ]
    done = workplace.run(*command, "--record_path", "out.jsonl", env=env)
    assert done.returncode == 0, done.stderr
    assert "東京" in (workplace.folder / "out.jsonl").read_text(encoding="utf-8")


def test_a_reader_that_goes_away_is_no_error(workplace):
    done = workplace.run("bash", "-c", "oaieval last-word ten --registry_path R | true; exit ${PIPESTATUS[0]}", registry=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_twenty_runs_at_once_write_twenty_logs(workplace):
    runs = [workplace.start("oaieval", "last-word", "ten", "--max_samples", "3", "--log_dir", "L") for _ in range(20)]
    for process in runs:
        process.communicate(timeout=60)
    assert [process.returncode for process in runs] == [0] * 20
    logs = workplace.logs("L")
    assert len(logs) == 20
    assert len({workplace.lines(log)[0]["spec"]["run_id"] for log in logs}) == 20
    assert all([line.get("type") for line in workplace.lines(log)].count("match") == 3 for log in logs)


def wait_for_samples(workplace, count, folder="evallogs"):
    for _ in range(600):
        logs = workplace.logs(folder)
        if logs and logs[0].read_bytes().count(b'"type":"sample"') >= count:
            return logs[0]
        time.sleep(0.02)
    raise AssertionError("the run did not get on")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_ends_a_run_in_order(workplace, number, code):
    workplace.add_eval("fifty", numbers(50))
    process = workplace.start(
        "oaieval", "last-word", "fifty", "--completion_args", "hang_from=40", "--grace_s", "0.5", env={"EVALS_THREADS": "20"}
    )
    log = wait_for_samples(workplace, 40)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == code
    assert "status   cancelled: interrupted after 40 of 50 samples." in stdout
    assert "stopping: samples in flight get 0.5 s; a second Ctrl-C stops at once" in stderr
    assert str(log) in stdout
    lines = workplace.lines(log)
    assert (lines[-1]["status"], lines[-1]["samples"]["completed"], lines[-1]["final_report"]["accuracy"]) == ("cancelled", 40, 1.0)
    assert "Traceback" not in stderr


def test_the_second_signal_ends_it_at_once(workplace):
    process = workplace.start("oaieval", "last-word", "ten", "--completion_args", "hang_from=5", "--grace_s", "60")
    log = wait_for_samples(workplace, 5)
    process.send_signal(signal.SIGINT)
    time.sleep(1)  # two signals that are pending at once would be one
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert log.read_bytes().count(b'"type":"sample"') == 5


def test_samples_in_flight_may_end_within_the_grace(workplace):
    process = workplace.start("oaieval", "last-word", "ten", "--completion_args", "delay_s=0.4", "--threads", "2")
    wait_for_samples(workplace, 2)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert re.search("interrupted after [468] of 10", stdout)  # the two in flight had time to end; on a slow machine two more had begun
    assert ", interrupted" not in stdout


def test_sequential_runs_can_be_interrupted_too(workplace):
    process = workplace.start("oaieval", "last-word", "ten", "--completion_args", "delay_s=0.2", env={"EVALS_SEQUENTIAL": "1"})
    wait_for_samples(workplace, 2)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "status   cancelled" in stdout


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-", "2>&1 | true"])
def test_a_run_goes_on_where_nobody_listens(workplace, closing):
    done = workplace.run("bash", "-c", f"oaieval last-word ten --registry_path R --record_path out.jsonl {closing}", registry=False)
    assert "Traceback" not in done.stderr
    assert workplace.lines(workplace.folder / "out.jsonl")[-1]["samples"]["completed"] == 10


def test_any_name_can_be_printed_in_any_locale(workplace):
    workplace.add_eval("東京", [{"input": "Say 1", "ideal": "1"}])
    (workplace.folder / "R" / "eval_sets" / "jp.yaml").write_text("jp: {evals: [東京]}\n", encoding="utf-8")
    env = {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:strict"}
    done = workplace.run("oaievalset", "last-word", "jp", env=env)
    assert "UnicodeEncodeError" not in done.stderr
    assert "\\u6771\\u4eac.dev.v0" in done.stdout
