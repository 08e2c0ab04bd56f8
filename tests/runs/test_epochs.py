"""Samples that are asked several times: in which order, with what randomness, and what their scores come to."""

import json
import math
import random
import threading
from collections import Counter, defaultdict

import numpy
import pytest
from loopback import ModelStub, said
from number_rows import numbers
from scipy import stats

from evalframe import run_eval
from evalframe.cli.oaieval import main
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.core.completion import Completion, Usage
from evalframe.core.errors import BadSetting, EvalframeError
from evalframe.core.grade import Grade
from evalframe.core.recorder import record_match, record_metrics, record_sampling
from evalframe.core.scope import current_scope
from evalframe.eval import Eval
from evalframe.logs.run_log import read_log
from evalframe.registry.registry import Registry

MATCH = "evalframe.evals.basic:Match"
HOW = [{"sequential": True}, {"threads": 1}, {"threads": 7}]


def order(count):
    indices = list(range(count))
    random.Random(123).shuffle(indices)
    return indices


class Planned:
    """Says the number it is asked for where `right(number, time)` is true, `time` being how often it was asked for it; else something wrong."""

    model = "planned"

    def __init__(self, right=lambda number, time: True, fail=lambda number, time: False):
        self.right, self.fail = right, fail
        self.asked = []
        self._lock = threading.Lock()

    def __call__(self, prompt, **options):
        number = int((prompt if isinstance(prompt, str) else prompt[-1]["content"]).split()[-1])
        with self._lock:
            self.asked.append(number)
            time = self.asked.count(number)
        if self.fail(number, time):
            raise ConnectionError(f"no answer to {number}")
        answer = str(number) if self.right(number, time) else "none"
        record_sampling(prompt, answer, model=self.model, usage={"input_tokens": 5, "output_tokens": 1})
        return Completion([answer], Usage(5, None, 1), ["stop"])


@pytest.fixture
def asks(tmp_path, monkeypatch):
    """Runs an eval of so many rows in this process."""
    monkeypatch.chdir(tmp_path)

    def make(rows, cls, spec=None, args=None):
        folder = tmp_path / "R"
        (folder / "evals").mkdir(parents=True, exist_ok=True)
        (folder / "data").mkdir(exist_ok=True)
        entry = {"class": cls, "args": {"samples_jsonl": "s.jsonl", **(args or {})}, **(spec or {})}
        (folder / "evals" / "n.yaml").write_text(json.dumps({"n": {"id": "n.dev.v0"}, "n.dev.v0": entry}), encoding="utf-8")
        given = numbers(rows) if isinstance(rows, int) else rows
        (folder / "data" / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
        return Registry([folder])

    def run(model, rows=4, cls=MATCH, *, spec=None, args=None, **settings):
        return run_eval(model, "n", registry=make(rows, cls, spec, args), **settings)

    run.registry = make
    return run


def spoken(number, body):
    return said(body["messages"][-1]["content"].split()[-1], usage={"prompt_tokens": 5, "completion_tokens": 1})


# ---------------------------------------------------------------------- an eval of one's own


class Drawing(Eval):
    """Draws, records, and returns what it was given; changes the row it got."""

    loops = []
    results = []

    def eval_sample(self, sample, rng):
        scope = current_scope()
        drawn = rng.random()
        record_sampling("q", f"{sample['ideal']}/{scope.epoch}", model="m", usage={"input_tokens": 1, "output_tokens": 1})
        record_match(drawn < 0.5, expected=sample["ideal"], picked=f"{sample['ideal']}/{scope.epoch}", drawn=drawn, row=dict(sample))
        record_metrics(drawn=drawn)
        sample["input"] = "spoilt"
        sample["seen"].append(scope.epoch)
        return [int(sample["ideal"]), scope.epoch]

    def run(self, recorder):
        found = self.eval_all_samples(recorder, self.get_samples())
        type(self).results.append(found)
        by_epoch = defaultdict(list)
        for event in recorder.get_events("match"):
            by_epoch[event.epoch].append(event.data["picked"])
        return {"n": len(found), "picked_by_epoch": {str(epoch): sorted(picked) for epoch, picked in by_epoch.items()}}


class AsyncDrawing(Drawing):
    async def eval_sample(self, sample, rng):
        import asyncio

        await asyncio.sleep(0)
        return super().eval_sample(sample, rng)


DRAWING_ROWS = [{**row, "seen": []} for row in numbers(6)]


@pytest.fixture
def drawing(asks, monkeypatch):
    monkeypatch.setattr(Drawing, "results", [])
    monkeypatch.setattr(AsyncDrawing, "results", Drawing.results)

    def run(cls=Drawing, rows=DRAWING_ROWS, **settings):
        return asks(Planned(), rows, f"{__name__}:{cls.__name__}", **settings)

    return run


@pytest.mark.parametrize("cls", [Drawing, AsyncDrawing])
@pytest.mark.parametrize("how", HOW, ids=str)
def test_every_event_carries_its_epoch(drawing, cls, how):
    result = drawing(cls, epochs=3, **how)
    log = read_log(result.log_path)
    for kind in ("match", "sampling", "metrics", "sample"):
        wanted = Counter((f"n.dev.{number}", epoch) for number in range(6) for epoch in (1, 2, 3))
        assert Counter((event.sample_id, event.epoch) for event in result.events(kind)) == wanted
        assert Counter((event.sample_id, event.epoch) for event in log.events(kind)) == wanted
    assert all(event.data["picked"] == f"{event.sample_id.split('.')[-1]}/{event.epoch}" for event in result.events("match"))
    raw = [line for line in map(json.loads, result.log_path.read_bytes().splitlines()) if "type" in line]
    assert all(line["epoch"] in (1, 2, 3) for line in raw)  # in the first one too, where there are several


def test_with_one_epoch_no_line_speaks_of_it(drawing):
    result = drawing()
    assert all("epoch" not in json.loads(line) for line in result.log_path.read_bytes().splitlines())


@pytest.mark.parametrize("how", HOW, ids=str)
def test_each_epoch_has_its_own_randomness_and_the_first_is_the_moulds(drawing, how):
    drawn = {(event.sample_id, event.epoch): event.data["drawn"] for event in drawing(epochs=3, seed=7, **how).events("match")}
    for number in range(6):
        sample_id = f"n.dev.{number}"
        texts = {1: f"{sample_id}:7", 2: f"{sample_id}:7:2", 3: f"{sample_id}:7:3"}
        for epoch, text in texts.items():
            assert drawn[sample_id, epoch] == random.Random(text.encode()).random()
    assert len(set(drawn.values())) == 18
    single = {event.sample_id: event.data["drawn"] for event in drawing(seed=7).events("match")}
    assert single == {sample_id: value for (sample_id, epoch), value in drawn.items() if epoch == 1}


def test_all_samples_are_asked_once_before_any_is_asked_again(asks):
    model = Planned()
    result = asks(model, 5, epochs=3, sequential=True)
    assert model.asked == order(5) * 3
    assert [event.epoch for event in result.events("match")] == [1] * 5 + [2] * 5 + [3] * 5


def test_max_samples_cuts_the_samples_and_not_the_epochs(asks):
    model = Planned()
    result = asks(model, 8, epochs=2, max_samples=3, sequential=True)
    assert model.asked == order(8)[:3] * 2
    assert (result.counts.total, result.counts.completed, result.report["n"]) == (6, 6, 3)


@pytest.mark.parametrize("cls", [Drawing, AsyncDrawing])
@pytest.mark.parametrize("how", HOW, ids=str)
def test_results_come_in_sample_order_and_by_epoch_within_each(drawing, cls, how):
    drawing(cls, epochs=3, **how)
    assert Drawing.results == [[[number, epoch] for number in range(6) for epoch in (1, 2, 3)]]


def test_results_of_a_cut_run_leave_out_what_was_not_asked(drawing):
    drawing(epochs=2, max_samples=2)
    assert Drawing.results == [[[number, epoch] for number in sorted(order(6)[:2]) for epoch in (1, 2)]]


@pytest.mark.parametrize("cls", [Drawing, AsyncDrawing])
@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_row_that_the_eval_changes_is_fresh_in_every_epoch(drawing, cls, how):
    for event in drawing(cls, epochs=3, **how).events("match"):
        assert event.data["row"] == DRAWING_ROWS[int(event.sample_id.split(".")[-1])]


class DrawingTuple(Drawing):
    def get_samples(self):
        return tuple(super().get_samples())


def test_a_row_is_fresh_too_where_the_rows_are_a_tuple(drawing, monkeypatch):
    monkeypatch.setattr(DrawingTuple, "results", Drawing.results)
    for event in drawing(DrawingTuple, epochs=3, sequential=True).events("match"):
        assert event.data["row"] == DRAWING_ROWS[int(event.sample_id.split(".")[-1])]


def test_a_plain_eval_over_epochs_reads_every_epochs_events(drawing):
    result = drawing(epochs=3)
    assert (result.status, result.counts.total, result.counts.completed, result.report["n"]) == ("success", 18, 18, 18)
    assert result.report["picked_by_epoch"] == {str(epoch): [f"{number}/{epoch}" for number in range(6)] for epoch in (1, 2, 3)}


# ---------------------------------------------------------------------- the cases of users


def test_asking_again_does_not_shrink_the_standard_error(asks):
    """STA-04: a deterministic model, right for odd numbers, asked once and eight times."""
    rows = [{"input": [{"role": "user", "content": f"Say the number {number}"}], "ideal": str(number)} for number in range(1, 51)]
    once, often = (asks(Planned(lambda number, time: number % 2 == 1), rows, epochs=epochs).report for epochs in (1, 8))
    assert once["accuracy"] == often["accuracy"] == 0.5
    assert once["accuracy_stderr"] == pytest.approx(0.0714, abs=0.002)
    for name in ("accuracy_stderr", "accuracy_ci95", "boostrap_std", "n"):
        assert once[name] == pytest.approx(often[name])
    assert often["epochs"] == 8


def test_the_standard_error_is_that_of_the_means_of_samples(asks):
    verdicts = numpy.random.default_rng(4).random((30, 5)) < 0.6
    report = asks(Planned(lambda number, time: bool(verdicts[number, current_scope().epoch - 1])), 30, epochs=5).report
    means = verdicts.mean(axis=1)
    assert report["accuracy"] == pytest.approx(means.mean())
    assert report["accuracy_stderr"] == pytest.approx(stats.sem(means))
    assert report["accuracy_ci95"] == pytest.approx(stats.t.interval(0.95, 29, loc=means.mean(), scale=stats.sem(means)))
    assert report["accuracy_by_epoch"] == pytest.approx(list(verdicts.mean(axis=0)))
    assert report["accuracy_range"] == pytest.approx([verdicts.mean(axis=0).min(), verdicts.mean(axis=0).max()])


def sta_05(number, time):
    """Right the first time, the second only for 1 and 2, never the third."""
    return time == 1 or (time == 2 and number in (1, 2))


STA_05_ROWS = [{"input": [{"role": "user", "content": f"Say the number {number}"}], "ideal": str(number)} for number in range(1, 5)]


def test_each_epoch_its_figure_and_the_reducers_theirs(asks):
    """STA-05, over real HTTP."""
    times = Counter()

    def answer(_number, body):
        number = int(body["messages"][-1]["content"].split()[-1])
        times[number] += 1
        return said(str(number) if sta_05(number, times[number]) else "none", usage={"prompt_tokens": 5, "completion_tokens": 1})

    with ModelStub(answer) as stub:
        model = OpenAIChatCompletionFn("gpt-4o-mini", base_url=stub.base_url, api_key="sk-test-0000")
        names = "mean,median,mode,max,at_least_1,at_least_2,pass_at_1,pass_at_2,pass_at_3,pass_1,pass_2,pass_3"
        result = asks(model, STA_05_ROWS, epochs=3, epochs_reducer=names, sequential=True)
        assert stub.count == 12
    report = result.report
    assert report["accuracy"] == pytest.approx(0.5)
    assert report["accuracy_by_epoch"] == [1.0, 0.5, 0.0]
    assert report["accuracy_range"] == [0.0, 1.0]
    assert (report["n"], report["epochs"]) == (4, 3)
    right = {1: 2, 2: 2, 3: 1, 4: 1}  # of three
    wanted = {
        "median": 0.5, "mode": 0.5, "max": 1.0, "at_least_1": 1.0, "at_least_2": 0.5,
        "pass_at_1": sum(c / 3 for c in right.values()) / 4, "pass_1": sum(c / 3 for c in right.values()) / 4,
        "pass_at_2": sum(1 - math.comb(3 - c, 2) / 3 for c in right.values()) / 4,
        "pass_2": sum(math.comb(c, 2) / 3 for c in right.values()) / 4,
        "pass_at_3": 1.0, "pass_3": 0.0,
    }  # fmt: skip
    assert {name: report[f"accuracy_{name}"] for name in wanted} == pytest.approx(wanted)
    for name in wanted:
        assert report[f"accuracy_{name}_n"] == 4
        assert report[f"accuracy_{name}_stderr"] is not None
        low, high = report[f"accuracy_{name}_ci95"]
        assert 0 <= low <= report[f"accuracy_{name}"] <= high <= 1
    assert report["usage"]["gpt-4o-mini"]["calls"] == 12
    assert {(event.sample_id, event.epoch) for event in result.events("match")} == {
        (f"n.dev.{index}", epoch) for index in range(4) for epoch in (1, 2, 3)
    }


def test_only_the_reducers_that_were_asked_for_are_reported(asks):
    report = asks(Planned(sta_05), STA_05_ROWS, epochs=3, epochs_reducer="pass_2, max", sequential=True).report
    more = {name for name in report if name.startswith("accuracy_")}
    plain = {"accuracy_stderr", "accuracy_ci95", "accuracy_by_epoch", "accuracy_range"}
    assert more - plain == {f"accuracy_{name}{ending}" for name in ("pass_2", "max") for ending in ("", "_stderr", "_ci95", "_n")}


def test_all_of_an_epochs_events_can_be_read_back(asks):
    """STA-08, over real HTTP: picked and sampled are there in each epoch."""
    rows = STA_05_ROWS[:2]
    with ModelStub(spoken) as stub:
        model = OpenAIChatCompletionFn("gpt-4o-mini", base_url=stub.base_url, api_key="sk-test-0000")
        result = asks(model, rows, epochs=3)
    found = [
        (event.sample_id, event.epoch, event.data["picked"], event.data["sampled"]) for event in read_log(result.log_path).events("match")
    ]
    assert sorted(found) == [(f"n.dev.{index}", epoch, str(index + 1), str(index + 1)) for index in range(2) for epoch in (1, 2, 3)]


# ---------------------------------------------------------------------- errors in some epochs


def test_a_sample_whose_one_epoch_failed_rests_on_the_others(asks):
    """Of three samples over three epochs: 0 right, failed, right; 1 right, wrong, wrong; 2 failed in all."""
    model = Planned(lambda number, time: number == 0 or time == 1, lambda number, time: number == 2 or (number == 0 and time == 2))
    result = asks(
        model, 3, epochs=3, fail_on_error=False, sequential=True, epochs_reducer="max,mode,pass_at_2,pass_2,pass_at_3,pass_3,at_least_3"
    )
    assert (result.status, result.counts.total, result.counts.completed, result.counts.error) == ("success", 9, 5, 4)
    report = result.report
    assert report["accuracy"] == pytest.approx((1.0 + 1 / 3) / 2)
    assert report["n"] == 2  # samples with a verdict
    assert report["accuracy_by_epoch"] == [1.0, 0.0, 0.5]
    assert report["accuracy_max"] == 1.0
    assert report["accuracy_mode"] == 0.5
    assert report["accuracy_pass_at_2"] == pytest.approx((1 + (1 - math.comb(2, 2) / math.comb(3, 2))) / 2)
    assert report["accuracy_pass_2"] == pytest.approx((1 + 0) / 2)
    assert report["accuracy_pass_at_2_n"] == 2
    for name in ("pass_at_3", "pass_3", "at_least_3"):  # only sample 1 has three verdicts
        assert report[f"accuracy_{name}_n"] == 1
    assert (report["accuracy_pass_at_3"], report["accuracy_pass_3"]) == (1.0, 0.0)


def test_a_reducer_for_which_no_sample_has_enough_epochs_has_no_number(asks):
    result = asks(
        Planned(fail=lambda number, time: time == 3), 3, epochs=3, fail_on_error=False, epochs_reducer="pass_3,max", sequential=True
    )
    assert (result.report["accuracy"], result.report["accuracy_max"]) == (1.0, 1.0)
    assert (result.report["accuracy_pass_3"], result.report["accuracy_pass_3_n"], result.report["accuracy_pass_3_ci95"]) == (None, 0, None)
    assert result.report["accuracy_by_epoch"] == [1.0, 1.0, None]


def test_with_errors_in_some_epochs_both_readings_are_there(asks):
    """Two samples over two epochs, all right, and sample 1 failed in epoch 2: left out it is 1, as wrong it is (1 + 1/2) / 2."""
    model, fails = Planned, {"fail": lambda number, time: number == 1 and time == 2}
    left_out = asks(model(**fails), 2, epochs=2, fail_on_error=False, sequential=True).report
    assert (left_out["accuracy"], left_out["n"]) == (1.0, 2)
    assert left_out["accuracy_errors_as_wrong"] == pytest.approx(0.75)
    as_wrong = asks(model(**fails), 2, epochs=2, fail_on_error=False, sequential=True, score_on_error=True).report
    assert (as_wrong["accuracy"], as_wrong["n"]) == (0.75, 2)
    assert as_wrong["accuracy_errors_left_out"] == pytest.approx(1.0)


@pytest.mark.parametrize(("rule", "status"), [(2, "success"), (1, "error"), (0.34, "success"), (0.33, "error")])
def test_an_epoch_of_a_sample_counts_as_a_sample_where_errors_are_counted(asks, rule, status):
    result = asks(Planned(fail=lambda number, time: number == 1 and time <= 2), 2, epochs=3, fail_on_error=rule, sequential=True)
    assert (result.counts.total, result.counts.error, result.status) == (6, 2, status)


def test_an_epoch_that_failed_is_tried_again_as_that_epoch(asks):
    model = Planned(fail=lambda number, time: number == 1 and time == 2)
    result = asks(model, 3, epochs=2, retry_on_error=1, sequential=True)
    assert model.asked == [*order(3), *order(3), 1]
    assert (result.status, result.counts.completed) == ("success", 6)
    (again,) = [event for event in result.events("match") if event.attempt == 2]
    assert (again.sample_id, again.epoch) == ("n.dev.1", 2)


# ---------------------------------------------------------------------- numbers beside the accuracy


class Length:
    """Half a point and a number for each answer; the number grows with the epoch."""

    def __call__(self, completion, sample):
        return Grade.correct(picked=completion, metrics={"words": current_scope().epoch * 10 + int(sample.ideals[0])})


def test_other_numbers_are_reduced_sample_by_sample_too(asks):
    report = asks(Planned(), 4, "evalframe.evals.graded:Graded", args={"grader": f"{__name__}:Length"}, epochs=3).report
    per_sample = [20 + number for number in range(4)]
    assert report["words"] == pytest.approx(numpy.mean(per_sample))
    assert report["words_stderr"] == pytest.approx(stats.sem(per_sample))
    assert report["words_n"] == 4
    assert report["words_by_epoch"] == pytest.approx([11.5, 21.5, 31.5])


def by_epoch(number, time):
    """Right or wrong by the number and the epoch in scope, in whatever order they are asked."""
    return random.Random(number * 31 + current_scope().epoch).random() < 0.5


@pytest.mark.parametrize("threads", [2, 8])
def test_a_run_on_threads_reports_the_same_to_the_last_bit(asks, threads):
    settings = {"epochs": 4, "epochs_reducer": "max,median,mode,pass_at_2,pass_2,at_least_2"}
    alone = asks(Planned(by_epoch), 40, sequential=True, **settings).report
    assert asks(Planned(by_epoch), 40, threads=threads, **settings).report == alone


# ---------------------------------------------------------------------- what is refused before any request


@pytest.mark.parametrize(("epochs", "reducer", "told"), [
    (1, "pass_at_2", "pass_at_2 needs at least 2 epochs, and epochs is 1"),
    (3, "pass_4", "pass_4 needs at least 4 epochs, and epochs is 3"),
    (3, "mean,at_least_2,pass_at_5", "pass_at_5 needs at least 5 epochs, and epochs is 3"),
    (3, "pass_at_4,pass_5,at_least_4", "pass_5 needs at least 5"),  # mending what is told mends all
    (2, "pass_at_k", "does not say which k"),
    (2, "mediam", "median"),
    (2, "pass@2", "pass_at_2"),
    (2, "pass_at_0", "epochs_reducer"),
])  # fmt: skip
def test_a_reducer_that_cannot_be_is_refused_before_any_request(asks, tmp_path, epochs, reducer, told):
    model = Planned()
    with pytest.raises(BadSetting, match=told) as caught:
        asks(model, 3, epochs=epochs, epochs_reducer=reducer)
    assert caught.value.exit_code == 2
    assert caught.value.do
    assert model.asked == []
    assert not (tmp_path / "evallogs").exists()


def test_the_command_refuses_it_too_and_says_what_to_do(asks, tmp_path, capsys):
    asks.registry(3, MATCH)
    command = ["echo", "n", "--registry_path", "R"]
    assert main([*command, "--epochs", "2", "--epochs_reducer", "pass_at_5"]) == 2
    told = capsys.readouterr().err
    assert "needs at least 5 epochs" in told
    assert "--epochs 5" in told
    assert not (tmp_path / "evallogs").exists()
    assert main([*command, "--epochs", "5", "--epochs_reducer", "pass_at_5,max"]) == 0
    capsys.readouterr()


def test_what_the_spec_asks_for_must_fit_the_epochs_that_hold(asks):
    spec = {"run": {"epochs": 4, "epochs_reducer": "pass_at_4"}}
    assert "accuracy_pass_at_4" in asks(Planned(), 3, spec=spec).report
    with pytest.raises(EvalframeError, match="needs at least 4 epochs, and epochs is 2"):
        asks(Planned(), 3, spec=spec, epochs=2)
    assert "accuracy_pass_2" in asks(Planned(), 3, spec=spec, epochs=2, epochs_reducer=["pass_2"]).report


@pytest.mark.parametrize("epochs", [0, -1, 1.5, "many"])
def test_epochs_are_a_whole_number_from_1(asks, epochs):
    with pytest.raises(BadSetting, match="--epochs takes a whole number, from 1 to 1,000,000"):
        asks(Planned(), 3, epochs=epochs)


def test_the_environment_and_the_spec_set_them_and_the_log_tells(asks, monkeypatch):
    def held(**more):
        config = read_log(asks(Planned(), 2, **more).log_path).spec["run_config"]
        return config["epochs"], list(config["epochs_reducer"])

    assert held() == (1, ["mean"])
    assert held(spec={"run": {"epochs": 3, "epochs_reducer": ["max", "pass_2"]}}) == (3, ["max", "pass_2"])
    monkeypatch.setenv("EVALFRAME_EPOCHS", "2")
    monkeypatch.setenv("EVALFRAME_EPOCHS_REDUCER", "median,pass_2")
    assert held(spec={"run": {"epochs": 3, "epochs_reducer": "max"}}) == (2, ["median", "pass_2"])
    assert held(epochs=4, epochs_reducer="mode") == (4, ["mode"])


# ---------------------------------------------------------------------- the cache


class Kept(Planned):
    """One whose answers can be kept."""

    def cache_identity(self, options):
        return {"provider": "planned", "model": self.model, "options": dict(options)}


@pytest.mark.parametrize("how", HOW, ids=str)
def test_the_cache_never_gives_one_epochs_answer_to_another(asks, how):
    model = Kept(sta_05)
    rows = [{"input": f"Say the number {number}", "ideal": str(number)} for number in range(1, 5)]
    first = asks(model, rows, epochs=3, cache_dir="answers", **how)
    assert Counter(model.asked) == Counter(dict.fromkeys(range(1, 5), 3))
    again = asks(model, rows, epochs=3, cache_dir="answers", **how)
    assert len(model.asked) == 12  # not one more
    assert {name: again.report[name] for name in first.report if name != "usage"} == {
        name: value for name, value in first.report.items() if name != "usage"
    }
    answers = {(event.sample_id, event.epoch): event.data["sampled"] for event in first.events("sampling")}
    assert {(event.sample_id, event.epoch): event.data["sampled"] for event in again.events("sampling")} == answers
    assert all(event.data["cached"] for event in again.events("sampling"))
    assert again.report["usage"]["planned"]["calls"] == 0
    more = asks(model, rows, epochs=5, cache_dir="answers", **how)
    assert Counter(model.asked) == Counter(dict.fromkeys(range(1, 5), 5))  # only the new epochs
    assert more.report["accuracy_by_epoch"][:3] == first.report["accuracy_by_epoch"]


def test_rows_that_ask_the_same_share_an_answer_within_an_epoch_only(asks):
    model = Kept()
    rows = [{"input": "Say the number 1", "ideal": "1"}] * 3
    result = asks(model, rows, epochs=2, cache_dir="answers", sequential=True)
    assert len(model.asked) == 2
    assert (result.counts.completed, result.report["accuracy"], result.report["n"]) == (6, 1.0, 3)


# ---------------------------------------------------------------------- more of them, later


@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_run_that_is_taken_up_with_more_epochs_asks_only_the_new_ones(asks, how):
    whole = asks(Planned(by_epoch), 6, epochs=4, epochs_reducer="max,pass_2", sequential=True)
    model = Planned(by_epoch)
    first = asks(model, 6, epochs=2, epochs_reducer="max", **how)
    result = asks(model, 6, epochs=4, epochs_reducer="max,pass_2", resume=str(first.log_path), **how)
    assert Counter(model.asked) == Counter(dict.fromkeys(range(6), 4))
    assert (result.reused, result.counts.total, result.counts.completed) == (12, 24, 24)
    assert result.report == whole.report
    assert Counter((event.sample_id, event.epoch) for event in read_log(result.log_path).events("match")) == Counter(
        (f"n.dev.{number}", epoch) for number in range(6) for epoch in (1, 2, 3, 4)
    )
