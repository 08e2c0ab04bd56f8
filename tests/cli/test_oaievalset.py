import signal
import time

import pytest
from number_rows import numbers


@pytest.fixture
def pair(workplace):
    workplace.add_eval("one", numbers(3))
    workplace.add_eval("two", numbers(3, start=100))
    workplace.add_set("pair", ["one", "two"])
    return workplace


def test_a_set_runs_its_evals_and_ends_with_a_table(pair):
    done = pair.run("oaievalset", "last-word", "pair", "--log_dir", "L")
    assert done.returncode == 0, done.stderr
    assert [line.split()[:3] for line in done.stdout.strip().splitlines()[-2:]] == [
        ["one.dev.v0", "success", "1.0000"],
        ["two.dev.v0", "success", "1.0000"],
    ]
    assert len(pair.logs("L")) == 2


def test_what_has_succeeded_is_not_run_again(pair):
    assert pair.run("oaievalset", "last-word", "pair").returncode == 0
    again = pair.run("oaievalset", "last-word", "pair")
    assert again.returncode == 0
    assert "done before" in again.stdout
    assert len(pair.logs()) == 2
    assert pair.run("oaievalset", "last-word", "pair", "--no-resume").returncode == 0
    assert len(pair.logs()) == 4


@pytest.mark.parametrize("change", ["settings", "data", "log gone"])
def test_what_has_changed_is_run_again(pair, change):
    pair.run("oaievalset", "last-word", "pair")
    more = []
    if change == "settings":
        more = ["--seed", "5"]
    elif change == "data":
        (pair.folder / "R" / "data" / "one" / "s.jsonl").write_text('{"input": "Say 5", "ideal": "5"}\n', encoding="utf-8")
    else:
        pair.logs()[0].unlink()
    before = len(pair.logs())
    assert pair.run("oaievalset", "last-word", "pair", *more).returncode == 0
    assert len(pair.logs()) - before == {"settings": 2, "data": 0, "log gone": 1}[change]  # changed rows are asked in the same run


def test_a_set_goes_on_after_a_failure_and_resume_repeats_what_failed(pair):
    pair.set_plan("fail=[1]")
    went_on = pair.run("oaievalset", "planned", "pair")
    assert went_on.returncode == 1
    assert [line.split()[:2] for line in went_on.stdout.splitlines()[-2:]] == [["one.dev.v0", "error"], ["two.dev.v0", "success"]]
    assert "not done: one.dev.v0" in went_on.stderr
    pair.set_plan("")
    again = pair.run("oaievalset", "planned", "pair")
    assert again.returncode == 0
    assert [line.split()[1] for line in again.stdout.splitlines()[-2:]] == ["success", "done"]
    assert len(pair.logs()) == 2
    assert pair.asked() == {0: 1, 1: 2, 2: 1, 100: 1, 101: 1, 102: 1}


def test_the_first_failure_stops_where_that_is_asked_for(pair):
    stopped = pair.run("oaievalset", "last-word", "pair", "--completion_args", "fail=[1]", "--exit-on-error", "--parallel", "1")
    assert stopped.returncode == 1
    assert stopped.stdout.splitlines()[-1].split() == ["two.dev.v0", "not", "begun"]


def test_evals_of_a_set_share_the_workers(pair):
    pair.add_eval("many", numbers(30, start=1000))
    pair.add_set("all", ["one", "two", "many"])
    pair.set_plan("delay_s=0.02")
    assert pair.run("oaievalset", "planned", "all", "--threads", "4", "--parallel", "3").returncode == 0
    assert 2 <= pair.most_at_once() <= 4


def test_parallel_is_a_number_from_one(pair):
    refused = pair.run("oaievalset", "last-word", "pair", "--parallel", "0")
    assert refused.returncode == 2
    assert "--parallel takes a whole number from 1, not 0" in refused.stderr


def test_settings_and_options_are_passed_on_from_anywhere(pair, tmp_path):
    done = pair.run(
        "bash", "-c", f"cd / && oaievalset last-word pair --registry_path {tmp_path}/R --log_dir {tmp_path}/L --completion_args delay_s=0",
        registry=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert pair.lines(pair.logs("L")[0])[0]["spec"]["run_config"]["completion_args"] == {"delay_s": 0}


def test_an_interrupt_stops_the_set(pair):
    process = pair.start("oaievalset", "last-word", "pair", "--completion_args", "delay_s=1", "--threads", "1")
    for _ in range(500):
        if pair.logs() and b'"type":"sample"' in pair.logs()[0].read_bytes():
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "cancelled" in stdout
    assert {pair.lines(log)[-1]["status"] for log in pair.logs()} == {"cancelled"}


def test_an_unknown_set_is_told(pair):
    done = pair.run("oaievalset", "last-word", "pear")
    assert done.returncode == 2
    assert 'no eval set "pear"' in done.stderr
    assert "pair" in done.stderr
