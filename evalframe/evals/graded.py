"""
The eval that needs no Python: samples, worked examples, a completion, a grader, metrics; all named in YAML.

Generation and grading are two steps, so that a log can be graded again without asking a model again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import partial
from importlib import import_module
from random import Random
from typing import Any, Literal

from evalframe.core.completion import CompletionFn, CompletionResult, one_or_all, texts_of
from evalframe.core.errors import BadArguments, BadClass, BadSample, EmptyDataset, MetricError
from evalframe.core.grade import Grade
from evalframe.core.grader import Grader
from evalframe.core.limit import Limit
from evalframe.core.media import fault_of_files, read_files
from evalframe.core.messages import is_message
from evalframe.core.prompts import Prompt, is_chat, is_prompt
from evalframe.core.recorder import Recorder, record_match, record_metrics, record_unscored
from evalframe.core.reducer import Reducer
from evalframe.core.sample import Sample
from evalframe.core.scope import before_call, begin_grading, current_scope
from evalframe.core.steps import Call, Steps, asked, on_thread
from evalframe.eval import Eval
from evalframe.metrics.basic import RunningMean, accuracy_report
from evalframe.metrics.repeats import RepeatedScores
from evalframe.solvers.few_shot import FewShot

OUR_GRADERS = "evalframe.graders."
"""Graders that compute and are done; any other may ask a judge, and must not hold up an event loop meanwhile."""


class Graded(Eval):
    """
    Ask each sample, grade each answer.

    Args:
        completion_fns: Who is asked; one.
        samples_jsonl: The data: rows with `input` (text or chat messages) and `ideal` (an answer, or a list of answers). A row may bring
            `tools`, `tool_choice` and `response_format` of its own, which go to the model.
        grader: Who judges: "module:Class", {class: ..., args: ...}, or a grader.
        fields: The row's own names for ours: {input: question, ideal: answer}.
        options: Options for the model in every call; only what is asked for is sent.
        max_tokens: The same as options: {max_tokens: ...}.
        temperature: The same as options: {temperature: ...}.
        num_few_shot: Worked examples before each question.
        few_shot_jsonl: Where they come from: rows {"sample": [messages]}.
        few_shot_sampling: "first" or "random"; see `FewShot`.
        args, kwargs: As for `Eval`.

    Raises:
        BadArguments: If these do not fit together, or the grader is none.
        BadClass: If the grader cannot be imported.
    """

    def __init__(
        self,
        completion_fns: Sequence[CompletionFn],
        samples_jsonl: str,
        *args: Any,
        grader: Grader | str | Mapping[str, Any],
        fields: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        num_few_shot: int = 0,
        few_shot_jsonl: str | None = None,
        few_shot_sampling: Literal["first", "random"] = "first",
        **kwargs: Any,
    ) -> None:
        super().__init__(completion_fns, *args, **kwargs)
        self.samples_jsonl = samples_jsonl
        self.fields = dict(fields or {})
        named = {"max_tokens": max_tokens, "temperature": temperature}
        self.options = {**(options or {}), **{option: value for option, value in named.items() if value is not None}}
        self.num_few_shot = num_few_shot
        self.few_shot_jsonl = few_shot_jsonl
        self.few_shot_sampling = few_shot_sampling
        self._refuse_what_does_not_fit()
        self.grader = self._build(grader)
        self._few_shot: FewShot | None = None

    def _refuse_what_does_not_fit(self) -> None:
        name = type(self).__name__
        if len(self.completion_fns) > 1:
            raise BadArguments(f"{name} asks one completion function, but {len(self.completion_fns)} are given.")
        if isinstance(self.num_few_shot, bool) or not isinstance(self.num_few_shot, int) or self.num_few_shot < 0:
            raise BadArguments(f"num_few_shot is a whole number from 0 on, not {self.num_few_shot!r}.")
        if self.num_few_shot and self.few_shot_jsonl is None:
            raise BadArguments(
                f"num_few_shot is {self.num_few_shot}, but there is nothing to choose from.", do="Name a file: few_shot_jsonl: ..."
            )
        if self.few_shot_sampling not in ("first", "random"):
            raise BadArguments(f'few_shot_sampling is "first" or "random", not {self.few_shot_sampling!r}.')
        unknown = sorted(set(self.fields) - {"input", "ideal", "id"})
        if unknown:
            raise BadArguments(f"fields maps input, ideal and id, not {', '.join(unknown)}.", do="Write fields: {ideal: <the row's name>}")

    def _build(self, grader: Grader | str | Mapping[str, Any]) -> Grader:
        built: Any = grader
        if self.registry is not None:
            built = self.registry.build(grader)
        elif isinstance(grader, str | Mapping):
            built = build_by_hand({"class": grader} if isinstance(grader, str) else grader)
        if not callable(built):
            raise BadArguments(
                f"the grader {grader!r} cannot be called, so it judges nothing.",
                do="Its class needs __call__(self, completion, sample) -> evalframe.Grade.",
            )
        judge: Grader = built
        return judge

    # ------------------------------------------------------------------ before the first request

    def check(self) -> None:
        super().check()
        if self.num_few_shot:
            self.few_shot()

    def check_sample(self, row: Any) -> str | None:
        """What is wrong with a row: no input that can be asked, no ideal where the grader needs one, or what the grader finds."""
        sought = {"input": self.fields.get("input", "input")}
        if getattr(self.grader, "needs_ideal", True):
            sought["ideal"] = self.fields.get("ideal", "ideal")
        for ours, theirs in sought.items():
            if theirs not in row:
                return (
                    f'has no "{theirs}" (it has: {", ".join(map(str, row)) or "nothing"}). Map it: args: {{fields: {{{ours}: <its name>}}}}'
                )
        if not is_prompt(row[sought["input"]]):
            return f'has an "{sought["input"]}" that cannot be asked: it is neither text nor a list of messages with a role.'
        if self.num_few_shot and not is_chat(row[sought["input"]]):
            return f'has an "{sought["input"]}" that is text, but worked examples (num_few_shot) go into a list of messages.'
        fault = fault_of_files(row[sought["input"]], self.data_folder)
        if fault is not None:
            return f'has an "{sought["input"]}" that cannot be asked: {fault}'
        check: Callable[[Sample], str | None] | None = getattr(self.grader, "check", None)
        return check(Sample.from_row(row, self.fields)) if check else None

    def few_shot(self) -> FewShot | None:
        """
        The worked examples, read once.

        Raises:
            DataError: If they cannot be read, or are too few.
        """
        if self._few_shot is None and self.num_few_shot and self.few_shot_jsonl is not None:
            rows = self.load_rows(self.few_shot_jsonl, check=check_example)
            if len(rows) < self.num_few_shot:
                raise EmptyDataset(f"{self.few_shot_jsonl} holds {len(rows)} worked examples, but num_few_shot is {self.num_few_shot}.")
            self._few_shot = FewShot(tuple(row["sample"] for row in rows), self.num_few_shot, self.few_shot_sampling)
        return self._few_shot

    def plan(self) -> list[dict[str, Any]]:
        """Worked examples if there are any, the question, the verdict; each with its settings."""
        shown = {"step": "few_shot", "num": self.num_few_shot, "from": self.few_shot_jsonl, "sampling": self.few_shot_sampling}
        judge = {"step": "grade", "class": f"{type(self.grader).__module__}:{type(self.grader).__qualname__}", "args": self._judged_by()}
        return [*([shown] if self.num_few_shot else []), {"step": "generate", "options": self.options}, judge]

    def _judged_by(self) -> dict[str, Any]:
        """The grader's fields."""
        grader: Any = self.grader
        return {item.name: getattr(grader, item.name) for item in dataclass_fields(grader)} if is_dataclass(grader) else {}

    # ------------------------------------------------------------------ one sample

    def get_samples(self) -> Sequence[Any]:
        """All rows, read only when they are looked at."""
        return self.all_rows()

    def eval_sample(self, sample: Any, rng: Random) -> Any:
        """Ask one sample, record a verdict on each answer to it, and return the score, or the scores of several answers."""
        return on_thread(self.sample_in_steps(sample, rng))

    @property
    def in_steps(self) -> Callable[[Any, Random], Steps[Any]] | None:
        """See `Eval`; a subclass that asks its samples in its own way is asked in that way."""
        return self.sample_in_steps if type(self).eval_sample is Graded.eval_sample else None

    def sample_in_steps(self, sample: Any, rng: Random) -> Steps[Any]:
        """The same in steps: see `core/steps.py`."""
        row = self.read(sample)
        answers = yield from self.answers(row, rng)
        if type(self.grader).__module__.startswith(OUR_GRADERS):
            return self.judged(answers, row)
        return (yield Call(partial(self.judged, answers, row)))

    def on_limit(self, sample: Any, rng: Random, limit: Limit) -> Any:
        """Grade the last answer that there is; a sample that was cut before any has an empty one."""
        scope = current_scope()
        last = scope.answer if scope else None
        answers = [str(text) for text in last] if isinstance(last, list) and last else [last if isinstance(last, str) else ""]
        return self.judged(answers, self.read(sample))

    def answers(self, sample: Sample, rng: Random) -> Steps[list[str]]:
        """The model's answers; those that an earlier attempt got, and whose grading failed, are not asked for again."""
        scope = current_scope()
        if scope is not None and scope.kept is not None:
            told = {"prompt": self.prompt(sample, rng), "sampled": one_or_all(scope.kept), "reused": True}
            scope.recorder.record_event("sampling", told)  # nobody is asked: no turn, no tokens
            return scope.kept
        answers = texts_of((yield from self.generate(sample, rng)))
        if scope is not None:
            scope.kept = answers
        return answers

    def judged(self, answers: list[str], sample: Sample) -> Any:
        """Record a verdict on each answer, and return the score, or the scores of several; no limit cuts this."""
        begin_grading()
        grades = [self.record(self.grade(answer, sample), answer, sample, index, len(answers)) for index, answer in enumerate(answers)]
        scores = [grade.score for grade in grades]
        return scores[0] if len(scores) == 1 else scores

    def read(self, row: Any) -> Sample:
        """
        The row as a sample.

        Raises:
            BadSample: If it has no input; rows of files were looked at before, rows made in Python were not.
        """
        problem = self.check_sample(row) if isinstance(row, Mapping) else "is no mapping"
        if problem:
            raise BadSample(f"the sample {problem}")
        return Sample.from_row(row, self.fields)

    def prompt(self, sample: Sample, rng: Random) -> Prompt:
        """What the model is asked, with the files in it that it names."""
        few_shot = self.few_shot()
        prompt = few_shot(sample.input, sample, rng) if few_shot else sample.input
        return read_files(prompt, self.data_folder)

    def generate(self, sample: Sample, rng: Random) -> Steps[CompletionResult]:
        """Ask the model, unless a limit of the sample has no room for it."""
        prompt = self.prompt(sample, rng)
        before_call(prompt)
        return (yield from asked(self.completion_fn, prompt, **{**self.options, **own_options(sample)}))

    def grade(self, completion: str, sample: Sample) -> Grade:
        """
        Judge one answer.

        Raises:
            MetricError: If the grader gives something else than a grade.
        """
        grade: object = self.grader(completion, sample)
        if not isinstance(grade, Grade):
            raise MetricError(
                f"the grader {type(self.grader).__name__} gave a {type(grade).__name__}, not a Grade.",
                do="Return evalframe.Grade.correct(), .incorrect(), .unscored(reason=...) or Grade(score).",
            )
        return grade

    def record(self, grade: Grade, answer: str, sample: Sample, index: int, answers: int) -> Grade:
        """Record a verdict; the answer's number stands with it where there are several."""
        which = {"index": index} if answers > 1 else {}
        if grade.score is None:
            record_unscored(grade.reason or "", expected=sample.ideals, sampled=answer, **which, **grade.details)
        else:
            partial = {} if grade.score in (0.0, 1.0) else {"score": grade.score}
            record_match(
                grade.is_correct, expected=sample.ideals or None, picked=grade.picked, sampled=answer, **partial, **which, **grade.details
            )
        if grade.metrics:
            record_metrics(**grade.metrics)
        return grade

    # ------------------------------------------------------------------ all of them

    def run(self, recorder: Recorder) -> dict[str, Any]:
        """Ask all samples and report."""
        self.eval_all_samples(recorder, self.get_samples(), keep_results=False)
        return self.report(recorder)

    def report(self, recorder: Recorder) -> dict[str, Any]:
        """The accuracy over all verdicts, and the mean of every other number that the grader gave; over epochs, where there are several."""
        epochs, reducers = (self.loop.epochs.epochs, self.loop.epochs.reducers) if self.loop is not None else (1, ())
        if epochs == 1:
            report = accuracy_report(event.data["correct"] for event in recorder.get_events("match"))
        else:
            report = repeated_report(recorder, epochs, reducers)
        means: dict[str, RunningMean | RepeatedScores] = {}
        for event in recorder.get_events("metrics"):
            for name, value in event.data.items():
                if isinstance(value, int | float):
                    found = means.setdefault(name, RunningMean() if epochs == 1 else RepeatedScores(epochs))
                    if isinstance(found, RunningMean):
                        found.add(value)
                    else:
                        found.add(event.sample_id, event.epoch, value)
        for name in sorted(means):
            report |= means[name].report(name)
        return report


def repeated_report(recorder: Recorder, epochs: int, reducers: Sequence[Reducer]) -> dict[str, Any]:
    """The accuracy over samples that were asked several times; with any error both readings of it, left out and as wrong."""
    scored, left_out, as_wrong = (RepeatedScores(epochs) for _ in range(3))
    for event in recorder.get_events("match"):
        score = float(event.data["correct"])
        for reading in (scored, as_wrong) if event.data.get("scored_as_wrong") else (scored, left_out, as_wrong):
            reading.add(event.sample_id, event.epoch, score)
    failed = [event for event in recorder.get_events("sample") if event.data["status"] == "error"]
    report = scored.accuracy_report(reducers)
    for event in failed:
        if event.data.get("scored_as_wrong"):
            name, reading = "accuracy_errors_left_out", left_out
        else:
            name, reading = "accuracy_errors_as_wrong", as_wrong
            as_wrong.add(event.sample_id, event.epoch, 0.0)
    if failed:
        other = reading.accuracy_report()
        report |= {name: other["accuracy"], f"{name}_n": other["n"]}
    return report


def own_options(sample: Sample) -> dict[str, Any]:
    """What a row itself asks of the model: tools to choose from, or the form of the answer, spelt as chat completions spell them."""
    row = sample.metadata
    found: dict[str, Any] = {}
    tools = row.get("tools")
    if isinstance(tools, list) and tools and all(isinstance(tool, Mapping) and isinstance(tool.get("type"), str) for tool in tools):
        found["tools"] = tools
        if isinstance(row.get("tool_choice"), str | Mapping):
            found["tool_choice"] = row["tool_choice"]
    form = row.get("response_format")
    if isinstance(form, Mapping) and isinstance(form.get("type"), str):
        found["response_format"] = form
    return found


def build_by_hand(spec: Mapping[str, Any]) -> Any:
    """
    The grader that {class: "module:Class", args: ...} describes, where no registry is at hand to build it.

    Raises:
        BadArguments: If it is described otherwise, or does not take its arguments.
        BadClass: If it cannot be imported.
    """
    reference, arguments = spec.get("class"), spec.get("args") or {}
    module, _, name = reference.partition(":") if isinstance(reference, str) else ("", "", "")
    if not module or not name or not isinstance(arguments, Mapping):
        raise BadArguments(f"a grader is described by {dict(spec)!r}.", do="Write {class: module:Class, args: {...}}.")
    try:
        cls = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise BadClass(f'the grader "{reference}" cannot be imported: {error}.') from error
    try:
        return cls(**arguments)
    except TypeError as error:
        raise BadArguments(f'the grader "{reference}" could not be built: {error}.') from error


def check_example(row: Any) -> str | None:
    """What is wrong with a row of worked examples."""
    example = row.get("sample")
    if not isinstance(example, list) or not example or not all(is_message(message) for message in example):
        return 'has no "sample" that is a list of messages.'
    return None
