"""Whole runs through the Python door, with an eval and a function of one's own, as another team would write them."""

import json
import os

import pytest

from evalframe import run_eval
from evalframe.core.errors import EvalFailed, EvalframeError, Faults, LogUnavailable
from evalframe.core.recorder import record_match
from evalframe.eval import Eval
from evalframe.logs.run_log import read_log
from evalframe.registry.registry import Registry


class Numbers(Eval):
    def __init__(self, completion_fns, *args, broken=False, api_key=None, **kwargs):
        super().__init__(completion_fns, *args, **kwargs)
        self.broken = broken

    def check_sample(self, row):
        return None if "ideal" in row else "has no ideal"

    def eval_sample(self, sample, rng):
        (answer,) = self.completion_fn(prompt=sample["input"]).get_completions()
        record_match(answer == sample["ideal"], expected=sample["ideal"], picked=answer)

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        if self.broken:
            raise ZeroDivisionError("metrics went wrong")
        correct = [event.data["correct"] for event in recorder.get_events("match")]
        return {"accuracy": sum(correct) / len(correct) if correct else None, "n": len(correct)}


class LastWord:
    def __init__(self, fail=(), error=None):
        self.fail, self.error = fail, error or ValueError("no")

    def __call__(self, prompt, **options):
        from evalframe.core.completion import Completion

        answer = prompt.split()[-1]
        if self.fail == "all" or answer in self.fail:
            raise self.error
        return Completion([answer])


@pytest.fixture
def registry(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "R"
    (folder / "evals").mkdir(parents=True)
    (folder / "data" / "numbers").mkdir(parents=True)
    spec = {
        "numbers": {"id": "numbers.dev.v1"},
        "numbers.dev.v1": {"class": f"{__name__}:Numbers", "args": {"samples_jsonl": "numbers/s.jsonl"}},
    }
    (folder / "evals" / "numbers.yaml").write_text(json.dumps(spec), encoding="utf-8")
    rows = [{"input": f"Say {number}", "ideal": str(number)} for number in range(10)]
    (folder / "data" / "numbers" / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Registry([folder])


def test_a_run_gives_the_report_the_events_and_the_log(registry, tmp_path):
    result = run_eval(LastWord(), "numbers", registry=registry)
    assert (result.status, result.exit_code, result.report["accuracy"]) == ("success", 0, 1.0)
    assert len(result.events("match")) == 10
    assert result.log_path.parent == tmp_path / "evallogs"
    assert result.raise_for_status() is result
    log = read_log(result.log_path)
    assert log.final_report == result.report
    assert log.samples == {"total": 10, "completed": 10, "error": 0, "limit": 0, "unscored": 0}


def test_the_first_line_tells_everything_that_bears_on_the_run(registry):
    result = run_eval(LastWord(), "numbers", registry=registry, max_samples=3, user="me")
    spec = read_log(result.log_path).spec
    assert {"completion_fns", "eval_name", "base_eval", "split", "run_config", "created_by", "run_id", "created_at"} <= set(spec)
    assert (spec["eval_name"], spec["base_eval"], spec["split"], spec["created_by"]) == ("numbers.dev.v1", "numbers", "dev", "me")
    assert {"format": 1}.items() <= spec["evalframe"].items()
    assert {"version", "python", "platform", "git_commit"} <= set(spec["evalframe"])
    config = spec["run_config"]
    assert (config["max_samples"], config["seed"], config["threads"]) == (3, 20220722, 10)
    assert config["eval_spec"]["key"] == "numbers.dev.v1"
    assert config["eval_spec"]["class"] == f"{__name__}:Numbers"
    (data,) = config["data"]
    assert data["rows"] == 10
    assert os.path.isabs(data["path"])  # noqa: PTH117 - the text is what is looked at
    assert len(data["sha256"]) == 64


@pytest.mark.parametrize(("rule", "failing", "status", "exit_code"), [
    (True, "3", "error", 1), (False, "3", "success", 0), (0.1, "3", "success", 0), (0.1, "34", "error", 1), (2, "34", "success", 0),
    (0, "", "success", 0), (0, "3", "error", 1), (False, "all", "error", 1),
])  # fmt: skip
def test_how_many_errors_are_too_many_is_a_setting(registry, rule, failing, status, exit_code):
    result = run_eval(LastWord(failing), "numbers", registry=registry, fail_on_error=rule)
    assert (result.status, result.exit_code) == (status, exit_code)
    assert result.report["accuracy"] == (None if failing == "all" else 1.0)


def test_with_errors_both_readings_are_there(registry):
    result = run_eval(LastWord("34"), "numbers", registry=registry, fail_on_error=False)
    assert result.report["accuracy"] == 1.0
    assert result.report["n"] == 8
    assert result.report["accuracy_errors_as_wrong"] == pytest.approx(0.8)


def test_when_all_samples_fail_the_commonest_error_is_told(registry):
    result = run_eval(LastWord("all"), "numbers", registry=registry, fail_on_error=False)
    assert result.reason == "10 of 10 samples failed. Most often (10): ValueError: no"
    with pytest.raises(EvalFailed, match="10 of 10 samples failed"):
        result.raise_for_status()


def test_metrics_that_go_wrong_lose_nothing_that_was_paid_for(registry):
    result = run_eval(LastWord(), "numbers", registry=registry, extra_eval_params={"broken": True})
    assert result.exit_code == 1
    assert "ZeroDivisionError: metrics went wrong" in result.reason
    assert "test_run_eval.py:" in result.reason
    assert len(list(read_log(result.log_path).events("match"))) == 10
    assert read_log(result.log_path).status == "error"


def test_all_faults_are_told_before_anything_is_asked(registry, tmp_path):
    (tmp_path / "R" / "data" / "numbers" / "s.jsonl").write_text('{"input": "x"}\n{broken\n', encoding="utf-8")
    with pytest.raises(Faults) as caught:
        run_eval("nobody/at/home", "numbers", registry=registry, record_path="R/evals/numbers.yaml/log.jsonl")
    told = str(caught.value)
    assert "s.jsonl:1" in told
    assert "s.jsonl:2" in told
    assert "nobody" in told
    assert "cannot make the log" in told
    assert not (tmp_path / "evallogs").exists()


def test_secrets_stay_out_of_the_log(registry, monkeypatch):
    monkeypatch.setenv("HOUSE_API_KEY", "house-0123456789")
    secret_error = ValueError("refused key house-0123456789 and eval-0123456789")
    result = run_eval(
        LastWord("3", secret_error), "numbers", registry=registry, extra_eval_params={"api_key": "eval-0123456789"}, fail_on_error=False
    )
    content = result.log_path.read_text(encoding="utf-8")
    assert "0123456789" not in content
    assert "refused key *** and ***" in content
    assert "0123456789" not in json.dumps(list(result.errors))


def test_a_dry_run_leaves_no_log(registry, tmp_path, capsys):
    result = run_eval(LastWord(), "numbers", registry=registry, dry_run=True)
    assert result.log_path is None
    assert result.report["accuracy"] == 1.0
    assert len(result.events("match")) == 10
    assert not (tmp_path / "evallogs").exists()
    assert "match" in capsys.readouterr().err


def test_a_named_log_is_never_overwritten(registry, tmp_path):
    run_eval(LastWord(), "numbers", registry=registry, record_path="sub/res.jsonl")
    before = (tmp_path / "sub" / "res.jsonl").read_bytes()
    with pytest.raises(LogUnavailable, match="exists already"):
        run_eval(LastWord(), "numbers", registry=registry, record_path="sub/res.jsonl")
    assert (tmp_path / "sub" / "res.jsonl").read_bytes() == before


def test_running_twice_leaves_nothing_behind(registry):
    first = run_eval(LastWord("3"), "numbers", registry=registry)
    second = run_eval(LastWord(), "numbers", registry=registry)
    assert (first.counts.error, second.counts.error, second.counts.total) == (1, 0, 10)
    assert first.log_path != second.log_path


@pytest.mark.parametrize("settings", [{"thread": 1}, {"max_samples": 0}, {"http_run": True}, {"registry_path": "nowhere"}])
def test_a_wrong_setting_is_told(registry, settings):
    with pytest.raises(EvalframeError):
        run_eval(LastWord(), "numbers", registry=registry, **settings)


class WithoutSuper(Numbers):
    def __init__(self, completion_fns, **kwargs):
        pass


class OddReport(Numbers):
    def run(self, recorder):
        super().run(recorder)
        return [1, 2]


def test_a_constructor_that_forgets_super_is_told(registry):
    spec = registry.get_eval("numbers")
    spec.cls = f"{__name__}:WithoutSuper"
    with pytest.raises(EvalFailed, match=r"super\(\).__init__"):
        run_eval(LastWord(), spec, registry=registry)


def test_a_report_that_is_none_is_told(registry):
    spec = registry.get_eval("numbers")
    spec.cls = f"{__name__}:OddReport"
    result = run_eval(LastWord(), spec, registry=registry)
    assert (result.exit_code, result.counts.completed) == (1, 10)
    assert "OddReport.run() gave a list" in result.reason


def test_two_runs_at_once_do_not_disturb_one_another(registry):
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def in_a_notebook():
        return run_eval(LastWord(), "numbers", registry=registry)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda fail: run_eval(LastWord(fail), "numbers", registry=registry, fail_on_error=False), ["", "3"]))
    assert [result.counts.error for result in results] == [0, 1]
    assert asyncio.run(in_a_notebook()).report["accuracy"] == 1.0


class NotANumber(Numbers):
    def run(self, recorder):
        super().run(recorder)
        return {"accuracy": float("nan"), "n": 10}


def test_an_accuracy_that_is_no_number_is_no_success(registry):
    spec = registry.get_eval("numbers")
    spec.cls = f"{__name__}:NotANumber"
    result = run_eval(LastWord(), spec, registry=registry)
    assert (result.exit_code, result.report["accuracy"]) == (1, None)


def test_an_exception_cannot_write_what_looks_like_our_report(registry):
    forged = ValueError("bad answer:\nlog      /etc/passwd\nstatus   success\n" + "x" * 5000)
    result = run_eval(LastWord("3", forged), "numbers", registry=registry)
    assert "\n" not in result.reason
    assert len(result.reason) < 1100


def test_the_first_of_like_errors_is_shown_as_it_was(registry):
    result = run_eval(LastWord("3", ValueError("no reply within 3 s")), "numbers", registry=registry)
    assert "no reply within 3 s" in result.reason


def test_a_log_whose_events_could_not_be_delivered_says_so(registry):
    result = run_eval(LastWord(), "numbers", registry=registry, http_run=True, http_run_url="http://127.0.0.1:9/e", http_batch_size=5)
    assert (result.status, result.exit_code) == ("error", 1)
    assert read_log(result.log_path).status == "error"
    assert read_log(result.log_path).final_report == result.report
