"""What errors of samples mean for a run: when it stops, how it ends, what it reports, what is tried again."""

import itertools
import json
import random
from collections import Counter, deque
from dataclasses import dataclass
from fractions import Fraction
from xml.etree import ElementTree

import pytest
from loopback import ModelStub, refused, said
from number_rows import numbers

from evalframe import run_eval
from evalframe.cli.junit import write_outcomes
from evalframe.cli.oaieval import main
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.core.completion import Completion
from evalframe.core.errors import BadSetting, ModelUnavailable
from evalframe.core.grade import Grade
from evalframe.core.recorder import record_match, record_metrics, record_sampling
from evalframe.core.scope import current_scope
from evalframe.eval import Eval
from evalframe.logs.run_log import read_log
from evalframe.registry.registry import Registry
from evalframe.resilience.failures import FailurePolicy

ROWS = 20
ORDER = list(range(ROWS))
random.Random(123).shuffle(ORDER)
MATCH = "evalframe.evals.basic:Match"


class Model:
    """Says the number it is asked for, or a wrong one; fails as often as it is told; keeps what it was asked."""

    model = "m"

    def __init__(self, fail=(), times=10**9, wrong=()):
        self.left = dict.fromkeys(fail, times)
        self.wrong = wrong
        self.asked = []

    def __call__(self, prompt, **options):
        number = int(prompt.split()[-1])
        self.asked.append(number)
        if self.left.get(number, 0) > 0:
            self.left[number] -= 1
            raise ConnectionError(f"no answer to {number}")
        answer = "none" if number in self.wrong else str(number)
        record_sampling(prompt, answer, model=self.model, usage={"input_tokens": 10, "output_tokens": 2})
        return Completion([answer])


@pytest.fixture
def asks(tmp_path, monkeypatch):
    """Runs an eval of so many rows, one after the other, in this process."""
    monkeypatch.chdir(tmp_path)

    def run(model, cls=MATCH, *, rows=ROWS, spec=None, args=None, sequential=True, **settings):
        return run_eval(model, "n", registry=make(rows, cls, spec, args), sequential=sequential, **settings)

    def make(rows, cls, spec=None, args=None):
        folder = tmp_path / "R"
        (folder / "evals").mkdir(parents=True, exist_ok=True)
        (folder / "data").mkdir(exist_ok=True)
        entry = {"class": cls, "args": {"samples_jsonl": "s.jsonl", **(args or {})}, **(spec or {})}
        (folder / "evals" / "n.yaml").write_text(json.dumps({"n": {"id": "n.dev.v0"}, "n.dev.v0": entry}), encoding="utf-8")
        given = numbers(rows) if isinstance(rows, int) else rows
        (folder / "data" / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
        return Registry([folder])

    run.registry = make
    return run


def last_line(result):
    return json.loads(result.log_path.read_bytes().splitlines()[-1])


# ---------------------------------------------------------------------- the truth table

RULES = [True, False, 0, 1, 3, 0.1, 0.3, 0.5]
FAILING = {0: [], 1: [ORDER[7]], 6: [ORDER[place] for place in (2, 3, 5, 9, 12, 19)]}
WRONG = frozenset(number for number in range(ROWS) if number % 4 == 0)


def too_many(rule, errors):
    """Section 6: true: any; false: none does; 0<f<1: more than that share; n>=1: more than that many. 0 means none may fail."""
    if rule is True:
        return errors > 0
    if rule is False:
        return False
    allowed = Fraction(str(rule)) * (ROWS if 0 < rule < 1 else 1)
    return errors > allowed


@dataclass
class Expected:
    """What section 6 says of a run; worked out with a list and a queue, and nothing of ours."""

    asked: list
    failed: set
    completed: set

    @classmethod
    def of(cls, rule, *, goes_on, retries, failing):
        queue, tries, asked, completed, errors = deque(ORDER), Counter(), [], set(), 0
        while queue and (goes_on or not too_many(rule, errors)):  # stops as soon as the threshold is passed
            number = queue.popleft()
            asked.append(number)
            tries[number] += 1
            if number not in failing:
                completed.add(number)
            elif tries[number] <= retries:
                queue.append(number)  # to the back of the queue
            else:
                errors += 1
        return cls(asked, {number for number in asked if number in failing}, completed)


@pytest.mark.parametrize("errors", FAILING)
@pytest.mark.parametrize("score_on_error", [False, True], ids=["leave out", "score"])
@pytest.mark.parametrize("retry_on_error", [0, 2], ids=["no retry", "2 retries"])
@pytest.mark.parametrize("continue_on_fail", [True, False], ids=["go on", "stop"])
@pytest.mark.parametrize("fail_on_error", RULES, ids=str)
def test_the_truth_table_of_errors(asks, fail_on_error, continue_on_fail, retry_on_error, score_on_error, errors):
    failing = FAILING[errors]
    model = Model(failing, wrong=WRONG)
    result = asks(
        model, fail_on_error=fail_on_error, continue_on_fail=continue_on_fail, retry_on_error=retry_on_error, score_on_error=score_on_error
    )
    wanted = Expected.of(fail_on_error, goes_on=continue_on_fail, retries=retry_on_error, failing=failing)
    assert model.asked == wanted.asked

    failed = too_many(fail_on_error, len(wanted.failed))
    assert (result.status, result.exit_code) == (("error", 1) if failed else ("success", 0))
    assert bool(result.reason) is failed
    if failed:
        assert f"{len(wanted.failed)} of {ROWS} samples failed" in result.reason

    counts = {"total": ROWS, "completed": len(wanted.completed), "error": len(wanted.failed), "limit": 0, "unscored": 0}
    assert result.counts.to_line() == counts
    line = last_line(result)
    assert (line["status"], line["samples"]) == (result.status, counts)
    assert line.get("retried", 0) == len(wanted.asked) - len(set(wanted.asked))

    right = len(wanted.completed - WRONG)
    readings = {"left_out": (right, len(wanted.completed)), "as_wrong": (right, len(wanted.completed) + len(wanted.failed))}
    own, other = ("as_wrong", "left_out") if score_on_error else ("left_out", "as_wrong")
    good, n = readings[own]
    assert (result.report["accuracy"], result.report["n"]) == (pytest.approx(good / n) if n else None, n)
    others = {name: value for name, value in result.report.items() if name.startswith("accuracy_errors_")}
    if not wanted.failed:
        assert others == {}
    else:
        good, n = readings[other]
        assert others == {
            f"accuracy_errors_{other}": pytest.approx(good / n) if n else None,
            f"accuracy_errors_{other}_n": n,
        }
    assert read_log(result.log_path).final_report == result.report


# ---------------------------------------------------------------------- how many are too many


@pytest.mark.parametrize(("rule", "errors", "passes"), [
    (0, 0, True), (0, 1, False), (1, 1, True), (1, 2, False), (3, 3, True), (3, 4, False), (0.1, 2, True), (0.1, 3, False),
    (0.05, 1, True), (0.05, 2, False), (0.15, 3, True), (0.35, 7, True), (0.35, 8, False), (0.95, 19, True), (20, 19, True),
])  # fmt: skip
def test_exactly_at_the_threshold_passes(asks, rule, errors, passes):
    result = asks(Model(range(errors)), fail_on_error=rule)
    assert (result.exit_code == 0) is passes
    assert result.counts.error == errors


def test_a_share_is_not_passed_by_a_rounding_error():
    """0.29 * 100 is 28.999999999999996 in binary: 29 of 100 are not more than that share for it."""
    wrong = [
        (per_cent / 100, errors, total)
        for total in (7, 10, 20, 30, 50, 99, 100, 300, 1000, 12345)
        for per_cent in range(1, 100)
        for errors in range(total * per_cent // 100 - 1, total * per_cent // 100 + 3)
        if 0 <= errors <= total and FailurePolicy(per_cent / 100).has_failed(errors, total) is not (errors * 100 > per_cent * total)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "settings", [{"fail_on_error": 0}, {"fail_on_error": 0, "continue_on_fail": False}, {"retry_on_error": 3}], ids=str
)
def test_settings_for_errors_change_nothing_about_a_clean_run(asks, settings):
    result = asks(Model(), **settings)
    assert (result.status, result.exit_code, result.report["accuracy"], result.counts.completed) == ("success", 0, 1.0, ROWS)


@pytest.mark.parametrize("score_on_error", [False, True])
@pytest.mark.parametrize("rule", [False, 1000, 0.99])
def test_a_run_of_which_every_sample_failed_is_no_success(asks, rule, score_on_error):
    result = asks(Model(range(ROWS)), fail_on_error=rule, score_on_error=score_on_error)
    assert (result.status, result.exit_code) == ("error", 1)
    assert f"{ROWS} of {ROWS} samples failed" in result.reason


@pytest.mark.parametrize("threads", [1, 4, 30])
def test_the_table_holds_on_threads_too(asks, threads):
    failing = FAILING[6]
    model = Model(failing, wrong=WRONG)
    result = asks(model, sequential=False, threads=threads, fail_on_error=0.3, retry_on_error=2)
    assert Counter(model.asked) == Counter({number: 3 if number in failing else 1 for number in range(ROWS)})
    assert (result.status, result.counts.error, result.counts.completed) == ("success", 6, 14)


def test_a_stop_on_threads_asks_no_more_than_what_was_under_way(asks):
    model = Model(range(ROWS))
    result = asks(model, sequential=False, threads=3, fail_on_error=2, continue_on_fail=False)
    assert 3 <= len(model.asked) <= 3 + 2
    assert result.exit_code == 1
    assert result.counts.total == ROWS


def test_errors_of_samples_that_were_stopped_while_they_waited_for_another_try_are_counted(asks):
    failing = FAILING[6]
    result = asks(Model(failing), fail_on_error=True, continue_on_fail=False, retry_on_error=1)
    assert result.counts.to_line() == {"total": ROWS, "completed": 14, "error": 6, "limit": 0, "unscored": 0}
    assert result.reason.startswith("6 of 20 samples failed")


# ---------------------------------------------------------------------- another attempt


class Spoiling(Eval):
    """Changes the row it is given, draws random numbers, records, and fails on the first tries."""

    failures = {}
    seen = []

    def get_samples(self):
        return self.kind(super().get_samples())

    kind = list

    def eval_sample(self, sample, rng):
        number = int(sample["ideal"])
        self.seen.append((number, json.dumps(sample), [rng.random() for _ in range(3)]))
        sample["input"] = "spoilt"
        sample["tags"].append("spoilt")
        fails = self.failures.get(number, 0) >= current_scope().attempt
        record_sampling("q", "a", model="m", usage={"input_tokens": 10, "output_tokens": 2})
        record_match(not fails, expected=sample["ideal"], picked="x")
        record_metrics(length=100 if fails else 1)
        if fails:
            raise TimeoutError(f"attempt {current_scope().attempt} at {number}")

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        correct = [event.data["correct"] for event in recorder.get_events("match")]
        return {"accuracy": sum(correct) / len(correct), "n": len(correct), "length": sum(recorder.get_scores("length"))}


class SpoilingTuple(Spoiling):
    kind = tuple


class AsyncSpoiling(Spoiling):
    async def eval_sample(self, sample, rng):
        import asyncio

        await asyncio.sleep(0)
        return super().eval_sample(sample, rng)


@pytest.fixture
def spoiling(asks, monkeypatch):
    monkeypatch.setattr(Spoiling, "seen", [])
    rows = [{**row, "tags": ["fresh"]} for row in numbers(ROWS)]

    def run(failures, cls=Spoiling, **settings):
        monkeypatch.setattr(Spoiling, "failures", failures)
        return asks(Model(), f"{__name__}:{cls.__name__}", rows=rows, **settings)

    return run


@pytest.mark.parametrize("cls", [Spoiling, AsyncSpoiling])
def test_a_retry_goes_to_the_back_of_the_queue(spoiling, cls):
    spoiling({ORDER[0]: 2, ORDER[3]: 1}, cls, retry_on_error=2)
    assert [number for number, *_ in Spoiling.seen] == [*ORDER, ORDER[0], ORDER[3], ORDER[0]]


@pytest.mark.parametrize("cls", [Spoiling, AsyncSpoiling, SpoilingTuple])
@pytest.mark.parametrize("settings", [{}, {"sequential": False, "threads": 5}], ids=["one by one", "threads"])
def test_a_retry_gets_a_fresh_copy_of_the_row_and_the_same_random_numbers(spoiling, cls, settings):
    failures = {3: 1, 8: 3, 15: 2}
    spoiling(failures, cls, retry_on_error=3, **settings)
    for number in range(ROWS):
        attempts = [(row, drawn) for asked, row, drawn in Spoiling.seen if asked == number]
        assert len(attempts) == 1 + failures.get(number, 0)
        row, drawn = attempts[0]
        assert json.loads(row)["tags"] == ["fresh"]
        assert drawn == [rng.random() for rng in [random.Random(f"n.dev.{number}:20220722".encode())] for _ in range(3)]
        assert attempts[1:] == attempts[:-1]


def cases_of(result, path):
    """How many tests, failures, errors and skipped ones a JUnit file of the run tells of."""
    write_outcomes(result, str(path))
    root = ElementTree.parse(path).getroot()
    suite = root if root.tag == "testsuite" else root.find("testsuite")
    return tuple(int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped"))


def test_events_of_a_given_up_attempt_are_in_the_log_and_nowhere_else(spoiling, tmp_path):
    result = spoiling({4: 2, 11: 1}, retry_on_error=2)
    assert (result.status, result.report["accuracy"], result.report["n"], result.report["length"]) == ("success", 1.0, ROWS, ROWS)
    log = read_log(result.log_path)
    for events in (result.events, log.events):
        for kind in ("match", "sampling", "metrics", "sample"):
            assert Counter(event.sample_id for event in events(kind)) == Counter(f"n.dev.{number}" for number in range(ROWS))
        assert {event.sample_id: event.attempt for event in events("match") if event.attempt > 1} == {"n.dev.4": 3, "n.dev.11": 2}
    tried = Counter(event.sample_id for event in log.events("match", all_attempts=True))
    assert (tried["n.dev.4"], tried["n.dev.11"], tried["n.dev.5"]) == (3, 2, 1)
    told = [event.data["error"] for event in log.events("sample", all_attempts=True) if event.data["status"] == "error"]
    assert Counter(error["message"] for error in told) == {"attempt 1 at 4": 1, "attempt 2 at 4": 1, "attempt 1 at 11": 1}
    assert all("Traceback" in error["traceback"] for error in told)

    assert cases_of(result, tmp_path / "out.xml") == (ROWS, 0, 0, 0)
    assert "attempt 1 at" not in (tmp_path / "out.xml").read_text(encoding="utf-8")


def test_a_sample_that_fails_once_and_then_succeeds_leaves_no_error_in_the_counts(spoiling):
    result = spoiling({4: 1}, retry_on_error=1)
    assert result.counts.to_line() == {"total": ROWS, "completed": ROWS, "error": 0, "limit": 0, "unscored": 0}
    assert (result.status, result.reason, dict(result.errors)) == ("success", "", {})
    assert not [name for name in result.report if name.startswith("accuracy_errors_")]
    assert last_line(result)["retried"] == 1


def test_what_given_up_attempts_have_cost_is_in_the_bill(spoiling):
    result = spoiling({4: 2}, retry_on_error=2)
    usage = result.report["usage"]["m"]
    assert (usage["calls"], usage["input_tokens"], usage["output_tokens"]) == (ROWS + 2, 10 * (ROWS + 2), 2 * (ROWS + 2))


def test_a_retry_that_fails_too_is_one_error_with_its_last_message(spoiling):
    result = spoiling({4: 9}, retry_on_error=2, fail_on_error=False)
    assert result.counts.error == 1
    assert dict(result.errors) == {"TimeoutError: attempt 3 at 4": 1}
    assert result.report["n"] == ROWS - 1
    ended = [event.attempt for event in read_log(result.log_path).events("sample", all_attempts=True) if event.sample_id == "n.dev.4"]
    assert ended == [1, 2, 3]


def test_an_error_scored_as_wrong_has_a_verdict_that_says_so_and_nothing_else_of_the_attempt_counts(spoiling, tmp_path):
    result = spoiling({4: 9}, retry_on_error=1, fail_on_error=False, score_on_error=True)
    assert (result.report["n"], result.report["accuracy"], result.report["length"]) == (ROWS, 1 - 1 / ROWS, ROWS - 1)
    (verdict,) = [event.data for event in result.events("match") if event.sample_id == "n.dev.4"]
    assert verdict["correct"] is False
    assert verdict["scored_as_wrong"] is True
    assert "attempt 2 at 4" in verdict["error"]
    assert result.counts.to_line() == {"total": ROWS, "completed": ROWS - 1, "error": 1, "limit": 0, "unscored": 0}
    assert list(result.events("match")) == list(read_log(result.log_path).events("match"))
    assert cases_of(result, tmp_path / "out.xml") == (ROWS, 0, 1, 0)  # an error, not a wrong answer


# ---------------------------------------------------------------------- a grader that fails


class Shaky:
    """A grader that raises on chosen numbers, so many times each; it keeps what it graded."""

    failures = {}
    graded = []

    def __call__(self, completion, sample):
        self.graded.append((int(sample.ideals[0]), completion))
        if self.failures.get(int(sample.ideals[0]), 0) > 0:
            self.failures[int(sample.ideals[0])] -= 1
            raise ZeroDivisionError(f"cannot grade {completion}")
        return Grade.correct(picked=completion) if completion in sample.ideals else Grade.incorrect()


@pytest.fixture
def shaky(asks, monkeypatch):
    monkeypatch.setattr(Shaky, "graded", [])

    def run(model, failures, **settings):
        monkeypatch.setattr(Shaky, "failures", dict(failures))
        return asks(model, "evalframe.evals.graded:Graded", args={"grader": f"{__name__}:Shaky"}, **settings)

    return run


def assert_paid_once(result, model):
    """Every number was asked once, every sample has one answer in its last attempt, and the bill holds each once."""
    assert sorted(model.asked) == list(range(ROWS))
    assert (result.status, result.report["accuracy"], result.report["n"]) == ("success", 1.0, ROWS)
    for source in (result.events, read_log(result.log_path).events):
        answers = {event.sample_id: event for event in source("sampling")}
        assert len(list(source("sampling"))) == len(answers) == ROWS
        assert {event.sample_id: event.data["sampled"] for event in source("match")} == {
            sample_id: event.data["sampled"] for sample_id, event in answers.items()
        }
        assert all(event.data["prompt"] == f"Say the number {event.data['sampled']}" for event in answers.values())
    spent = result.report["usage"]
    assert list(spent) == ["m"]
    assert (spent["m"]["calls"], spent["m"]["input_tokens"], spent["m"]["output_tokens"], spent["m"]["unknown"]) == (ROWS, 200, 40, 0)


@pytest.mark.parametrize("settings", [{}, {"sequential": False, "threads": 5}], ids=["one by one", "threads"])
@pytest.mark.parametrize("failures", [{5: 1}, {5: 1, 6: 3, 19: 2}], ids=str)
def test_a_graders_exception_repeats_the_grading_and_not_the_asking(shaky, failures, settings):
    model = Model()
    result = shaky(model, failures, retry_on_error=3, **settings)
    assert_paid_once(result, model)
    graded = Counter(number for number, _ in Shaky.graded)
    assert graded == Counter({number: 1 + failures.get(number, 0) for number in range(ROWS)})
    attempts = {event.sample_id: event.attempt for event in result.events("sampling")}
    assert attempts == {f"n.dev.{number}": 1 + failures.get(number, 0) for number in range(ROWS)}


@pytest.mark.parametrize("score_on_error", [False, True])
@pytest.mark.parametrize("retry_on_error", [0, 1])
def test_grading_that_failed_in_one_process_is_done_in_the_next_without_a_request(shaky, retry_on_error, score_on_error):
    model = Model()
    failed = shaky(model, {3: 99, 7: 99}, retry_on_error=retry_on_error, score_on_error=score_on_error)
    assert (failed.status, failed.counts.error, failed.report["n"]) == ("error", 2, ROWS if score_on_error else ROWS - 2)
    assert len(model.asked) == ROWS
    assert list(read_log(failed.log_path).events("sampling"))
    result = shaky(model, {}, resume=str(failed.log_path))
    assert_paid_once(result, model)
    assert result.reused == ROWS - 2
    assert {event.sample_id for event in result.events("sampling") if event.attempt > 1 + retry_on_error} == {"n.dev.3", "n.dev.7"}
    again = shaky(model, {}, resume=str(failed.log_path))
    assert_paid_once(again, model)
    assert again.report == result.report


def test_a_model_that_failed_is_asked_again_and_what_it_then_says_is_kept_for_the_grader(shaky):
    model = Model([5], times=1)
    result = shaky(model, {5: 1}, retry_on_error=2)
    assert Counter(model.asked)[5] == 2
    assert (result.status, result.report["usage"]["m"]["calls"]) == ("success", ROWS)
    assert [event.attempt for event in result.events("sampling") if event.sample_id == "n.dev.5"] == [3]


def test_a_row_that_has_changed_since_its_grading_failed_is_asked_again(shaky):
    model = Model()
    failed = shaky(model, {3: 99})
    rows = numbers(ROWS)
    rows[3] = {"input": "Now say the number 33", "ideal": "33"}
    result = shaky(model, {}, rows=rows, resume=str(failed.log_path))
    assert model.asked[ROWS:] == [33]
    assert (result.status, result.report["accuracy"]) == ("success", 1.0)


def test_several_answers_to_one_call_are_all_kept_for_the_next_grading(shaky):
    class Both(Model):
        def __call__(self, prompt, **options):
            (answer,) = super().__call__(prompt).get_completions()
            return Completion([answer, "none"])

    model = Both()
    result = shaky(model, {5: 1}, retry_on_error=1)
    assert Counter(model.asked)[5] == 1
    assert [event.data["sampled"] for event in result.events("match") if event.sample_id == "n.dev.5"] == ["5", "none"]
    assert (result.report["accuracy"], result.report["n"]) == (0.5, 2 * ROWS)


# ---------------------------------------------------------------------- a model that refuses everyone


@pytest.mark.parametrize(("status", "cause"), [(401, "wrong key"), (403, "not yours"), (404, "no such model")])
@pytest.mark.parametrize("retry_on_error", [0, 5])
@pytest.mark.parametrize("rule", [True, False, 0.9])
def test_a_model_that_refuses_at_the_start_ends_the_run_with_the_cause(asks, status, cause, retry_on_error, rule):
    with ModelStub(lambda number, body: refused(status, cause)) as stub:
        model = OpenAIChatCompletionFn("any", base_url=stub.base_url, api_key="sk-test-0000")
        result = asks(model, fail_on_error=rule, retry_on_error=retry_on_error)
        assert stub.count == 1
    assert (result.status, result.exit_code) == ("error", 1)
    assert f"answers {status}: {cause}" in result.reason
    assert "every sample would fail" in result.reason
    assert last_line(result)["status"] == "error"
    assert result.can_be_resumed


@pytest.mark.parametrize("retry_on_error", [0, 5])
def test_with_threads_it_is_asked_once_by_each_at_most(asks, retry_on_error):
    with ModelStub(lambda number, body: refused(401)) as stub:
        model = OpenAIChatCompletionFn("any", base_url=stub.base_url, api_key="sk-test-0000")
        result = asks(model, sequential=False, threads=4, retry_on_error=retry_on_error)
        assert 1 <= stub.count <= 4
    assert (result.status, result.exit_code) == ("error", 1)
    assert result.counts.error == stub.count


def test_a_key_that_was_mended_takes_the_run_up_again(asks):
    answers = []

    def answer(number, body):
        return said(body["messages"][-1]["content"].split()[-1]) if answers else refused(401, "wrong key")

    with ModelStub(answer) as stub:
        model = OpenAIChatCompletionFn("any", base_url=stub.base_url, api_key="sk-test-0000")
        given_up = asks(model)
        answers.append("from now on")
        result = asks(model, resume=str(given_up.log_path))
        assert stub.count == 1 + ROWS
    assert (result.status, result.report["accuracy"], result.counts.error) == ("success", 1.0, 0)


def test_a_refusal_after_the_first_answer_is_an_error_like_any_other(asks):
    class Refusing(Model):
        def __call__(self, prompt, **options):
            try:
                return super().__call__(prompt)
            except ConnectionError as error:
                raise ModelUnavailable("404: gone") from error

    model = Refusing([ORDER[3]])
    result = asks(model, retry_on_error=2, fail_on_error=1)
    assert (result.status, result.counts.error, Counter(model.asked)[ORDER[3]]) == ("success", 1, 3)


def test_a_model_whose_answers_were_all_cut_has_answered(asks):
    """Samples that a limit has cut are answers too: a refusal after them is not one of everyone."""

    class Refusing(Model):
        def __call__(self, prompt, **options):
            if prompt.endswith(f" {ORDER[5]}"):
                self.asked.append(ORDER[5])
                raise ModelUnavailable("404: gone")
            return super().__call__(prompt)

    model = Refusing()
    result = asks(model, token_limit=1, fail_on_error=False)
    assert model.asked == ORDER
    assert (result.status, result.counts.limit, result.counts.error) == ("success", ROWS - 1, 1)


# ---------------------------------------------------------------------- where the settings come from

NAMES = ("fail_on_error", "continue_on_fail", "retry_on_error", "score_on_error")
DEFAULTS = {"fail_on_error": True, "continue_on_fail": True, "retry_on_error": 0, "score_on_error": False}
SPELT = [  # setting, as text, the value that holds
    ("fail_on_error", "true", True), ("fail_on_error", "false", False), ("fail_on_error", "0", 0), ("fail_on_error", "3", 3),
    ("fail_on_error", "0.25", 0.25), ("fail_on_error", "1", 1),
    ("continue_on_fail", "false", False), ("continue_on_fail", "0", False), ("continue_on_fail", "true", True),
    ("retry_on_error", "4", 4), ("retry_on_error", "0", 0), ("score_on_error", "true", True), ("score_on_error", "1", True),
]  # fmt: skip


def held(result):
    """The settings for errors as the log's first line tells them."""
    config = read_log(result.log_path).spec["run_config"]
    return {name: config[name] for name in NAMES}


def same(told, wanted):
    return told == wanted and {name: type(value) for name, value in told.items()} == {name: type(value) for name, value in wanted.items()}


def test_where_nothing_is_said_the_defaults_hold(asks):
    assert same(held(asks(Model(), rows=2)), DEFAULTS)


@pytest.mark.parametrize(("name", "text", "value"), SPELT)
def test_an_environment_variable_sets_it(asks, monkeypatch, name, text, value):
    monkeypatch.setenv(f"EVALFRAME_{name.upper()}", text)
    assert same(held(asks(Model(), rows=2)), {**DEFAULTS, name: value})


@pytest.mark.parametrize(("name", "text", "value"), SPELT)
def test_an_argument_of_run_eval_sets_it(asks, name, text, value):
    assert same(held(asks(Model(), rows=2, **{name: value})), {**DEFAULTS, name: value})


@pytest.mark.parametrize(("name", "text", "value"), SPELT)
def test_the_spec_of_the_eval_sets_it(asks, name, text, value):
    assert same(held(asks(Model(), rows=2, spec={"run": {name: value}})), {**DEFAULTS, name: value})


@pytest.mark.parametrize(("flags", "name", "value"), [
    (["--fail_on_error", "true"], "fail_on_error", True), (["--fail_on_error", "false"], "fail_on_error", False),
    (["--fail_on_error", "0"], "fail_on_error", 0), (["--fail_on_error=3"], "fail_on_error", 3), (["--fail-on-error", "0.25"], "fail_on_error", 0.25),
    (["--no-continue_on_fail"], "continue_on_fail", False), (["--no-continue-on-fail"], "continue_on_fail", False), (["--continue_on_fail"], "continue_on_fail", True),
    (["--retry_on_error", "4"], "retry_on_error", 4), (["--score_on_error"], "score_on_error", True), (["--no-score_on_error"], "score_on_error", False),
])  # fmt: skip
def test_a_flag_sets_it(asks, capsys, flags, name, value):
    asks.registry(2, MATCH, spec={"run": {"retry_on_error": 9, "continue_on_fail": False, "score_on_error": True, "fail_on_error": 0.75}})
    assert main(["echo", "n", "--registry_path", "R", "--record_path", "log.jsonl", *flags]) == 0, capsys.readouterr().err
    told = read_log("log.jsonl").spec["run_config"]
    given = {"retry_on_error": 9, "continue_on_fail": False, "score_on_error": True, "fail_on_error": 0.75, name: value}
    assert same({setting: told[setting] for setting in NAMES}, given)


VALUES = {"fail_on_error": [5, 0.5, 0.25], "continue_on_fail": [False, True], "retry_on_error": [3, 2, 1], "score_on_error": [True, False]}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "sources", [*itertools.combinations(["call", "environment", "spec"], 2), ("call", "environment", "spec")], ids="+".join
)
def test_the_call_goes_over_the_environment_over_the_spec(asks, monkeypatch, name, sources):
    for swapped in (False, True):
        choice = itertools.cycle(VALUES[name][::-1] if swapped else VALUES[name])
        given = {source: next(choice) for source in sources}
        if "environment" in given:
            monkeypatch.setenv(f"EVALFRAME_{name.upper()}", str(given["environment"]).lower())
        call = {name: given["call"]} if "call" in given else {}
        spec = {"run": {name: given["spec"]}} if "spec" in given else {}
        result = asks(Model(), rows=2, spec=spec, **call)
        assert same(held(result), {**DEFAULTS, name: given[sources[0]]})


def test_what_the_spec_says_holds_in_the_run_and_not_only_in_the_log(asks):
    model = Model([ORDER[0]])
    result = asks(model, spec={"run": {"fail_on_error": 1, "retry_on_error": 2, "score_on_error": True}})
    assert (len(model.asked), result.exit_code, result.report["n"]) == (ROWS + 2, 0, ROWS)
    result = asks(Model([ORDER[0]]), spec={"run": {"fail_on_error": 1}}, fail_on_error=True)
    assert result.exit_code == 1


@pytest.mark.parametrize(("settings", "told"), [
    ({"fail_on_error": -1}, "fail_on_error"), ({"fail_on_error": 1.5}, "fail_on_error"), ({"fail_on_error": "often"}, "fail_on_error"),
    ({"retry_on_error": -1}, "retry_on_error"), ({"retry_on_error": "x"}, "retry_on_error"), ({"continue_on_fail": "perhaps"}, "continue_on_fail"),
    ({"score_on_error": 2}, "score_on_error"), ({"fail_on_error": float("nan")}, "fail_on_error"),
])  # fmt: skip
def test_a_value_that_means_nothing_is_told_before_anything_is_asked(asks, settings, told):
    model = Model()
    with pytest.raises(BadSetting, match=told):
        asks(model, **settings)
    assert model.asked == []
