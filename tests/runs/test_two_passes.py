"""An eval may ask its samples twice in one run, or two lists of them; each pass is taken up by itself."""

import json
from collections import Counter

import pytest

import evalframe
from evalframe import read_log, run_eval
from evalframe.core.specs import EvalSpec


class Twice(evalframe.Eval):
    """Asks the first half of its rows, then the other half: the samples of both are numbered from 0."""

    def eval_sample(self, sample, rng):
        (answer,) = self.completion_fn(prompt=sample["input"]).get_completions()
        evalframe.record_match(answer == sample["ideal"], picked=answer)
        return {"number": int(answer), "drawn": rng.random()}

    def run(self, recorder):
        rows = self.get_samples()
        passes = [self.eval_all_samples(recorder, rows[:5]), self.eval_all_samples(recorder, rows[5:])]
        verdicts = [event.data["correct"] for event in recorder.get_events("match")]
        return {"accuracy": sum(verdicts) / len(verdicts), "n": len(verdicts), "passes": passes}


class Model:
    """Says the last word, and stops saying anything at one number."""

    def __init__(self, dead_at=None):
        self.dead_at, self.asked = dead_at, []

    def __call__(self, prompt, **options):
        number = prompt.split()[-1]
        if number == self.dead_at:
            raise OSError("gone")
        self.asked.append(number)
        return evalframe.Completion([number])


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"input": f"Say {n}", "ideal": str(n)}) + "\n" for n in range(10)), encoding="utf-8")
    return EvalSpec(cls=f"{__name__}:Twice", args={"samples_jsonl": str(path)}, key="twice.dev.v0")


@pytest.mark.parametrize("dead_at", ["2", "7"])
def test_each_pass_is_taken_up_by_itself(spec, tmp_path, dead_at):
    whole = run_eval(Model(), spec, log_dir=str(tmp_path / "whole"))
    log = tmp_path / "log.jsonl"
    failed = run_eval(Model(dead_at), spec, record_path=str(log))
    assert (failed.status, failed.counts.error) == ("error", 1)
    model = Model()
    again = run_eval(model, spec, resume=str(log))
    assert model.asked == [dead_at]
    assert (again.status, again.report, again.counts) == (whole.status, whole.report, whole.counts)
    assert set(Counter((event.sample_id, event.epoch) for event in read_log(log).events("match")).values()) == {1}


def test_the_second_pass_has_the_randomness_of_the_first(spec, tmp_path):
    first, second = run_eval(Model(), spec, log_dir=str(tmp_path)).report["passes"]
    assert [result["drawn"] for result in first] == [result["drawn"] for result in second]
    assert [result["number"] for result in first + second] == list(range(10))
