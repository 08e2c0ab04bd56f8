"""Recorded answers, graded again: no model is asked, the old log stays as it is, the new one tells which verdicts changed."""

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from number_rows import numbers

from evalframe.cli.main import main
from evalframe.core.completion import Completion
from evalframe.core.errors import BadLog, EvalframeError, LogUnavailable, UnknownName
from evalframe.core.grade import Grade
from evalframe.core.recorder import record_match, record_metrics, record_sampling
from evalframe.eval import Eval
from evalframe.logs.run_log import read_log
from evalframe.registry.registry import Registry
from evalframe.runs.regrade import regrade
from evalframe.runs.run import run_eval

ROWS = 6
BASIC = "evalframe.evals.basic"


class Model:
    """Says "It is N.", or what the plan says for N; one that is made counts, and so does each call."""

    model = "m"
    asked: list = []
    plan: dict = {}

    def __call__(self, prompt, **options):
        text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        number = int(text.split()[-1])
        Model.asked.append(number)
        answer = Model.plan.get(number, f"It is {number}.")
        answer = answer(text) if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        record_sampling(prompt, answer, model=self.model, usage={"input_tokens": 10, "output_tokens": 2}, finish_reason="stop")
        return Completion(answer if isinstance(answer, list) else [answer])


class Judge(Model):
    """Says whether there is a digit above 3."""

    model = "judge"

    def __call__(self, prompt, **options):
        Model.asked.append(prompt)
        verdict = "yes" if any(letter in "456789" for letter in prompt) else "no"
        record_sampling(prompt, verdict, model=self.model, usage={"input_tokens": 5, "output_tokens": 1})
        return Completion([verdict])


class Watching:
    """A grader that does what the test wants; right if the ideal stands in the answer, wrong where the plan says so."""

    grades: list = []
    raises: dict = {}
    wrong: set = set()
    silent: set = set()
    stops: set = set()

    def __call__(self, completion, sample):
        number = int(sample.ideals[0])
        self.grades.append((number, completion))
        if number in self.stops:
            os.kill(os.getpid(), signal.SIGINT)
        if self.raises.get(number, 0) > 0:
            self.raises[number] -= 1
            raise ZeroDivisionError(f"cannot grade {number}")
        if number in self.silent:
            return Grade.unscored(reason="cannot tell")
        return Grade(float(sample.ideals[0] in completion and number not in self.wrong), picked=completion)


class Talk(Eval):
    """Three turns; each question quotes the answer before it."""

    turns = 3

    def eval_sample(self, sample, rng):
        number, said = sample["ideal"], "nothing"
        for turn in range(self.turns):
            (said,) = self.completion_fn(
                [{"role": "user", "content": f"{turn}, {rng.random()}: after {said!r}, {number}"}]
            ).get_completions()
        record_match(number in said, picked=said)
        record_metrics(length=len(said))
        return said

    def run(self, recorder):
        results = self.eval_all_samples(recorder, self.get_samples())
        right = [event.data["correct"] for event in recorder.get_events("match")]
        return {
            "accuracy": sum(right) / len(right) if right else None,
            "n": len(right),
            "last": sorted(results),
            "lengths": sum(recorder.get_scores("length")),
        }


class Longer(Talk):
    """Asks one question more than was asked."""

    turns = 4


class Strict(Talk):
    """Puts the same questions and judges otherwise."""

    def eval_sample(self, sample, rng):
        said = super().eval_sample(sample, rng)
        record_match(False)
        return said


class Thrice(Eval):
    """Puts the same question three times, and is right if all answers differ."""

    def eval_sample(self, sample, rng):
        said = [self.completion_fn(sample["input"]).get_completions()[0] for _ in range(3)]
        record_match(len(set(said)) == 3, picked=said)

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        right = [event.data["correct"] for event in recorder.get_events("match")]
        return {"accuracy": sum(right) / len(right), "n": len(right)}


class Judged(Eval):
    """One model answers, another judges."""

    strict = False

    def eval_sample(self, sample, rng):
        tested, judge = self.completion_fns
        (said,) = tested(sample["input"]).get_completions()
        (verdict,) = judge(f"Is it large? {said}").get_completions()
        record_match((verdict == "yes") is not self.strict, picked=said, verdict=verdict)

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        right = [event.data["correct"] for event in recorder.get_events("match")]
        return {"accuracy": sum(right) / len(right), "n": len(right)}


class JudgedOtherwise(Judged):
    """The same questions, and the contrary verdict."""

    strict = True


class Desk:
    """A folder with a registry of evals over one data file, and runs of them in this process."""

    def __init__(self, folder):
        self.folder, self.registry = folder, folder / "R"
        for kind in ("evals", "completion_fns", "data"):
            (self.registry / kind).mkdir(parents=True)
        functions = {"m": {"class": f"{__name__}:Model"}, "judge": {"class": f"{__name__}:Judge"}}
        (self.registry / "completion_fns" / "f.yaml").write_text(json.dumps(functions), encoding="utf-8")
        self.rows(numbers(ROWS))
        self.eval("n")

    def eval(self, name, cls=f"{BASIC}:Match", *, run=None, **args):
        entry = {"class": cls, "args": {"samples_jsonl": "s.jsonl", **args}, **({"run": run} if run else {})}
        (self.registry / "evals" / f"{name}.yaml").write_text(
            json.dumps({name: {"id": f"{name}.dev.v0"}, f"{name}.dev.v0": entry}), encoding="utf-8"
        )

    def watched(self, name="n", **more):
        self.eval(name, "evalframe.evals.graded:Graded", grader=f"{__name__}:Watching", **more)

    def rows(self, rows):
        (self.registry / "data" / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def names(self):
        registry = Registry()
        registry.add_registry_paths([self.registry])
        return registry

    def __call__(self, what="n", who="m", **settings):
        Model.asked.clear()
        return run_eval(who, what, registry=self.names(), **{"sequential": True, **settings})

    def regraded(self, log, **settings):
        """The log graded again; nobody is asked, the old log stays as it is, and the new one tells what the result does."""
        before = Path(log).read_bytes()
        Model.asked.clear()
        result = regrade(log, registry=self.names(), **{"sequential": True, **settings})
        assert Model.asked == []
        assert Path(log).read_bytes() == before
        assert result.log_path != Path(log)
        told = read_log(result.log_path)
        assert (told.final_report, told.status, told.samples) == (result.report, result.status, result.counts.to_line())
        for kind in ("match", "sampling", "sample", "verdict_changed"):
            assert list(told.events(kind)) == list(result.events(kind)), kind
        changed = list(told.events("verdict_changed"))
        turns = ("verdicts_turned_right", "verdicts_turned_wrong")
        if "verdicts_changed" in result.report:
            assert len(changed) == result.report["verdicts_changed"]
            assert [
                sum((event.data["before"], event.data["after"]) == turn for event in changed) for turn in ((False, True), (True, False))
            ] == [result.report[turn] for turn in turns]
        assert all(spent["calls"] == 0 for spent in result.report.get("usage", {}).values())
        return result


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in (("asked", []), ("plan", {})):
        monkeypatch.setattr(Model, name, value)
    for name, value in (("grades", []), ("raises", {}), ("wrong", set()), ("silent", set()), ("stops", set())):
        monkeypatch.setattr(Watching, name, value)
    return Desk(tmp_path)


def verdicts(result):
    return {(int(event.sample_id.rpartition(".")[2]), event.epoch): event.data["correct"] for event in result.events("match")}


def changes(result):
    """Of each verdict that changed: the sample's number, the epoch, what it was and what it is."""
    return sorted(
        (int(event.sample_id.rpartition(".")[2]), event.epoch, event.data["before"], event.data["after"])
        for event in result.events("verdict_changed")
    )


def own(report):
    """A report without what the regrading has added, and without the bill."""
    return {name: value for name, value in report.items() if name != "usage" and not name.startswith("verdicts_")}


# ---------------------------------------------------------------------- who grades


@pytest.mark.parametrize("case", ["Match", "Includes", "graded", "talk", "thrice", "judged"])
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("how", [{}, {"sequential": False, "threads": 4}], ids=["one by one", "threads"])
def test_graded_as_it_was_nothing_changes(desk, case, epochs, how):
    Model.plan = {1: "1", 3: lambda text: f"draw {len(Model.asked)} of 3"}
    who = "m"
    if case == "graded":
        desk.watched()
        Watching.wrong = {2}
    elif case in ("talk", "thrice"):
        desk.eval("n", f"{__name__}:{case.title()}")
    elif case == "judged":
        desk.eval("n", f"{__name__}:Judged")
        who = "m,judge"
    else:
        desk.eval("n", f"{BASIC}:{case}")
    source = desk(who=who, epochs=epochs)
    result = desk.regraded(source.log_path, **how)
    assert (result.status, result.report["verdicts_changed"], changes(result)) == ("success", 0, [])
    assert own(result.report) == own(source.report)
    assert verdicts(result) == verdicts(source)
    assert result.counts.to_line() == source.counts.to_line()
    answers = {(event.sample_id, event.epoch, event.event_id): event.data["sampled"] for event in source.events("sampling")}
    replayed = {(event.sample_id, event.epoch, event.data["replayed_from"]): event.data["sampled"] for event in result.events("sampling")}
    assert replayed == answers


def test_a_changed_grader_of_the_same_eval_grades_what_was_answered(desk):
    desk.watched()
    source = desk()
    Watching.wrong = {1, 4}
    result = desk.regraded(source.log_path)
    assert (result.report["accuracy"], result.report["n"]) == (pytest.approx(4 / 6), 6)
    assert changes(result) == [(1, 1, True, False), (4, 1, True, False)]
    assert (result.report["verdicts_changed"], result.report["verdicts_turned_right"], result.report["verdicts_turned_wrong"]) == (2, 0, 2)


def test_an_argument_of_the_grader_may_be_another(desk):
    Model.plan = {2: "two"}
    rows = numbers(ROWS)
    rows[2]["ideal"] = "TWO"
    desk.rows(rows)
    desk.eval("n", f"{BASIC}:Includes")
    source = desk()
    assert source.report["accuracy"] == pytest.approx(5 / 6)
    desk.eval("n", f"{BASIC}:Includes", ignore_case=True)
    assert changes(desk.regraded(source.log_path)) == [(2, 1, False, True)]
    desk.eval("n", f"{BASIC}:Includes")
    assert changes(desk.regraded(source.log_path, extra_eval_params="ignore_case=true")) == [(2, 1, False, True)]


def test_a_corrected_ideal_is_judged_by_the_eval_that_was_run(desk):
    desk.eval("n", f"{BASIC}:Includes")
    source = desk()
    rows = numbers(ROWS)
    rows[3]["ideal"] = "33"
    desk.rows(rows)
    result = desk.regraded(source.log_path)
    assert changes(result) == [(3, 1, True, False)]


def test_another_eval_over_the_same_data_grades_the_same_answers(desk):
    desk.eval("other", f"{BASIC}:Includes")
    source = desk()
    assert source.report["accuracy"] == 0.0
    result = desk.regraded(source.log_path, eval="other")
    assert (result.run_spec.eval_name, result.report["accuracy"]) == ("other.dev.v0", 1.0)
    assert changes(result) == [(number, 1, False, True) for number in range(ROWS)]
    assert {event.sample_id for event in result.events("verdict_changed")} == {f"other.dev.{number}" for number in range(ROWS)}


def test_a_dialogue_is_judged_otherwise_as_long_as_it_asks_the_same(desk):
    desk.eval("n", f"{__name__}:Talk")
    source = desk()
    assert len(Model.asked) == 3 * ROWS
    desk.eval("n", f"{__name__}:Strict")
    result = desk.regraded(source.log_path)
    assert result.status == "success"
    assert len(result.events("sampling")) == 3 * ROWS
    assert changes(result) == [(number, 1, True, [True, False]) for number in range(ROWS)]
    assert (result.report["verdicts_turned_right"], result.report["verdicts_turned_wrong"]) == (0, 0)


def test_a_dialogue_that_asks_more_than_was_asked_ends_in_error_and_says_so(desk):
    desk.eval("n", f"{__name__}:Talk")
    source = desk()
    desk.eval("n", f"{__name__}:Longer")
    result = desk.regraded(source.log_path)
    assert (result.status, result.counts.error, result.exit_code) == ("error", ROWS, 1)
    assert "holds no answer to this prompt" in result.reason
    assert changes(result) == []


def test_answers_to_one_question_come_in_their_order(desk):
    desk.eval("n", f"{__name__}:Thrice")
    Model.plan = {number: lambda text: f"draw {len(Model.asked)}" for number in range(ROWS)}
    source = desk(epochs=2)
    assert source.report["accuracy"] == 1.0
    result = desk.regraded(source.log_path)
    assert result.report["accuracy"] == 1.0
    assert [event.data["picked"] for event in result.events("match")] == [event.data["picked"] for event in source.events("match")]


def test_the_answers_of_a_judge_are_replayed_like_those_of_the_tested(desk):
    desk.eval("n", f"{__name__}:Judged")
    source = desk(who="m,judge")
    assert source.report["accuracy"] == pytest.approx(2 / 6)
    desk.eval("n", f"{__name__}:JudgedOtherwise")
    result = desk.regraded(source.log_path)
    assert result.report["accuracy"] == pytest.approx(4 / 6)
    assert changes(result) == [(number, 1, number > 3, number <= 3) for number in range(ROWS)]
    assert {event.data["model"] for event in result.events("sampling")} == {"m", "judge"}


# ---------------------------------------------------------------------- what the new log tells


def test_the_new_log_names_its_source_and_each_answer_where_it_is_from(desk):
    source = desk()
    result = desk.regraded(source.log_path, record_path="again.jsonl")
    told = read_log("again.jsonl").spec["run_config"]["source"]
    assert told == {
        "log": str(source.log_path),
        "run_id": source.run_spec.run_id,
        "eval_name": "n.dev.v0",
        "status": "success",
    }
    assert result.run_spec.run_id != source.run_spec.run_id
    from_where = {event.sample_id: event.data["replayed_from"] for event in result.events("sampling")}
    assert from_where == {event.sample_id: event.event_id for event in source.events("sampling")}


def test_what_an_answer_came_with_comes_with_it_again(desk):
    source = desk()
    result = desk.regraded(source.log_path)
    for event in result.events("sampling"):
        assert (event.data["model"], event.data["finish_reason"]) == ("m", "stop")


def test_an_existing_file_is_not_written_to(desk):
    source = desk(record_path="one.jsonl")
    before = source.log_path.read_bytes()
    with pytest.raises(LogUnavailable, match="exists already"):
        regrade(source.log_path, registry=desk.names(), record_path="one.jsonl")
    assert source.log_path.read_bytes() == before


def test_what_was_regraded_can_be_regraded(desk):
    desk.watched()
    source = desk()
    Watching.wrong = {1}
    first = desk.regraded(source.log_path)
    Watching.wrong = {2}
    second = desk.regraded(first.log_path)
    assert changes(second) == [(1, 1, False, True), (2, 1, True, False)]
    Watching.wrong = set()
    assert own(desk.regraded(second.log_path).report) == own(source.report)


def test_a_dry_run_tells_the_changes_and_keeps_no_log(desk):
    desk.watched()
    source = desk()
    Watching.wrong = {1}
    before = sorted(Path("evallogs").iterdir())
    result = regrade(source.log_path, registry=desk.names(), dry_run=True, dry_run_logging=False)
    assert (result.report["verdicts_changed"], changes(result)) == (1, [(1, 1, True, False)])
    assert sorted(Path("evallogs").iterdir()) == before


# ---------------------------------------------------------------------- samples that did not end well


def test_an_answer_whose_grading_had_failed_is_graded(desk):
    desk.watched()
    Watching.raises = {2: 9, 4: 9}
    source = desk()
    assert (source.status, source.counts.error) == ("error", 2)
    Watching.raises = {}
    result = desk.regraded(source.log_path)
    assert (result.status, result.counts.error, result.report["n"], result.report["accuracy"]) == ("success", 0, ROWS, 1.0)
    assert changes(result) == [(2, 1, None, True), (4, 1, None, True)]
    assert (result.report["verdicts_turned_right"], result.report["verdicts_turned_wrong"]) == (0, 0)


def test_a_sample_without_an_answer_fails_again_with_the_error_of_the_log(desk):
    Model.plan = {3: ConnectionError("the line was dead")}
    source = desk()
    result = desk.regraded(source.log_path)
    assert (result.status, result.counts.error, result.report["n"]) == ("error", 1, ROWS - 1)
    (message,) = result.errors
    assert "ConnectionError: the line was dead" in message
    assert changes(result) == []


@pytest.mark.parametrize(
    "settings", [{"fail_on_error": False}, {"fail_on_error": 0.5}, {"score_on_error": True, "fail_on_error": 1}], ids=str
)
def test_what_errors_mean_is_what_it_was(desk, settings):
    Model.plan = {3: ConnectionError("the line was dead")}
    source = desk(**settings)
    result = desk.regraded(source.log_path)
    assert (result.status, own(result.report)) == (source.status, own(source.report))
    assert desk.regraded(source.log_path, fail_on_error=True).status == "error"


def test_samples_that_were_never_asked_are_not_graded(desk):
    source = desk()
    raw = source.log_path.read_bytes().splitlines(keepends=True)
    ends = [place for place, line in enumerate(raw) if json.loads(line).get("type") == "sample"]
    cut = Path("killed.jsonl")
    cut.write_bytes(b"".join(raw[: ends[2] + 2]) + raw[-2][:50])  # three ended, the fourth was answered, a torn line
    result = desk.regraded(cut)
    assert (result.status, result.counts.total, result.counts.completed, result.report["n"]) == ("success", 3, 3, 3)
    ended = {json.loads(raw[place])["sample_id"] for place in ends[:3]}
    assert {event.sample_id for event in result.events("sample")} == ended
    assert read_log(result.log_path).spec["run_config"]["source"]["status"] == "unfinished"


@pytest.mark.parametrize("epochs", [1, 2])
def test_of_a_cancelled_run_what_it_asked_is_graded(desk, epochs):
    desk.watched()
    Watching.stops = {4}
    source = desk(epochs=epochs)
    assert source.status == "cancelled"
    Watching.stops = set()
    result = desk.regraded(source.log_path)
    assert (result.status, result.counts.total, result.counts.completed) == ("success", source.counts.completed, source.counts.completed)
    assert own(result.report) == own(source.report)


@pytest.mark.parametrize(("case", "limit"), [
    ("Talk", {"turn_limit": 2}), ("Talk", {"token_limit": 20}), ("Talk", {"token_limit": 1}), ("n", {"token_limit": 1}), ("n", {"turn_limit": 1}),
], ids=str)  # fmt: skip
def test_a_sample_that_a_limit_had_cut_is_cut_in_the_same_place_and_graded(desk, case, limit):
    if case == "Talk":
        desk.eval("n", f"{__name__}:Talk")
    else:
        desk.watched()
    source = desk(**limit)
    result = desk.regraded(source.log_path)
    assert result.counts.to_line() == source.counts.to_line()
    assert (result.status, own(result.report)) == (source.status, own(source.report))
    assert (verdicts(result), changes(result)) == (verdicts(source), [])
    assert len(result.events("sampling")) == len(source.events("sampling"))
    told = {event.sample_id: event.data.get("limit") for event in source.events("sample")}
    assert {event.sample_id: event.data.get("limit") for event in result.events("sample")} == told


def test_samples_without_a_verdict_have_one_now_and_the_other_way_round(desk):
    desk.watched()
    Watching.silent = {1, 2}
    source = desk()
    Watching.silent = {2, 3}
    result = desk.regraded(source.log_path)
    assert changes(result) == [(1, 1, None, True), (3, 1, True, None)]
    assert (result.counts.unscored, result.report["n"]) == (2, ROWS - 2)


def test_several_answers_to_one_question_are_compared_as_one(desk):
    desk.watched()
    Model.plan = {2: ["2", "x"], 3: ["3", "3"]}
    source = desk()
    Watching.wrong = {3}
    result = desk.regraded(source.log_path)
    assert changes(result) == [(3, 1, [True, True], [False, False])]


# ---------------------------------------------------------------------- a change is told whatever else befell the sample


def test_a_change_is_told_of_a_sample_whose_grading_was_tried_twice(desk):
    desk.watched()
    source = desk()
    Watching.wrong, Watching.raises = {2}, {2: 1}
    result = desk.regraded(source.log_path, retry_on_error=2)
    assert (result.status, changes(result)) == ("success", [(2, 1, True, False)])


def test_a_change_in_a_later_epoch_is_told_though_the_first_has_failed(desk):
    desk.watched()
    once = iter([ConnectionError("dead")])
    Model.plan = {2: lambda text: next(once, "2")}
    source = desk(epochs=2, fail_on_error=False)
    Watching.wrong = {2}
    result = desk.regraded(source.log_path)
    assert (result.status, result.counts.error) == ("success", 1)
    assert changes(result) == [(2, 2, True, False)]


def test_each_epoch_has_the_changes_of_its_own_answers(desk):
    desk.watched()
    Model.plan = {2: lambda text: "2" if Counter(Model.asked)[2] == 1 else "none"}
    source = desk(epochs=3, epochs_reducer="max,at_least_2")
    Watching.wrong = {2, 4}
    result = desk.regraded(source.log_path)
    assert changes(result) == [(2, 1, True, False), (4, 1, True, False), (4, 2, True, False), (4, 3, True, False)]
    assert set(own(result.report)) == set(own(source.report))


# ---------------------------------------------------------------------- which samples, which settings


def test_the_settings_of_the_log_hold_unless_one_is_given(desk):
    source = desk(max_samples=4, seed=11, epochs=2, epochs_reducer="max", fail_on_error=3, extra_eval_params="max_tokens=7")
    config = read_log(desk.regraded(source.log_path).log_path).spec["run_config"]
    held = {
        "max_samples": 4,
        "seed": 11,
        "epochs": 2,
        "epochs_reducer": ["max"],
        "fail_on_error": 3,
        "extra_eval_params": {"max_tokens": 7},
    }
    assert {name: config[name] for name in held} == held
    less = desk.regraded(source.log_path, max_samples=2, epochs=1, epochs_reducer="mean", fail_on_error=False)
    assert (less.counts.total, less.report["n"]) == (2, 2)
    config = read_log(less.log_path).spec["run_config"]
    assert (config["epochs"], config["fail_on_error"]) == (1, False)


def test_the_registry_of_the_log_holds_where_none_is_given(desk):
    source = desk(registry_path=str(desk.registry))
    result = regrade(source.log_path)
    assert result.report["verdicts_changed"] == 0


def test_arguments_of_one_eval_are_not_those_of_another(desk):
    desk.eval("other", f"{BASIC}:Includes")
    desk.eval("n", f"{BASIC}:Match")
    source = desk(extra_eval_params="max_tokens=7")
    result = desk.regraded(source.log_path, eval="other")
    assert read_log(result.log_path).spec["run_config"]["extra_eval_params"] == {}


def test_a_setting_that_was_changed_on_the_way_holds_as_it_was_changed(desk):
    first = desk(max_samples=2)
    source = desk(max_samples=5, resume=str(first.log_path))
    assert desk.regraded(source.log_path).counts.total == 5


def test_more_samples_than_the_log_has_are_not_asked(desk):
    source = desk(max_samples=3)
    result = desk.regraded(source.log_path, max_samples=6, epochs=2)
    assert (result.status, result.counts.total) == ("success", 3)


def test_a_question_that_has_changed_is_told(desk):
    source = desk()
    rows = numbers(ROWS)
    rows[2]["input"] = "Now say the number 2"
    desk.rows(rows)
    result = desk.regraded(source.log_path)
    assert (result.status, result.counts.error) == ("error", 1)
    assert any("holds no answer to this prompt" in message for message in result.errors)


def test_answers_that_counted_no_more_are_not_graded(desk):
    desk.eval("n", f"{BASIC}:Includes")
    first = desk()
    rows = numbers(ROWS)
    rows[2] = {"input": "Now say the number 12", "ideal": "12"}
    desk.rows(rows)
    source = desk(resume=str(first.log_path))
    assert Model.asked == [12]
    result = desk.regraded(source.log_path)
    assert (result.status, result.report["accuracy"], result.report["n"], changes(result)) == ("success", 1.0, ROWS, [])
    assert len(result.events("sampling")) == ROWS


def test_the_same_question_asked_in_two_processes_has_the_answer_that_counts(desk):
    desk.watched()
    first = desk()
    rows = numbers(ROWS)
    rows[2]["ideal"], Model.plan = "22", {2: "22"}
    desk.rows(rows)
    source = desk(resume=str(first.log_path))
    assert source.report["accuracy"] == 1.0
    result = desk.regraded(source.log_path)
    assert (result.report["accuracy"], changes(result)) == (1.0, [])


def test_a_source_that_failed_and_was_taken_up_is_graded_whole(desk):
    Model.plan = {1: ConnectionError("dead"), 4: ConnectionError("dead")}
    first = desk()
    Model.plan = {}
    source = desk(resume=str(first.log_path))
    result = desk.regraded(source.log_path)
    assert (result.status, result.counts.completed, own(result.report)) == ("success", ROWS, own(source.report))


def test_a_row_that_was_taken_out_is_not_graded(desk):
    first = desk()
    desk.rows(numbers(ROWS - 1))
    source = desk(resume=str(first.log_path))
    result = desk.regraded(source.log_path)
    assert (result.counts.total, result.report["n"]) == (ROWS - 1, ROWS - 1)
    desk.rows(numbers(ROWS))
    assert desk.regraded(source.log_path).counts.total == ROWS - 1  # what counts no more in the log is not graded either


# ---------------------------------------------------------------------- a regrading that is stopped


def test_a_regrading_that_was_stopped_is_taken_up_as_one(desk, capsys):
    desk.watched()
    source = desk(max_samples=ROWS)
    raw = source.log_path.read_bytes().splitlines(keepends=True)
    ends = [place for place, line in enumerate(raw) if json.loads(line).get("type") == "sample"]
    cut = desk.folder / "killed.jsonl"
    cut.write_bytes(b"".join(raw[: ends[3] + 1]))  # four of six have ended
    ended = {int(json.loads(raw[place])["sample_id"].rpartition(".")[2]) for place in ends[:4]}
    Watching.stops, Watching.wrong = ended, ended
    stopped = desk.regraded(cut)
    assert (stopped.status, stopped.counts.completed, stopped.counts.total) == ("cancelled", 1, 4)
    Watching.stops = set()
    assert main(["resume", str(stopped.log_path), "--registry_path", "R", "--json"]) == 0, capsys.readouterr().err
    told = json.loads(capsys.readouterr().out)
    assert (told["samples"]["total"], told["samples"]["completed"], told["samples"]["error"]) == (4, 4, 0)
    assert (told["report"]["verdicts_changed"], told["report"]["verdicts_turned_wrong"]) == (4, 4)
    log = read_log(stopped.log_path)
    assert Counter(event.sample_id for event in log.events("verdict_changed")) == Counter({f"n.dev.{number}": 1 for number in ended})
    assert Model.asked == []


# ---------------------------------------------------------------------- logs of openai/evals


def openai_log(path, *, events, final=True):
    spec = {
        "completion_fns": ["gpt-3.5-turbo"], "eval_name": "n.dev.v0", "base_eval": "n", "split": "dev",
        "run_config": {"completion_fns": ["gpt-3.5-turbo"], "eval_spec": {"cls": "evals.elsuite.basic.match:Match", "args": {}}, "seed": 20220722,
                       "max_samples": None, "command": "oaieval gpt-3.5-turbo n", "initial_settings": {"visible": True}},
        "created_by": "", "run_id": "230101120000ABCDEFGH", "created_at": "2023-01-01 12:00:00.000000",
    }  # fmt: skip
    lines = [{"spec": spec}]
    for number, (sample_id, kind, data) in enumerate(events):
        lines.append({
            "run_id": spec["run_id"], "event_id": number, "sample_id": sample_id, "type": kind, "data": data,
            "created_by": "", "created_at": "2023-01-01 12:00:01.000000+00:00",
        })  # fmt: skip
    if final:
        lines.append({"final_report": {"accuracy": 0.5, "boostrap_std": 0.1}})
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return Path(path)


@pytest.mark.parametrize("kind", ["chat", "text"])
@pytest.mark.parametrize("sampled", [lambda text: text, lambda text: [text]], ids=["text", "list"])
def test_a_log_of_openai_evals_is_graded_again(desk, kind, sampled):
    rows = numbers(ROWS)
    if kind == "chat":
        rows = [{"input": [{"role": "user", "content": row["input"]}], "ideal": row["ideal"]} for row in rows]
    desk.rows(rows)
    desk.watched()
    Watching.wrong = {5}
    events = []
    for number in (3, 0, 5, 1):  # two of six were never asked
        prompt = rows[number]["input"]
        events += [
            (f"n.dev.{number}", "sampling", {"prompt": prompt, "sampled": sampled(f"It is {number}.")}),
            (
                f"n.dev.{number}",
                "match",
                {"correct": number in (0, 5), "expected": str(number), "picked": None, "sampled": "x", "options": []},
            ),
        ]
    log = openai_log("old.jsonl", events=events)
    result = desk.regraded(log)
    assert (result.status, result.counts.total, result.report["n"], result.report["accuracy"]) == ("success", 4, 4, 0.75)
    assert changes(result) == [(1, 1, False, True), (3, 1, False, True), (5, 1, True, False)]
    assert read_log(result.log_path).spec["run_config"]["source"]["run_id"] == "230101120000ABCDEFGH"


def test_a_log_of_openai_evals_that_was_killed_is_graded_as_far_as_it_goes(desk):
    desk.watched()
    rows = numbers(ROWS)
    events = [(f"n.dev.{number}", "sampling", {"prompt": rows[number]["input"], "sampled": [f"{number}"]}) for number in (2, 4)]
    log = openai_log("old.jsonl", events=events, final=False)
    log.write_bytes(log.read_bytes()[:-20])
    result = desk.regraded(log)
    assert (result.status, result.counts.total, result.report["n"]) == ("success", 1, 1)


# ---------------------------------------------------------------------- what cannot be regraded


@pytest.mark.parametrize(("content", "error", "told"), [
    (None, BadLog, "No such file"), (b"", BadLog, "is not a log of evalframe"), (b"no log\n", BadLog, "is not a log"),
    (b'{"spec": {"run_config": {}}}\n', BadLog, "does not tell which eval it is of"),
])  # fmt: skip
def test_what_is_no_log_is_told(desk, content, error, told):
    if content is not None:
        Path("x.jsonl").write_bytes(content)
    with pytest.raises(error, match=told) as caught:
        regrade("x.jsonl", registry=desk.names())
    assert caught.value.exit_code == 2
    assert not list(Path().glob("evallogs/*"))


def test_an_eval_that_is_not_there_is_told_with_what_is_close(desk):
    source = desk()
    with pytest.raises(UnknownName, match="no eval"):
        regrade(source.log_path, eval="m-x", registry=desk.names())
    desk.registry.joinpath("evals", "n.yaml").unlink()
    with pytest.raises(EvalframeError, match=r"n\.dev\.v0"):
        regrade(source.log_path, registry=desk.names())
    assert len(list(Path("evallogs").iterdir())) == 1


def test_a_log_that_has_not_one_ended_sample_gives_no_accuracy(desk):
    source = desk()
    cut = Path("killed.jsonl")
    cut.write_bytes(source.log_path.read_bytes().splitlines(keepends=True)[0])
    result = desk.regraded(cut)
    assert (result.counts.total, result.status, result.exit_code, result.report["n"]) == (0, "error", 1, 0)
