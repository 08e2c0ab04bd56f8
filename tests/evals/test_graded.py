import json
from dataclasses import dataclass

import pytest

from evalframe.core.completion import Completion
from evalframe.core.errors import BadArguments, BadClass, DataError, Faults
from evalframe.core.grade import Grade
from evalframe.core.specs import RunSpec
from evalframe.evals.basic import FuzzyMatch, Includes, JsonMatch, JsonValidator, Match, record_and_check_match
from evalframe.evals.graded import Graded
from evalframe.loop import Loop
from evalframe.recorders.memory import MemoryRecorder


class Scripted:
    """Answers by the text of the last message, and remembers what it was asked."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    def __call__(self, prompt, **options):
        self.asked.append((prompt, options))
        question = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        answer = self.answers[question]
        return Completion(answer if isinstance(answer, list) else [answer])


@dataclass(frozen=True)
class Half:
    """Half a point for every answer."""

    needs_ideal = False

    def __call__(self, completion, sample):
        return Grade(0.5, completion, metrics={"length": len(completion)}) if completion else Grade.unscored(reason="silence")


@pytest.fixture
def recorder():
    return MemoryRecorder(RunSpec(["fn"], "a.dev.v0", "a", "dev"))


@pytest.fixture
def data(tmp_path):
    def write(rows, name="s.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return write


def chat(text, ideal=None, **more):
    return {"input": [{"role": "system", "content": "task"}, {"role": "user", "content": text}], "ideal": ideal, **more}


@pytest.mark.parametrize(("cls", "answer", "ideal", "accuracy"), [
    (Match, "4.", "4", 1.0), (Match, "it is 4", "4", 0.0), (Includes, "it is 4", "4", 1.0), (FuzzyMatch, "The Four!", "four", 1.0),
    (JsonMatch, '{"a":1}', '{"a": 1.0}', 1.0), (JsonValidator, "{}", None, 1.0), (JsonValidator, "{", None, 0.0),
])  # fmt: skip
def test_the_stock_evals_grade(recorder, data, cls, answer, ideal, accuracy):
    report = cls([Scripted({"q": answer})], data([chat("q", ideal)]), name="a.dev.v0").run(recorder)
    assert report["accuracy"] == accuracy
    assert report["n"] == 1
    assert {"boostrap_std", "accuracy_stderr", "accuracy_ci95"} <= set(report)
    (match,) = recorder.get_events("match")
    assert {"correct", "expected", "picked", "sampled"} <= set(match.data)
    assert match.data["sampled"] == answer


def test_only_what_was_asked_for_is_sent(recorder, data):
    model = Scripted({"q": "4"})
    Match([model], data([chat("q", "4")]), name="a.dev.v0").run(recorder)
    Match([model], data([chat("q", "4")]), max_tokens=9, options={"temperature": 0}, name="a.dev.v0").run(recorder)
    Match([model], data([chat("q", "4")]), temperature=0.0, name="a.dev.v0").run(recorder)
    assert [options for _, options in model.asked] == [{}, {"max_tokens": 9, "temperature": 0}, {"temperature": 0.0}]


def test_worked_examples_are_shown(recorder, data):
    pool = data([{"sample": [{"role": "system", "name": "example_user", "content": f"{n}"}]} for n in range(4)], "pool.jsonl")
    model = Scripted({"q": "4"})
    Match([model], data([chat("q", "4")]), num_few_shot=2, few_shot_jsonl=pool, name="a.dev.v0").run(recorder)
    assert [message["content"] for message in model.asked[0][0]] == ["task", "0", "1", "q"]


def test_random_examples_depend_on_the_seed_and_on_nothing_else(recorder, data):
    pool = data([{"sample": [{"role": "system", "content": f"pool {n}"}]} for n in range(6)], "pool.jsonl")
    rows = data([chat(f"q{n}", "4") for n in range(6)])

    def asked(seed):
        model = Scripted({f"q{n}": "4" for n in range(6)})
        Match([model], rows, num_few_shot=2, few_shot_jsonl=pool, few_shot_sampling="random", seed=seed, name="a.dev.v0").run(recorder)
        return sorted([message["content"] for message in prompt][::-1] for prompt, _ in model.asked)

    assert asked(1) == asked(1) != asked(2)
    assert len({text for prompt in asked(1) for text in prompt if text.startswith("pool")}) > 2


def test_every_one_of_several_answers_is_graded(recorder, data):
    report = Match([Scripted({"q": ["4", "5", "4", "4"]})], data([chat("q", "4")]), options={"n": 4}, name="a.dev.v0").run(recorder)
    assert (report["accuracy"], report["n"]) == (0.75, 4)
    assert [event.data["index"] for event in recorder.get_events("match")] == [0, 1, 2, 3]


class Odd:
    """Gives whatever it was made with."""

    def __init__(self, result):
        self.result = result

    def __call__(self, prompt, **options):
        return self.result


@pytest.mark.parametrize(
    "result", [Completion([]), Completion([None]), Completion("text"), Completion([1]), None, "text", iter(["text"])], ids=repr
)
def test_what_is_no_answer_is_an_error_not_a_score(recorder, data, result):
    report = Match([Odd(result)], data([chat("q", "4")]), name="a.dev.v0").run(recorder)
    assert report["accuracy"] is None
    assert recorder.get_events("sample")[0].data["error"]["type"] == "BadReply"


def test_a_grader_of_ones_own_is_named_in_yaml(recorder, data):
    rows = data([{"question": "q"}, {"question": "silent"}])
    eval = Graded([Scripted({"q": "abc", "silent": ""})], rows, grader=f"{__name__}:Half", fields={"input": "question"}, name="a.dev.v0")
    report = eval.run(recorder)
    assert (report["accuracy"], report["n"], report["length"], report["length_n"]) == (0.0, 1, 3.0, 1)
    assert recorder.get_events("match")[0].data["score"] == 0.5
    assert recorder.get_events("unscored")[0].data["reason"] == "silence"
    assert eval.loop.tally.counts.unscored == 1


def test_an_empty_ideal_gives_no_verdict(recorder, data):
    report = Match([Scripted({"q": "x", "r": "x"})], data([chat("q", ""), chat("r", "x")]), name="a.dev.v0").run(recorder)
    assert (report["accuracy"], report["n"]) == (1.0, 1)


@pytest.mark.parametrize(("rows", "told"), [
    ([{"input": "x", "answer": "y"}], r's\.jsonl:1 has no "ideal" \(it has: input, answer\)\. Map it: args: \{fields: \{ideal: '),
    ([{"prompt": "x", "ideal": "y"}], r's\.jsonl:1 has no "input"'),
    ([{"input": [], "ideal": "y"}], "cannot be asked"),
    ([{"input": {"text": 1}, "ideal": "y"}], "cannot be asked"),
])  # fmt: skip
def test_a_row_that_cannot_be_used_is_told_with_its_line(data, rows, told):
    with pytest.raises((DataError, Faults), match=told):
        Match([Scripted({})], data(rows)).check()


def test_an_ideal_that_is_no_json_is_told_before_anything_is_asked(data):
    with pytest.raises((DataError, Faults), match="no JSON"):
        JsonMatch([Scripted({})], data([chat("q", "{broken")])).check()


@pytest.mark.parametrize(("arguments", "told"), [
    ({"num_few_shot": 2}, "few_shot_jsonl"), ({"num_few_shot": -1}, "num_few_shot"), ({"few_shot_sampling": "best"}, "few_shot_sampling"),
    ({"fields": {"answer": "ideal"}}, "fields maps"),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_told(data, arguments, told):
    with pytest.raises(BadArguments, match=told):
        Match([Scripted({})], data([chat("q", "4")]), **arguments)


def test_one_completion_function_is_asked(data):
    with pytest.raises(BadArguments, match="asks one completion function, but 2"):
        Match([Scripted({}), Scripted({})], data([chat("q", "4")]))


@pytest.mark.parametrize(("pool", "told"), [([{"sample": []}], "list of messages"), ([{"x": 1}], "list of messages")])
def test_worked_examples_are_looked_at_too(data, pool, told):
    eval = Match([Scripted({})], data([chat("q", "4")]), num_few_shot=1, few_shot_jsonl=data(pool, "pool.jsonl"))
    with pytest.raises((DataError, Faults), match=told):
        eval.check()


def test_too_few_worked_examples_are_told(data):
    pool = data([{"sample": [{"role": "user", "content": "x"}]}], "pool.jsonl")
    with pytest.raises(DataError, match="holds 1 worked examples, but num_few_shot is 2"):
        Match([Scripted({})], data([chat("q", "4")]), num_few_shot=2, few_shot_jsonl=pool).check()


def test_the_helper_of_the_mould_records_and_picks(recorder):
    with recorder.as_default_recorder("s"):
        assert record_and_check_match("p", "yes.", ["yes"], options=["yes", "no"]) == "yes"
        assert record_and_check_match("p", "no", "yes", options=["yes", "no"]) == "no"
        assert record_and_check_match("p", "maybe", "yes") is None
        assert record_and_check_match("p", " yes", " yes") == " yes"  # an option is given back as it was given
    assert [event.data["correct"] for event in recorder.get_events("match")] == [True, False, False, True]
    assert recorder.get_events("match")[0].data["options"] == ["yes", "no"]


def test_a_separator_says_where_an_option_ends(recorder):
    with recorder.as_default_recorder("s"):
        assert record_and_check_match("p", "yesterday", "yes", str.isspace) is None
        assert record_and_check_match("p", "yes_sir", "yes", separator=lambda character: character == "_") == "yes"
        assert record_and_check_match("p", "yes", "yes", separator=lambda _: False) == "yes"
        assert record_and_check_match("p", "", "yes", separator=lambda _: True) is None
        assert record_and_check_match("p", "ab", "a", lambda _: True, ["a", "ab", ""]) == "ab"
    assert [event.data["correct"] for event in recorder.get_events("match")] == [False, True, True, False, False]


@pytest.mark.parametrize(("grader", "error", "told"), [
    (None, BadArguments, "judges nothing"), (3, BadArguments, "judges nothing"), ({"args": {}}, BadArguments, "is described by"),
    ("match", BadArguments, "is described by"), ("no_such_module:Match", BadClass, "no_such_module"), ("evalframe.graders.match:Nope", BadClass, "Nope"),
    ({"class": "evalframe.graders.match:Match", "args": {"loud": True}}, BadArguments, "loud"),
])  # fmt: skip
def test_a_grader_that_cannot_be_had_is_told(data, grader, error, told):
    with pytest.raises(error, match=told):
        Graded([Scripted({})], data([chat("q", "4")]), grader=grader)


@pytest.mark.parametrize("workers", [1, 2, 16])
def test_verdicts_depend_neither_on_threads_nor_on_a_sample_that_fails(recorder, data, workers):
    answers = {f"q{n}": f"{n}" for n in range(60) if n != 5}  # the model fails at q5
    eval = Match([Scripted(answers)], data([chat(f"q{n}", f"{n}") for n in range(60)]), name="a.dev.v0")
    eval.loop = Loop(workers=workers)
    assert eval.run(recorder)["n"] == 59
    verdicts = {event.sample_id: event.data["correct"] for event in recorder.get_events("match")}
    assert verdicts == {f"a.dev.{n}": True for n in range(60) if n != 5}


def test_every_mean_has_its_interval(recorder, data):
    rows = data([chat("q", "the cat sat"), chat("r", "dog")])
    report = FuzzyMatch([Scripted({"q": "the cat", "r": "fox"})], rows, name="a.dev.v0").run(recorder)
    low, high = report["f1_score_ci95"]
    assert low < report["f1_score"] < high
    assert report["f1_score_n"] == 2


def test_the_plan_tells_every_step_and_its_settings(data):
    pool = data([{"sample": [{"role": "user", "content": "x"}]}] * 2, "pool.jsonl")
    eval = Includes(
        [Scripted({})], data([chat("q", "4")]), ignore_case=True, options={"temperature": 0}, num_few_shot=2, few_shot_jsonl=pool
    )
    assert eval.plan() == [
        {"step": "few_shot", "num": 2, "from": pool, "sampling": "first"},
        {"step": "generate", "options": {"temperature": 0}},
        {"step": "grade", "class": "evalframe.graders.includes:Includes", "args": {"ignore_case": True}},
    ]
    assert [step["step"] for step in JsonValidator([Scripted({})], data([chat("q")])).plan()] == ["generate", "grade"]


class Yes:
    """A grader that answers with a bool."""

    def __call__(self, completion, sample):
        return True


class NotCallable:
    pass


def test_a_grader_that_gives_no_grade_is_told(recorder, data):
    Graded([Scripted({"q": "x"})], data([chat("q", "x")]), grader=Yes(), name="a.dev.v0").run(recorder)
    assert recorder.get_events("sample")[0].data["error"]["message"].startswith("the grader Yes gave a bool, not a Grade.")


def test_a_grader_that_cannot_be_called_is_told_what_it_needs(data):
    with pytest.raises(BadArguments, match="__call__"):
        Graded([Scripted({})], data([chat("q", "x")]), grader=f"{__name__}:NotCallable")
