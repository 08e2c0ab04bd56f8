"""A run that is taken up again: which log, what must agree, what is asked, and that its report is that of one undisturbed run."""

import fcntl
import json
import os
import random
import shutil
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from loopback import Answer, ModelStub
from number_rows import numbers

from evalframe.cli.junit import outcomes
from evalframe.cli.oaieval import main
from evalframe.core.completion import Completion
from evalframe.core.errors import BadLog, BadSetting, EvalframeError, Faults, LogUnavailable
from evalframe.core.grade import Grade
from evalframe.core.recorder import record_match, record_sampling
from evalframe.eval import Eval
from evalframe.logs.run_log import read_log
from evalframe.registry.registry import Registry
from evalframe.runs.resume import asked_by
from evalframe.runs.run import run_eval

ROWS = 8
KINDS = ("match", "sampling", "sample", "metrics", "unscored", "error")
MATCH = "evalframe.evals.basic:Match"


class Says:
    """Says the number it is asked for, or what the test wants; keeps what it was asked, whoever made it and in which run."""

    model = "says"
    asked: list = []
    fail: set = set()
    wrong: set = set()
    stop_at: set = set()

    def __init__(self, word="", api_key=None):
        self.word = word

    def __call__(self, prompt, **options):
        number = int(str(prompt).split()[-1])
        Says.asked.append(number)
        if number in Says.stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        if number in Says.fail:
            raise ConnectionError(f"no answer to {number}")
        answer = "none" if number in Says.wrong else f"{self.word}{number}"
        record_sampling(prompt, answer, model=self.model, usage={"input_tokens": 10 + number, "output_tokens": 2})
        return Completion([answer])


class Twin(Says):
    """The same under another class."""


class Lenient:
    """A grader; gives no verdict on chosen answers."""

    def __init__(self, level=1, silent_on=""):
        self.level, self.silent_on = level, silent_on.split()

    def __call__(self, completion, sample):
        if completion in self.silent_on:
            return Grade.unscored(reason="cannot tell")
        return Grade(float(completion in sample.ideals), picked=completion, metrics={"length": len(completion) / 3})


@dataclass(frozen=True)
class Counted:
    """A grader whose field stands in the plan."""

    level: int = 1

    def __call__(self, completion, sample):
        return Grade(float(completion in sample.ideals))


class Desk:
    """A folder with a registry that has one eval "n" and some completion functions, and runs of it in this process."""

    def __init__(self, folder):
        self.folder, self.registry = folder, folder / "R"
        for kind in ("evals", "completion_fns", "data"):
            (self.registry / kind).mkdir(parents=True)
        self.functions(says={"class": f"{__name__}:Says"}, twin={"class": f"{__name__}:Twin"}, alias="says")
        self.eval()
        self.rows(numbers(ROWS))

    def functions(self, **entries):
        (self.registry / "completion_fns" / "f.yaml").write_text(json.dumps(entries), encoding="utf-8")

    def eval(self, cls=MATCH, *, version="v0", run=None, **args):
        entry = {"class": cls, "args": {"samples_jsonl": "s.jsonl", **args}, **({"run": run} if run else {})}
        spec = {"n": {"id": f"n.dev.{version}"}, f"n.dev.{version}": entry}
        (self.registry / "evals" / "n.yaml").write_text(json.dumps(spec), encoding="utf-8")

    def rows(self, rows):
        (self.registry / "data" / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def __call__(self, who="says", what="n", **settings):
        Says.asked.clear()
        return run_eval(who, what, registry=Registry([self.registry]), **{"sequential": True, **settings})

    def whole(self, **settings):
        """The same, undisturbed, as of now."""
        fail, Says.fail = Says.fail, set()
        try:
            return self(log_dir="undisturbed", **settings)
        finally:
            Says.fail = fail
            Says.asked.clear()

    def stopped(self, *numbers, **settings):
        """A run that a Ctrl-C ends at these numbers; the sample in flight still ends."""
        Says.stop_at = set(numbers)
        try:
            result = self(**settings)
        finally:
            Says.stop_at = set()
        assert (result.status, result.exit_code) == ("cancelled", 130)
        return result


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in (("asked", []), ("fail", set()), ("wrong", {1, 5}), ("stop_at", set())):
        monkeypatch.setattr(Says, name, value)
    return Desk(tmp_path)


def cut(log, ends):
    """Take from a log all that comes after so many ends of samples, as a kill would, and return the numbers of those that had ended."""
    raw = log.read_bytes().splitlines(keepends=True)
    places = [place for place, line in enumerate(raw) if json.loads(line).get("type") == "sample"]
    log.write_bytes(b"".join(raw[: places[ends - 1] + 1]))
    return [int(json.loads(raw[place])["sample_id"].rpartition(".")[2]) for place in places[:ends]]


def lines(path):
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


def order(desk):
    """The numbers in the order in which a run asks them."""
    desk(log_dir="order")
    found, Says.asked[:] = list(Says.asked), []
    return found


def comes_to(result):
    """What a run comes to: its report, its counts, and what its events say of each sample; and the log says the same."""
    log = read_log(result.log_path)
    assert (log.final_report, log.status, log.samples) == (result.report, result.status, result.counts.to_line())
    for kind in KINDS:
        assert list(log.events(kind)) == list(result.events(kind)), kind
    said = {
        kind: sorted((event.sample_id, event.epoch, json.dumps(event.data, sort_keys=True)) for event in result.events(kind))
        for kind in KINDS
        if kind != "sample"
    }
    ends = sorted((event.sample_id, event.epoch, event.data["status"], event.data["input_sha256"]) for event in result.events("sample"))
    cases = sorted((case.sample_id, case.status) for case in outcomes(result))
    return {"report": dict(result.report), "counts": result.counts.to_line(), "status": result.status, **said, "ends": ends, "cases": cases}


def assert_as_undisturbed(result, whole):
    """What a reader of the log can know of the run is what it knows of one that nothing has disturbed; and the log is sound."""
    assert comes_to(result) == comes_to(whole)
    told = [line for line in lines(result.log_path) if "event_id" in line]
    assert len({line["event_id"] for line in told}) == len(told)
    assert {line["run_id"] for line in told} == {read_log(result.log_path).spec["run_id"]}
    assert sum("spec" in line for line in lines(result.log_path)) == 1


def assert_refused(desk, log, *told, **settings):
    """The log is not taken up, nobody is asked, and not a byte of it changes."""
    before = log.read_bytes() if log.is_file() else None
    with pytest.raises(EvalframeError) as caught:
        desk(**{"resume": str(log), **settings})
    assert caught.value.exit_code == 2
    for words in told:
        assert words in str(caught.value), str(caught.value)
    assert Says.asked == []
    assert (log.read_bytes() if log.is_file() else None) == before
    return caught.value


# ---------------------------------------------------------------------- which log


def test_a_stopped_run_goes_on_where_it_ended(desk):
    asked = order(desk)
    stopped = desk.stopped(asked[2])
    assert Says.asked == asked[:3]
    assert stopped.can_be_resumed
    result = desk(resume=str(stopped.log_path))
    assert Says.asked == asked[3:]
    assert (result.reused, result.log_path, result.run_spec.run_id) == (3, stopped.log_path, stopped.run_spec.run_id)
    assert not result.can_be_resumed
    assert_as_undisturbed(result, desk.whole())


def test_without_a_path_the_newest_log_of_this_model_and_this_eval_is_taken_up(desk):
    asked = order(desk)
    logs = [desk.stopped(asked[number]).log_path for number in (0, 4, 2)]
    others = [desk.stopped(asked[1], who="twin").log_path]
    desk.eval(version="v1")
    others.append(desk.stopped(asked[1]).log_path)
    desk.eval()
    for age, path in enumerate([*others, logs[1], logs[0], logs[2]]):  # the second of the three is the newest that fits
        os.utime(path, (10**9 - age, 10**9 - age))
    Path("evallogs/torn.jsonl").write_text('{"spec": {"eval_na', encoding="utf-8")
    Path("evallogs/mine.set.jsonl").write_text("{}\n", encoding="utf-8")
    result = desk(resume=True)
    assert (result.log_path, Says.asked) == (logs[1], asked[5:])
    assert_as_undisturbed(result, desk.whole())


def test_a_newest_log_that_is_complete_is_taken_up_as_the_success_it_is(desk):
    asked = order(desk)
    stopped, complete = desk.stopped(asked[0]), desk()
    for age, path in enumerate([complete.log_path, stopped.log_path]):
        os.utime(path, (10**9 - age, 10**9 - age))
    result = desk(resume=True)
    assert (result.log_path, result.reused, Says.asked) == (complete.log_path, ROWS, [])


def test_logs_are_sought_where_this_run_would_put_its_own(desk, monkeypatch):
    stopped = desk.stopped(order(desk)[3], log_dir="elsewhere")
    with pytest.raises(BadLog, match="there is nothing to take up"):
        desk(resume=True)
    assert desk(resume=True, log_dir="elsewhere").log_path == stopped.log_path
    monkeypatch.setenv("EVALFRAME_LOG_DIR", "elsewhere")
    assert desk(resume=True).log_path == stopped.log_path


def test_where_there_is_none_that_fits_nothing_is_begun(desk):
    desk(who="twin")
    before = sorted(Path("evallogs").iterdir())
    with pytest.raises(BadLog, match=r"no log in .*evallogs tells of n\.dev\.v0 with says") as caught:
        desk(resume=True)
    assert caught.value.exit_code == 2
    assert any("--resume LOG" in advice for advice in caught.value.do)
    assert Says.asked == []
    assert sorted(Path("evallogs").iterdir()) == before


def test_record_path_may_name_the_log_too(desk):
    asked = order(desk)
    desk.stopped(asked[2], record_path="mine.jsonl")
    result = desk(resume=True, record_path="mine.jsonl")
    assert (result.log_path, Says.asked) == (desk.folder / "mine.jsonl", asked[3:])
    assert desk(resume="mine.jsonl", record_path=str(desk.folder / "mine.jsonl")).reused == ROWS


def test_two_names_for_the_log_are_one_too_many(desk):
    desk(record_path="mine.jsonl")
    desk(record_path="other.jsonl")
    fault = assert_refused(desk, Path("mine.jsonl"), "--resume names mine.jsonl, and --record_path other.jsonl", record_path="other.jsonl")
    assert isinstance(fault, BadSetting)


@pytest.mark.parametrize("more", [{"resume": True}, {"resume": "mine.jsonl"}], ids=str)
def test_a_command_with_both_flags_can_be_given_from_the_beginning(desk, more):
    asked = order(desk)
    desk.stopped(asked[2], record_path="mine.jsonl", **more)
    assert Says.asked == asked[:3]
    result = desk(record_path="mine.jsonl", **more)
    assert Says.asked == asked[3:]
    assert desk(record_path="mine.jsonl", **more).reused == ROWS
    assert_as_undisturbed(result, desk.whole())


def test_a_dry_run_has_nothing_to_take_up(desk):
    log = desk().log_path
    assert_refused(desk, log, "--dry-run keeps no log", dry_run=True)


def test_an_alias_of_the_eval_and_its_full_name_mean_the_same_log(desk):
    stopped = desk.stopped(order(desk)[3], what="n")
    assert desk(what="n.dev.v0", resume=True).log_path == stopped.log_path


# ---------------------------------------------------------------------- what must agree

CHANGES = [  # what is changed, settings of the second run, words of the refusal
    ("model", {"who": "twin"}, ['completion function was "says" and is "twin"']),
    ("model added", {"who": ["says", "twin"]}, ["completion function was"]),
    ("eval", {"what": "m"}, ['eval was "n.dev.v0" and is "m.dev.v0"']),
    ("version", {}, ['eval was "n.dev.v0" and is "n.dev.v1"']),
    ("class of the function", {}, ["completion function: class was", "Says", "Twin"]),
    ("arguments of the function", {}, ["completion function: args: word was not set and is \"x\""]),
    ("class of the eval", {}, ['eval: class was "evalframe.evals.basic:Match" and is "evalframe.evals.basic:Includes"']),
    ("arguments of the eval", {}, ["eval: args: ignore_case was not set and is true"]),
    ("completion_args", {"completion_args": "word=x"}, ['completion_args was {} and is {"word": "x"}']),
    ("extra_eval_params", {"extra_eval_params": "ignore_case=true"}, ['extra_eval_params was {} and is {"ignore_case": true}']),
    ("seed", {"seed": 7}, ["seed was 20220722 and is 7"]),
    ("turn_limit", {"turn_limit": 3}, ["turn_limit was not set and is 3"]),
    ("token_limit", {"token_limit": 300}, ["token_limit was not set and is 300"]),
    ("message_limit", {"message_limit": 3}, ["message_limit was not set and is 3"]),
    ("time_limit", {"time_limit": 30}, ["time_limit was not set and is 30"]),
    ("working_limit", {"working_limit": "30"}, ["working_limit was not set and is 30"]),
    ("max_samples", {"max_samples": 3}, ["max_samples was not set and is 3; it may grow, not shrink"]),
]  # fmt: skip


@pytest.mark.parametrize("complete", [False, True], ids=["stopped", "complete"])
@pytest.mark.parametrize(("change", "settings", "told"), CHANGES, ids=[change for change, *_ in CHANGES])
def test_what_bears_on_results_must_agree_and_the_difference_is_named(desk, change, settings, told, complete):
    log = (desk() if complete else desk.stopped(order(desk)[2])).log_path
    if change == "eval":
        spec = {"m": {"id": "m.dev.v0"}, "m.dev.v0": {"class": MATCH, "args": {"samples_jsonl": "s.jsonl"}}}
        (desk.registry / "evals" / "m.yaml").write_text(json.dumps(spec), encoding="utf-8")
    elif change == "version":
        desk.eval(version="v1")
    elif change == "class of the function":
        desk.functions(says={"class": f"{__name__}:Twin"})
    elif change == "arguments of the function":
        desk.functions(says={"class": f"{__name__}:Says", "args": {"word": "x"}})
    elif change == "class of the eval":
        desk.eval("evalframe.evals.basic:Includes")
    elif change == "arguments of the eval":
        desk.eval(ignore_case=True)
    Says.asked.clear()
    if change == "model added":  # which this eval refuses by itself
        with pytest.raises(EvalframeError):
            desk(resume=str(log), **settings)
        return
    fault = assert_refused(desk, log, "cannot be taken up: what bears on its results has changed", *told, **settings)
    assert isinstance(fault, BadLog)
    assert any("--resume" in advice for advice in fault.do)


def test_an_argument_of_a_grader_is_part_of_the_plan(desk):
    grader = {"class": f"{__name__}:Counted", "args": {"level": 1}}
    desk.eval("evalframe.evals.graded:Graded", grader=grader)
    log = desk.stopped(order(desk)[2]).log_path
    desk.eval("evalframe.evals.graded:Graded", grader={**grader, "args": {"level": 2}})
    assert_refused(desk, log, "level")


def test_a_default_of_a_part_that_has_changed_is_told_as_a_change_of_plan(desk, monkeypatch):
    desk.eval("evalframe.evals.graded:Graded", grader=f"{__name__}:Counted")
    log = desk.stopped(order(desk)[2]).log_path
    monkeypatch.setattr(Counted, "__init__", lambda self, level=5: object.__setattr__(self, "level", level))
    assert_refused(desk, log, "plan: args: level was 1 and is 5")


def test_several_differences_are_told_in_one_go(desk):
    log = desk().log_path
    assert_refused(desk, log, "seed was 20220722 and is 7", "turn_limit was not set and is 3", seed=7, turn_limit=3)


def test_many_differences_are_told_in_few_words(desk):
    log = desk().log_path
    many = {"seed": 7, "turn_limit": 3, "token_limit": 4, "message_limit": 5, "time_limit": 6, "working_limit": 7, "max_samples": 2}
    assert_refused(desk, log, "And 2 more.", **many)


def test_a_long_value_is_told_in_few_characters(desk):
    log = desk().log_path
    fault = assert_refused(desk, log, "completion_args was {}", completion_args={"word": "x" * 10_000})
    assert len(str(fault)) < 1000


def test_arguments_in_another_spelling_and_order_are_the_same(desk):
    desk.eval("evalframe.evals.basic:Includes", ignore_case=True, options={"a": 1, "b": 2})
    stopped = desk.stopped(order(desk)[2], completion_args="word=1", extra_eval_params='{"max_tokens": 3, "num_few_shot": 0}')
    desk.eval("evalframe.evals.basic:Includes", options={"b": 2, "a": 1}, ignore_case=True)
    settings = {"completion_args": {"word": 1}, "extra_eval_params": "num_few_shot=0,max_tokens=3"}
    assert desk(resume=str(stopped.log_path), **settings).reused == 3


def test_registry_and_data_may_have_moved(desk):
    asked = order(desk)
    stopped = desk.stopped(asked[2])
    desk.registry.rename(desk.folder / "moved")
    desk.registry = desk.folder / "moved"
    (desk.registry / "evals" / "n.yaml").rename(desk.registry / "evals" / "other.yaml")
    result = desk(resume=str(stopped.log_path))
    assert (result.status, Says.asked) == ("success", asked[3:])


def test_a_log_may_have_moved(desk):
    asked = order(desk)
    stopped = desk.stopped(asked[2])
    stopped.log_path.rename("moved.jsonl")
    result = desk(resume="moved.jsonl")
    assert (result.log_path, Says.asked) == (desk.folder / "moved.jsonl", asked[3:])
    assert_as_undisturbed(result, desk.whole())


# ---------------------------------------------------------------------- what may change

MAY_CHANGE = [  # setting, a value of it, as the log tells it
    ("threads", 3, 3), ("timeout_s", 5, 5.0), ("max_retries", 0, 0), ("max_total_retry_s", 9, 9.0), ("max_retry_after_s", 8, 8.0),
    ("fail_on_error", "0.5", 0.5), ("continue_on_fail", False, False), ("retry_on_error", 2, 2), ("score_on_error", True, True),
    ("grace_s", 1, 1.0), ("max_total_tokens", 10**9, 10**9), ("epochs_reducer", "max", ["max"]), ("fsync", True, True),
    ("user", "somebody", "somebody"), ("cache_dir", "kept", "kept"), ("show_progress", "false", "false"), ("sequential", False, False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "told"), MAY_CHANGE, ids=[name for name, *_ in MAY_CHANGE])
def test_settings_that_bear_on_no_result_may_change_and_the_log_tells(desk, name, value, told):
    asked = order(desk)
    stopped = desk.stopped(asked[2])
    result = desk(resume=str(stopped.log_path), **{name: value})
    assert sorted(Says.asked) == sorted(asked[3:])
    (line,) = [line["resume"] for line in lines(result.log_path) if "resume" in line]
    assert line["changed"] == {name: told}
    assert read_log(result.log_path).settings[name] == told
    assert_as_undisturbed(result, desk.whole(**({name: value} if name == "epochs_reducer" else {})))


def test_a_limit_of_the_run_may_be_raised_and_taken_away(desk):
    asked = order(desk)
    most = sum(12 + number for number in asked[:3])
    first = desk(max_total_tokens=most)
    assert (first.status, Says.asked) == ("cancelled", asked[:3])
    second = desk(resume=str(first.log_path), max_total_tokens=most + 12 + asked[3])
    assert (second.status, Says.asked) == ("cancelled", asked[3:4])
    third = desk(resume=str(first.log_path))
    assert Says.asked == asked[4:]
    assert [line["resume"]["changed"] for line in lines(third.log_path) if "resume" in line] == [
        {"max_total_tokens": most + 12 + asked[3]},
        {"max_total_tokens": None},
    ]
    assert_as_undisturbed(third, desk.whole())


def test_what_has_not_changed_is_not_told_as_changed(desk):
    stopped = desk.stopped(order(desk)[2], threads=4, fail_on_error=0.5, completion_args="word=", epochs=2, max_samples=6)
    result = desk(resume=str(stopped.log_path), threads="4", fail_on_error="0.5", completion_args={"word": ""}, epochs="2", max_samples=6)
    (line,) = [line["resume"] for line in lines(result.log_path) if "resume" in line]
    assert line["changed"] == {}
    assert line["command"]
    assert line["evalframe"]["format"] == 1


# ---------------------------------------------------------------------- where a setting comes from


def test_settings_that_bear_on_results_and_are_not_given_are_those_of_the_log(desk):
    asked = order(desk)
    settings = {"max_samples": 5, "seed": 7, "epochs": 2, "completion_args": "word=x", "turn_limit": 3, "extra_eval_params": "max_tokens=5"}
    chosen = sorted(asked[:5])
    stopped = desk.stopped(chosen[2], **settings)
    ended = list(Says.asked)
    result = desk(resume=str(stopped.log_path))
    assert result.counts.total == 10
    assert Counter(ended + Says.asked) == Counter(dict.fromkeys(set(ended + Says.asked), 2))
    assert len(ended + Says.asked) == 10
    assert_as_undisturbed(result, desk.whole(**settings))


def test_neither_the_environment_nor_the_spec_goes_over_the_log_and_the_call_does(desk, monkeypatch):
    stopped = desk.stopped(order(desk)[2], epochs=2)
    monkeypatch.setenv("EVALFRAME_EPOCHS", "3")
    desk.eval(run={"epochs": 4, "seed": 9, "max_samples": 2})
    result = desk(resume=str(stopped.log_path))
    assert (result.status, result.counts.total) == ("success", 2 * ROWS)
    more = desk(resume=str(stopped.log_path), epochs=5)
    assert (more.status, more.counts.total, len(Says.asked)) == ("success", 5 * ROWS, 3 * ROWS)


def test_a_limit_that_the_spec_sets_today_does_not_hold_for_a_run_that_had_none(desk):
    stopped = desk.stopped(order(desk)[2])
    desk.eval(run={"token_limit": 1})
    result = desk(resume=str(stopped.log_path))
    assert (result.status, result.counts.limit, result.counts.completed) == ("success", 0, ROWS)


def test_settings_that_bear_on_no_result_are_those_of_today(desk, monkeypatch):
    stopped = desk.stopped(order(desk)[2], retry_on_error=3, timeout_s=17)
    monkeypatch.setenv("EVALFRAME_RETRY_ON_ERROR", "1")
    desk.eval(run={"max_retries": 4, "retry_on_error": 9})
    config = read_log(desk(resume=str(stopped.log_path)).log_path).settings
    assert (config["retry_on_error"], config["max_retries"], config["timeout_s"]) == (1, 4, 300.0)


def test_settings_changed_by_one_process_hold_for_the_next_unless_it_says_otherwise(desk):
    asked = order(desk)
    stopped = desk.stopped(asked[1], max_samples=4)
    again = desk.stopped(asked[4], resume=str(stopped.log_path), max_samples=6)
    result = desk(resume=str(again.log_path))
    assert (result.counts.total, Says.asked) == (6, asked[5:6])
    assert_refused(desk, result.log_path, "max_samples was 6 and is 4; it may grow, not shrink", max_samples=4)


# ---------------------------------------------------------------------- secrets


def test_a_secret_has_to_be_given_again(desk):
    asked = order(desk)
    stopped = desk.stopped(asked[2], completion_args="api_key=sk-secret-1,word=x")
    assert b"sk-secret-1" not in stopped.log_path.read_bytes()
    fault = assert_refused(desk, stopped.log_path, "--completion_args", "held a secret (api_key), which the log does not keep")
    assert any("--completion_args" in advice for advice in fault.do)
    assert_refused(desk, stopped.log_path, 'completion_args was {"api_key": "***", "word": "x"}', completion_args="api_key=sk-secret-1")
    result = desk(resume=str(stopped.log_path), completion_args="api_key=sk-secret-2,word=x")  # another key is no other question
    assert (result.status, Says.asked) == ("success", asked[3:])
    assert b"sk-secret" not in result.log_path.read_bytes()


def test_a_secret_among_the_arguments_of_the_eval_has_to_be_given_again_too(desk):
    desk.eval(f"{__name__}:Keyed")
    stopped = desk.stopped(order(desk)[2], extra_eval_params="api_key=sk-secret-1")
    assert_refused(desk, stopped.log_path, "--extra_eval_params", "held a secret (api_key)")
    assert desk(resume=str(stopped.log_path), extra_eval_params="api_key=sk-secret-1").status == "success"


def test_a_secret_of_an_entry_comes_from_the_entry(desk):
    desk.functions(says={"class": f"{__name__}:Says", "args": {"api_key": "sk-secret-1"}})
    stopped = desk.stopped(order(desk)[2])
    assert desk(resume=str(stopped.log_path)).status == "success"


# ---------------------------------------------------------------------- more of it, and less


@pytest.mark.parametrize("more", [12, 100])
def test_more_samples_ask_only_the_new_ones(desk, more):
    desk.rows(numbers(12))
    asked = order(desk)
    first = desk(max_samples=5)
    result = desk(resume=str(first.log_path), max_samples=more)
    assert Counter(Says.asked) == Counter(asked[5:])
    assert (result.reused, result.counts.total) == (5, 12)
    assert_as_undisturbed(result, desk.whole())


def test_more_samples_and_more_epochs_at_once(desk):
    first = desk(max_samples=3, epochs=2)
    had = Counter(Says.asked)
    result = desk(resume=str(first.log_path), max_samples=5, epochs=3)
    assert (result.reused, len(Says.asked)) == (6, 9)
    assert had + Counter(Says.asked) == Counter(dict.fromkeys(had | Counter(Says.asked), 3))
    assert_as_undisturbed(result, desk.whole(max_samples=5, epochs=3))


@pytest.mark.parametrize(("first", "second", "told"), [
    ({"max_samples": 5}, {"max_samples": 4}, "max_samples was 5 and is 4; it may grow, not shrink"),
    ({"epochs": 3}, {"epochs": 2}, "epochs was 3 and is 2; it may grow, not shrink"),
    ({"epochs": 2}, {"epochs": 1}, "epochs was 2 and is 1; it may grow, not shrink"),
    ({}, {"max_samples": ROWS}, "max_samples was not set and is 8; it may grow, not shrink"),
])  # fmt: skip
def test_fewer_are_refused(desk, first, second, told):
    log = desk(**first).log_path
    assert_refused(desk, log, told, **second)


# ---------------------------------------------------------------------- rows that have changed


def changed(*places):
    rows = numbers(ROWS)
    for place in places:
        rows[place] = {"input": f"Now say the number {place + 50}", "ideal": str(place + 50)}
    return rows


@pytest.mark.parametrize("is_complete", [True, False], ids=["complete", "stopped"])
@pytest.mark.parametrize("where", [[0], [3], [ROWS - 1], [2, 5], list(range(ROWS))], ids=str)
def test_of_changed_rows_only_these_are_asked_again(desk, where, is_complete):
    asked = order(desk)
    log = (desk() if is_complete else desk.stopped(asked[3])).log_path
    ended = set(asked if is_complete else asked[:4])
    desk.rows(changed(*where))
    result = desk(resume=str(log))
    assert Counter(Says.asked) == Counter(
        [place + 50 for place in where] + [number for number in asked if number not in ended | set(where)]
    )
    assert result.reused == len(ended - set(where))
    assert_as_undisturbed_but_for_what_was_paid(result, desk.whole())
    assert desk(resume=str(log)).reused == ROWS
    assert Says.asked == []


def assert_as_undisturbed_but_for_what_was_paid(result, whole):
    """As an undisturbed run; but that what was asked and counts no more has been paid all the same."""
    mine, other = comes_to(result), comes_to(whole)
    paid, due = (told["report"].pop("usage")["says"]["calls"] for told in (mine, other))
    assert mine == other
    assert paid >= due


def test_a_changed_ideal_is_a_changed_row(desk):
    log = desk().log_path
    rows = numbers(ROWS)
    rows[1]["ideal"] = "none"
    desk.rows(rows)
    result = desk(resume=str(log))
    assert Says.asked == [1]
    assert result.report["accuracy"] == (ROWS - 1) / ROWS


def test_rows_spelt_otherwise_are_the_same_rows(desk):
    log = desk().log_path
    text = "\n".join(
        json.dumps({"ideal": row["ideal"], "input": row["input"]}, indent=None, separators=(" ,", ":  ")) for row in numbers(ROWS)
    )
    (desk.registry / "data" / "s.jsonl").write_text(text, encoding="utf-8")
    assert desk(resume=str(log)).reused == ROWS
    assert Says.asked == []


def test_of_reordered_rows_those_that_stand_elsewhere_are_asked_again(desk):
    """A sample is known by its number and its content: its randomness is its number's."""
    log = desk().log_path
    rows = numbers(ROWS)
    rows[2], rows[6] = rows[6], rows[2]
    desk.rows(rows)
    result = desk(resume=str(log))
    assert sorted(Says.asked) == [2, 6]
    assert_as_undisturbed_but_for_what_was_paid(result, desk.whole())


def test_an_added_row_is_asked(desk):
    log = desk().log_path
    desk.rows(numbers(ROWS + 2))
    result = desk(resume=str(log))
    assert sorted(Says.asked) == [ROWS, ROWS + 1]
    assert_as_undisturbed(result, desk.whole())


@pytest.mark.parametrize("epochs", [1, 2])
def test_with_max_samples_an_added_row_shifts_the_choice_and_what_falls_out_does_not_count(desk, epochs):
    log = desk(max_samples=5, epochs=epochs).log_path
    before = set(Says.asked)
    desk.rows(numbers(ROWS + 3))
    result = desk(resume=str(log), max_samples=5)
    whole = desk.whole(max_samples=5, epochs=epochs)
    chosen = {int(event.sample_id.split(".")[-1]) for event in whole.events("sample")}
    assert before - chosen, "the choice of this test is to shift"
    desk_asked = {int(event.sample_id.split(".")[-1]) for event in result.events("sample")}
    assert desk_asked == chosen
    assert result.counts.total == result.counts.completed == 5 * epochs
    assert_as_undisturbed_but_for_what_was_paid(result, whole)
    assert {event.sample_id for event in read_log(log).events()} == {event.sample_id for event in whole.events("sample")}


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("place", [0, 4, ROWS - 1])
def test_a_row_that_was_taken_out_is_left_out(desk, place, epochs):
    log = desk(epochs=epochs).log_path
    rows = numbers(ROWS)
    del rows[place]
    desk.rows(rows)
    result = desk(resume=str(log))
    assert Counter(Says.asked) == Counter(dict.fromkeys(range(place + 1, ROWS), epochs))  # they have other numbers now
    assert_as_undisturbed_but_for_what_was_paid(result, desk.whole(epochs=epochs))
    left = [line["resume"]["left_out"] for line in lines(log) if "left_out" in line.get("resume", {})]
    assert [f"n.dev.{ROWS - 1}", epochs] in left[0]


def test_a_failed_row_that_was_taken_out_is_no_failure_any_more(desk):
    Says.fail = {ROWS - 1}
    log = desk().log_path
    desk.rows(numbers(ROWS - 1))
    result = desk(resume=str(log))
    assert (result.status, result.exit_code, Says.asked) == ("success", 0, [])
    assert result.counts.to_line() == {"total": ROWS - 1, "completed": ROWS - 1, "error": 0, "limit": 0, "unscored": 0}
    assert len(list(outcomes(result))) == ROWS - 1
    assert_as_undisturbed(result, desk.whole())


def test_a_failed_epoch_of_a_row_that_was_taken_out_is_in_no_reading_of_the_accuracy(desk):
    Says.fail = {ROWS - 1}
    log = desk(epochs=2).log_path
    desk.rows(numbers(ROWS - 1))
    result = desk(resume=str(log))
    assert "accuracy_errors_as_wrong" not in result.report
    assert_as_undisturbed(result, desk.whole(epochs=2))


def test_a_row_that_comes_back_is_asked_again(desk):
    log = desk().log_path
    desk.rows(numbers(ROWS - 1))
    desk(resume=str(log))
    desk.rows(numbers(ROWS))
    result = desk(resume=str(log))
    assert Says.asked == [ROWS - 1]
    assert_as_undisturbed_but_for_what_was_paid(result, desk.whole())
    assert desk(resume=str(log)).reused == ROWS


def test_an_interrupt_after_rows_were_taken_out_leaves_them_out(desk):
    Says.fail = {0, 1}
    log = desk().log_path
    Says.fail = set()
    desk.rows(numbers(ROWS - 2))
    stopped = desk.stopped(*range(ROWS), resume=str(log))
    assert stopped.report["n"] == ROWS - 3
    result = desk(resume=str(log))
    assert_as_undisturbed_but_for_what_was_paid(result, desk.whole())


def test_all_rows_but_one_may_go(desk):
    log = desk().log_path
    desk.rows(numbers(1))
    result = desk(resume=str(log))
    assert (Says.asked, result.report["accuracy"], result.report["n"]) == ([], 1.0, 1)


# ---------------------------------------------------------------------- an eval of one's own


class Gives(Eval):
    """An eval that reports what `eval_all_samples` gives it, and nothing else."""

    SHAPES = {
        "number": lambda number, ok: number + ok / 2,
        "text": lambda number, ok: f"{number} \ud800 ü \x00",
        "none": lambda number, ok: None,
        "list": lambda number, ok: [number, [ok]],
        "dict": lambda number, ok: {"number": number, "ok": ok, "more": {"of": [number, None, 1e300]}},
        "tuple": lambda number, ok: (number, ok, (number, {"a": (1,)})),
        "set": lambda number, ok: {number},
        "bytes": lambda number, ok: bytes([number]),
        "numbered": lambda number, ok: {number: ok},
        "nan": lambda number, ok: [float("nan") if number % 2 else 1.0],
        "own": lambda number, ok: Completion([str(number)]),
        "now and then": lambda number, ok: {number} if number % 3 == 0 else number,
    }  # fmt: skip

    def __init__(self, *args, shape, **kwargs):
        super().__init__(*args, **kwargs)
        self.shape = shape

    def eval_sample(self, sample, rng):
        (answer,) = self.completion_fn(sample["input"]).get_completions()
        record_match(answer == sample["ideal"])
        return self.SHAPES[self.shape](int(sample["ideal"]), answer == sample["ideal"])

    def run(self, recorder):
        results = self.eval_all_samples(recorder, self.get_samples())
        right = [event.data["correct"] for event in recorder.get_events("match")]
        return {"accuracy": sum(right) / len(right), "n": len(right), "results": json.dumps(results, default=repr)}


class Waits(Gives):
    async def eval_sample(self, sample, rng):
        return super().eval_sample(sample, rng)


class Keyed(Gives):
    def __init__(self, *args, api_key=None, **kwargs):
        super().__init__(*args, shape="number", **kwargs)


@pytest.mark.parametrize("cls", ["Gives", "Waits"])
@pytest.mark.parametrize("shape", ["number", "text", "none", "list", "dict", "tuple"])
def test_results_that_the_log_holds_are_handed_to_the_eval_again(desk, shape, cls):
    desk.eval(f"{__name__}:{cls}", shape=shape)
    log = desk().log_path
    ended = cut(log, 5)
    result = desk(resume=str(log))
    assert sorted([*ended, *Says.asked]) == list(range(ROWS))
    assert result.reused == 5
    assert_as_undisturbed(result, desk.whole())
    again = desk(resume=str(log))
    assert (Says.asked, again.report) == ([], result.report)


@pytest.mark.parametrize("shape", ["set", "bytes", "numbered", "own"])
def test_a_result_that_json_cannot_hold_is_asked_for_again(desk, shape):
    desk.eval(f"{__name__}:Gives", shape=shape)
    asked = order(desk)
    stopped = desk.stopped(asked[4])
    result = desk(resume=str(stopped.log_path))
    assert Says.asked == asked
    assert result.reused == 0
    assert_as_undisturbed_but_for_what_was_paid(result, desk.whole())


@pytest.mark.parametrize(("shape", "again"), [("nan", [1, 3, 5, 7]), ("now and then", [0, 3, 6])])
def test_of_results_only_those_that_are_lost_are_asked_for_again(desk, shape, again):
    desk.eval(f"{__name__}:Gives", shape=shape)
    log = desk().log_path
    result = desk(resume=str(log))
    assert sorted(Says.asked) == again
    assert result.reused == ROWS - len(again)
    assert_as_undisturbed_but_for_what_was_paid(result, desk.whole())


def test_results_come_in_the_order_of_samples_and_of_epochs(desk):
    desk.eval(f"{__name__}:Gives", shape="tuple")
    stopped = desk.stopped(order(desk)[4], epochs=2)
    result = desk(resume=str(stopped.log_path), epochs=3)
    assert [item[0] for item in json.loads(result.report["results"])] == [number for number in range(ROWS) for _ in range(3)]


def test_a_result_of_a_row_that_was_taken_out_is_not_handed_on(desk):
    desk.eval(f"{__name__}:Gives", shape="number")
    log = desk().log_path
    desk.rows(numbers(ROWS - 2))
    assert len(json.loads(desk(resume=str(log)).report["results"])) == ROWS - 2


# ---------------------------------------------------------------------- verdicts that could not be given


def test_samples_without_a_verdict_are_counted_again(desk):
    desk.eval("evalframe.evals.graded:Graded", grader={"class": f"{__name__}:Lenient", "args": {"silent_on": "2 4 7"}})
    asked = order(desk)
    stopped = desk.stopped(asked[4])
    result = desk(resume=str(stopped.log_path))
    assert (Says.asked, result.counts.unscored, result.report["n"]) == (asked[5:], 3, ROWS - 3)
    assert_as_undisturbed(result, desk.whole())
    assert desk(resume=str(stopped.log_path)).counts.unscored == 3


# ---------------------------------------------------------------------- how the run had ended


def test_a_complete_run_is_a_quick_success(desk):
    first = desk()
    for _ in range(3):
        result = desk(resume=str(first.log_path))
        assert (result.status, result.exit_code, result.reused, Says.asked) == ("success", 0, ROWS, [])
        assert_as_undisturbed(result, first)


def test_a_failed_run_asks_what_had_failed(desk):
    Says.fail = {2, 5}
    failed = desk()
    assert (failed.status, failed.counts.error) == ("error", 2)
    Says.fail = {5}
    less = desk(resume=str(failed.log_path))
    assert (sorted(Says.asked), less.status, less.counts.error) == ([2, 5], "error", 1)
    Says.fail = set()
    result = desk(resume=str(failed.log_path))
    assert (Says.asked, result.reused) == ([5], ROWS - 1)
    assert_as_undisturbed(result, desk.whole())
    attempts = [event.attempt for event in read_log(result.log_path).events("sample", all_attempts=True) if event.sample_id == "n.dev.5"]
    assert attempts == [1, 2, 3]


def test_a_run_that_may_fail_goes_on_with_more_patience(desk):
    """RES-10: the setting that stopped a run may be another when it goes on."""
    asked = order(desk)
    Says.fail = {asked[2]}
    failed = desk(continue_on_fail=False)
    assert Says.asked == asked[:3]
    result = desk(resume=str(failed.log_path), fail_on_error=False)
    assert Says.asked == asked[2:]
    assert (result.status, result.counts.error, result.report["n"]) == ("success", 1, ROWS - 1)


def test_a_run_that_is_stopped_again_and_again_is_one_run(desk):
    """RES-02: what counts is the union of all attempts."""
    desk.rows(numbers(30))
    asked = order(desk)
    log, had = desk.stopped(asked[2]).log_path, list(Says.asked)
    for place in (4, 5, 15, 28):
        desk.stopped(asked[place], resume=str(log))
        had += Says.asked
    result = desk(resume=str(log))
    assert had + Says.asked == asked
    assert_as_undisturbed(result, desk.whole())


@pytest.mark.parametrize("cls", ["Gives", "Waits"])
def test_a_run_on_threads_that_is_killed_again_and_again_is_one_run(desk, cls):
    desk.rows(numbers(30))
    desk.eval(f"{__name__}:{cls}", shape="dict")
    log = desk(sequential=False, threads=6).log_path
    for ends in (2, 3, 11, 20, 30):
        ended = cut(log, ends)
        result = desk(resume=str(log), sequential=False, threads=6)
        assert Counter([*ended, *Says.asked]) == Counter(range(30))
        assert_as_undisturbed(result, desk.whole())


def test_the_report_of_a_stopped_run_is_over_what_is_done(desk):
    asked = order(desk)
    stopped = desk.stopped(asked[4])
    done = [number not in Says.wrong for number in asked[:5]]
    assert (stopped.report["accuracy"], stopped.report["n"]) == (pytest.approx(sum(done) / 5), 5)
    assert f"interrupted after 5 of {ROWS} samples" in stopped.reason


def test_what_was_asked_in_every_process_is_paid_in_the_report(desk):
    asked = order(desk)
    Says.fail = {asked[0]}
    stopped = desk.stopped(asked[4])
    Says.fail = set()
    result = desk(resume=str(stopped.log_path))
    assert result.report["usage"]["says"]["calls"] == ROWS
    assert result.report["usage"]["says"]["input_tokens"] == sum(10 + number for number in range(ROWS))


def test_an_eval_with_threads_that_was_begun_one_by_one_and_the_other_way_round(desk):
    asked = order(desk)
    stopped = desk.stopped(asked[3])
    result = desk(resume=str(stopped.log_path), sequential=False, threads=4)
    assert sorted(Says.asked) == sorted(asked[4:])
    assert_as_undisturbed(result, desk.whole())


# ---------------------------------------------------------------------- logs that end anywhere


@pytest.mark.parametrize("case", ["match", "graded, epochs", "own", "failures"])
def test_a_log_that_ends_anywhere_is_taken_up(desk, case):
    """A killed process leaves a beginning of what it would have written: so each beginning must do."""
    desk.rows(numbers(5))
    settings = {}
    if case == "graded, epochs":
        desk.eval("evalframe.evals.graded:Graded", grader={"class": f"{__name__}:Lenient", "args": {"silent_on": "3"}})
        settings = {"epochs": 2, "epochs_reducer": "max"}
    elif case == "own":
        desk.eval(f"{__name__}:Gives", shape="dict")
    Says.fail = {2} if case == "failures" else set()
    log = desk(retry_on_error=1, **settings).log_path
    Says.fail = set()
    if case == "failures":
        desk(resume=str(log))
    raw = log.read_bytes()
    whole = desk.whole(**settings)
    first = raw.index(b"\n") + 1
    ends = [place + 1 for place, byte in enumerate(raw) if byte == 0x0A]
    places = {*ends, *(end - 1 for end in ends), *random.Random(case).sample(range(first, len(raw)), 40)} - {first - 1}
    for place in sorted(places):
        torn = desk.folder / f"{place}.jsonl"
        torn.write_bytes(raw[:place])
        was = {}
        for line in raw[:place].split(b"\n"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("type") == "sample":
                key = (event["sample_id"], event.get("epoch", 1))
                was[key] = event["data"]["status"] == "completed"
        result = desk(resume=str(torn), **({"epochs_reducer": "max"} if settings else {}))
        ended = sum(was.values())
        assert (result.status, result.reused, len(Says.asked)) == ("success", ended, 5 * settings.get("epochs", 1) - ended), place
        assert_as_undisturbed(result, whole)
        assert desk(resume=str(torn), **({"epochs_reducer": "max"} if settings else {})).reused == 5 * settings.get("epochs", 1)
        assert [json.loads(line) for line in torn.read_bytes().splitlines()]


@pytest.mark.parametrize(("name", "tail", "kept"), [
    ("a torn line", b'{"run_id": "x", "event_id": 99, "sam', False),
    ("half a character", '{"run_id": "x", "data": "ü'.encode()[:-1], False),
    ("zeros", b"\0" * 4096, False),
    ("a blank line", b"\n \n", True),
    ("garbage and a final line", b"garbage \xff\xfe\n", True),
    ("a line of another kind", b'{"hello": 1}\n', True),
    ("a list", b"[1, 2]\n", True),
    ("a number", b"17\n", True),
    ("zeros and a final line", b"\0" * 100 + b"\n", True),
    ("a deep line", b"[" * 5000 + b"\n", True),
])  # fmt: skip
def test_what_a_crash_may_leave_at_the_end_is_no_hindrance(desk, name, tail, kept):
    asked = order(desk)
    log = desk.stopped(asked[3]).log_path
    before = log.read_bytes()
    log.write_bytes(before + tail)
    result = desk(resume=str(log))
    assert Says.asked == asked[4:]
    assert comes_to(result) == comes_to(desk.whole())
    assert log.read_bytes().startswith(before + (tail if kept else b'{"resume"'))


def test_garbage_in_the_middle_costs_nothing_but_itself(desk):
    asked = order(desk)
    log = desk.stopped(asked[3]).log_path
    raw = log.read_bytes().splitlines(keepends=True)
    lost = next(place for place, line in enumerate(raw) if json.loads(line).get("type") == "sample")
    log.write_bytes(b"".join([*raw[:2], b"\xff garbage\n", *raw[2:lost], raw[lost][:30] + b"\n", *raw[lost + 1 :]]))
    result = desk(resume=str(log))
    assert Says.asked == [asked[0], *asked[4:]]  # the end of the first sample is gone: it is asked again, under another attempt
    assert comes_to(result)["report"]["accuracy"] == desk.whole().report["accuracy"]
    assert read_log(log).torn_lines == 2
    assert Counter(event.sample_id for event in result.events("match")) == Counter({f"n.dev.{number}": 1 for number in range(ROWS)})


def test_a_last_line_without_its_newline_is_whole(desk):
    asked = order(desk)
    log = desk.stopped(asked[3]).log_path
    raw = log.read_bytes().splitlines(keepends=True)
    ends = [place for place, line in enumerate(raw) if json.loads(line).get("type") == "sample"]
    log.write_bytes(b"".join(raw[: ends[1] + 1]).rstrip(b"\n"))
    result = desk(resume=str(log))
    assert Says.asked == asked[2:]
    assert_as_undisturbed(result, desk.whole())


def test_an_empty_file_is_a_run_that_was_killed_before_its_first_line(desk):
    Path("empty.jsonl").touch()
    result = desk(resume="empty.jsonl")
    assert (result.log_path, result.reused, result.status) == (desk.folder / "empty.jsonl", 0, "success")
    assert_as_undisturbed(result, desk.whole())


# ---------------------------------------------------------------------- what is no log

OPENAI = {
    "completion_fns": ["says"], "eval_name": "n.dev.v0", "base_eval": "n", "split": "dev", "run_config": {"completion_fns": ["says"], "seed": 20220722},
    "created_by": "", "run_id": "220101000000ABCDEFGH", "created_at": "2022-01-01 00:00:00.000000",
}  # fmt: skip


@pytest.mark.parametrize(("content", "told"), [
    (b"no log at all\n", "is not a log of evalframe: its first line holds no spec"),
    (b"\n\n\n", "is not a log of evalframe"),
    (b"\0" * 5000, "is not a log of evalframe"),
    (b'{"spec": {"eval_name": "n.dev.v0", "completion_fns": ["sa', "is not a log of evalframe"),
    (b'{"spec": 5}\n', "is not a log of evalframe"),
    (b'{"spec": {}}\n', "was not written by evalframe"),
    (b'[1]\n', "is not a log of evalframe"),
    (b'{"input": "Say the number 1", "ideal": "1"}\n', "is not a log of evalframe"),
    (json.dumps({"spec": OPENAI}).encode() + b"\n", "was not written by evalframe: it does not tell which samples have ended"),
    (b"\x1f\x8b\x08\x00garbage", "is not a log of evalframe"),
], ids=str)  # fmt: skip
def test_a_file_that_is_no_log_is_refused_and_left_as_it_is(desk, content, told):
    Path("x.jsonl").write_bytes(content)
    assert isinstance(assert_refused(desk, Path("x.jsonl"), told), BadLog)


@pytest.mark.parametrize(("path", "told"), [
    ("evallogs", "is no file"), ("missing.jsonl", "No such file"), ("R/data/s.jsonl/x.jsonl", "Not a directory"), ("loop.jsonl", "loop"),
    ("x" * 300 + ".jsonl", "too long"), ("dangling.jsonl", "No such file"),
])  # fmt: skip
def test_a_place_where_no_log_can_be_is_told(desk, path, told):
    Path("evallogs").mkdir()
    Path("loop.jsonl").symlink_to("loop.jsonl")
    Path("dangling.jsonl").symlink_to("nowhere.jsonl")
    with pytest.raises(BadLog, match=told):
        desk(resume=path)
    assert Says.asked == []
    assert not Path("nowhere.jsonl").exists()
    assert not Path("missing.jsonl").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_log_that_may_not_be_read_or_written_is_told(desk):
    log = desk.stopped(order(desk)[3]).log_path
    log.chmod(0o000)
    with pytest.raises(BadLog, match="Permission denied"):
        desk(resume=str(log))
    log.chmod(0o400)
    with pytest.raises(LogUnavailable, match="Permission denied"):
        desk(resume=str(log))
    log.chmod(0o600)
    assert desk(resume=str(log)).status == "success"


def test_a_spec_with_odd_contents_is_refused_in_words(desk):
    log = desk().log_path
    first, *rest = log.read_bytes().splitlines(keepends=True)
    for key, value in (("run_config", None), ("run_config", []), ("run_config", {}), ("completion_fns", None), ("eval_name", 5)):
        told = json.loads(first)
        told["spec"][key] = value
        Path("odd.jsonl").write_bytes(json.dumps(told).encode() + b"\n" + b"".join(rest))
        assert_refused(desk, Path("odd.jsonl"))


# ---------------------------------------------------------------------- one process at a time


def test_while_one_process_writes_a_log_no_other_takes_it_up(desk):
    log = desk.stopped(order(desk)[3]).log_path
    with log.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        fault = assert_refused(desk, log, "another process is writing the log", "its run goes on")
        assert isinstance(fault, LogUnavailable)
        assert any("Wait for it" in advice for advice in fault.do)
    assert desk(resume=str(log)).status == "success"


def test_the_lock_is_let_go_whatever_happens_before_the_first_request(desk):
    log = desk.stopped(order(desk)[3]).log_path
    assert_refused(desk, log, "seed", seed=1)

    def fails(prepared):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        desk(resume=str(log), on_start=fails)
    assert desk(resume=str(log)).status == "success"


def test_a_run_that_ends_badly_lets_its_log_go(desk):
    desk.eval(f"{__name__}:Breaks")
    failed = desk()
    assert (failed.status, failed.exit_code) == ("error", 1)
    assert "ZeroDivisionError" in failed.reason
    assert sorted(Says.asked) == list(range(ROWS))
    again = desk(resume=str(failed.log_path))
    assert (again.status, again.reused, Says.asked) == ("error", ROWS, [])


class Breaks(Gives):
    """RES-06: every sample is answered, and the report fails."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, shape="number", **kwargs)

    def run(self, recorder):
        super().run(recorder)
        raise ZeroDivisionError


# ---------------------------------------------------------------------- from Python, with a callable


def test_a_callable_is_taken_up_where_it_was_started(desk):
    asked = order(desk)
    stopped = desk.stopped(asked[3], who=Says())
    result = desk(who=Says(), resume=True)
    assert (result.log_path, Says.asked) == (stopped.log_path, asked[4:])
    assert_refused(desk, result.log_path, "completion function was", who=Twin())


def test_no_command_can_make_a_callable_again_and_says_so(desk):
    stopped = desk.stopped(order(desk)[3], who=Says())
    with pytest.raises(BadLog, match=r"was started from Python, with .*Says: a command cannot make that again") as caught:
        asked_by(stopped.log_path, {})
    assert any(f'run_eval(..., resume="{stopped.log_path}")' in advice for advice in caught.value.do)


# ---------------------------------------------------------------------- events that also go elsewhere


def test_a_run_that_is_taken_up_sends_only_what_is_new(desk):
    asked = order(desk)
    stopped = desk.stopped(asked[3])
    before = {line["event_id"] for line in lines(stopped.log_path) if "event_id" in line}
    with ModelStub(lambda number, body: Answer(204)) as stub:
        result = desk(resume=str(stopped.log_path), http_run=True, http_run_url=f"http://127.0.0.1:{stub.port}/events", http_batch_size=3)
    assert (result.status, Says.asked) == ("success", asked[4:])
    sent = [event for body in stub.bodies for event in (body if isinstance(body, list) else [body])]
    numbered = [event["event_id"] for event in sent if "event_id" in event]
    assert len(set(numbered)) == len(numbered)
    assert not before & set(numbered)
    assert {event["sample_id"] for event in sent if event.get("type") == "sample"} == {f"n.dev.{number}" for number in asked[4:]}
    assert_as_undisturbed(result, desk.whole())


def test_a_copy_of_a_log_is_a_run_of_its_own(desk):
    asked = order(desk)
    stopped = desk.stopped(asked[3])
    shutil.copy(stopped.log_path, "copy.jsonl")
    one, other = desk(resume=str(stopped.log_path)), desk(resume="copy.jsonl")
    assert Says.asked == asked[4:]
    assert comes_to(one) == comes_to(other)


# ---------------------------------------------------------------------- as words of a command


@pytest.mark.parametrize("words", [
    ["--resume", "says", "n"], ["says", "--resume", "n"], ["says", "n", "--resume"], ["--resume=", "says", "n"],
    ["--resume", "log.jsonl", "says", "n"], ["says", "n", "--resume", "log.jsonl"], ["says", "--resume=log.jsonl", "n"],
    ["--resume", "--sequential", "says", "n"], ["--resume", "LINK", "says", "n"], ["--record_path", "log.jsonl", "--resume", "says", "n"],
])  # fmt: skip
def test_the_flag_may_stand_anywhere(desk, capsys, words):
    asked = order(desk)
    shutil.rmtree("order")
    desk.stopped(asked[3], record_path="evallogs/log.jsonl" if not any("log.jsonl" in word for word in words) else "log.jsonl")
    if "LINK" in words:
        Path("link").symlink_to("evallogs/log.jsonl")
        words = ["link" if word == "LINK" else word for word in words]
    Says.asked.clear()
    assert main([*words, "--registry_path", "R"]) == 0, capsys.readouterr().err
    assert sorted(Says.asked) == sorted(asked[4:])
    assert "taken up again" in capsys.readouterr().err


def test_all_faults_of_a_command_are_told_with_that_of_the_log(desk):
    with pytest.raises(Faults) as caught:
        desk(who="unknown/model", resume="missing.jsonl")
    assert "missing.jsonl" in str(caught.value)
    assert "unknown/model" in str(caught.value)
