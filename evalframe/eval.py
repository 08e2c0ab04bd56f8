"""
An eval asks: it says what its samples are, how one is asked, and what the recorded events come to.

Most evals need no class of their own: `evals/graded.py` is the one that is put together in YAML. Subclass `Eval` for what it cannot say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, Protocol

from evalframe.core.completion import CompletionFn
from evalframe.core.errors import BadArguments, MissingData
from evalframe.core.limit import Limit
from evalframe.core.recorder import Recorder, record_match
from evalframe.core.steps import Steps
from evalframe.datasets.load import load_rows
from evalframe.loop import Loop


class Parts(Protocol):
    """What an eval asks of the registry it came from."""

    def build(self, spec: Any, **extra: Any) -> Any:
        """Build a part from "module:Class" or {class: ..., args: ...}."""
        ...

    def find_data(self, path: Any, registry_path: Any, *, eval_name: str | None = None) -> Any:
        """Where a data path of an eval leads: an absolute path, or the URL itself."""
        ...


class Eval(ABC):
    """
    Base of all evals.

    Args:
        completion_fns: Who is asked; most evals take one.
        eval_registry_path: The registry that names the eval: its data is looked for there first.
        seed: Source of every sample's randomness.
        name: "<base>.<split>[.<version>]"; the first two parts begin every sample id.
        registry: Where parts and data are found; None for an eval made by hand.
        samples_jsonl: Its data.

    Raises:
        BadArguments: If the name has no split.
    """

    def __init__(
        self,
        completion_fns: Sequence[CompletionFn],
        eval_registry_path: Path | str | None = None,
        seed: int = 20220722,
        name: str = "no_name_eval.default",
        registry: Parts | None = None,
        samples_jsonl: str | None = None,
    ) -> None:
        if len(name.split(".")) < 2:
            raise BadArguments(f'the eval name "{name}" has no split.', do="Name it <base>.<split>.<version>, such as arithmetic.dev.v1.")
        self.completion_fns = list(completion_fns)
        self.eval_registry_path = Path(eval_registry_path) if eval_registry_path is not None else Path()
        self.seed = seed
        self.name = name
        self.registry = registry
        self.samples_jsonl = samples_jsonl
        self._rows: dict[str, Sequence[Any]] = {}

    loop: Loop | None = None
    """Who runs the samples; set by the run, and made from the environment where an eval is run by hand."""

    # ------------------------------------------------------------------ what a subclass says

    @abstractmethod
    def eval_sample(self, sample: Any, rng: Random) -> Any:
        """
        Ask one sample and record what came of it.

        Args:
            sample: One of `get_samples()`.
            rng: The sample's own randomness, the same in every run with the same seed.

        Returns:
            Anything; a JSON value is kept in the log. May be written as `async def`.
        """

    @property
    def in_steps(self) -> Callable[[Any, Random], Steps[Any]] | None:
        """The same as `eval_sample` in steps (core/steps.py), for event loops; None for an eval that is not written so."""
        return None

    def on_limit(self, sample: Any, rng: Random, limit: Limit) -> Any:
        """
        Grade what there is of a sample that a limit has cut; it stands in the log with the status "limit". By default it is wrong.

        Args:
            sample: As for `eval_sample`.
            rng: Likewise; it goes on from where it was.
            limit: Which limit was reached.

        Returns:
            As `eval_sample`. May not be `async`.
        """
        record_match(False, limit=limit.kind)

    @abstractmethod
    def run(self, recorder: Recorder) -> dict[str, Any]:
        """Ask all samples and return the report: numbers by name."""

    def check_sample(self, row: Any) -> str | None:
        """What is wrong with a row of `samples_jsonl`, if anything: a phrase that goes on after "file:line". Called before any request."""
        return None

    def check(self) -> None:
        """
        Look at whatever can be looked at before a model is asked.

        Raises:
            EvalframeError: For every fault found.
        """
        if self.samples_jsonl is not None:
            self.load_rows(self.samples_jsonl, check=self.check_sample)

    def plan(self) -> list[dict[str, Any]]:
        """What happens to a sample, step by step, as the log keeps it; an eval written in Python says nothing of its own."""
        return []

    # ------------------------------------------------------------------ what a subclass uses

    @property
    def completion_fn(self) -> CompletionFn:
        """The first of the completion functions."""
        return self.completion_fns[0]

    def get_samples(self) -> Sequence[Any]:
        """
        All rows of `samples_jsonl`, as a list that is the caller's own.

        Raises:
            MissingData: If the eval names no data.
        """
        return list(self.all_rows())

    def all_rows(self) -> Sequence[Any]:
        """The same rows, read only when they are looked at: a million of them need next to no memory."""
        if self.samples_jsonl is None:
            raise MissingData(f"the eval {self.name} names no data.", do="Give it args: {samples_jsonl: <eval>/samples.jsonl}")
        return self.load_rows(self.samples_jsonl, check=self.check_sample)

    def load_rows(self, path: str | Path, *, check: Callable[[Any], str | None] | None = None) -> Sequence[Any]:
        """The rows of a data file, which is read and checked once."""
        key = str(path)
        if key not in self._rows:
            self._rows[key] = load_rows(self.find_data(path), check=check)
        return self._rows[key]

    def data_facts(self, of: Callable[[Sequence[Any]], dict[str, Any]]) -> list[dict[str, Any]]:
        """What is to be told of each data file that was read."""
        return [of(rows) for rows in self._rows.values()]

    def find_data(self, path: str | Path) -> Path | str:
        """Where a data path leads; a URL leads to itself."""
        if self.registry is not None:
            found: Path | str = self.registry.find_data(path, self.eval_registry_path, eval_name=self.name)
            return found
        return Path(path) if Path(path).exists() or "://" in str(path) else self.eval_registry_path / "data" / path

    @cached_property
    def data_folder(self) -> Path:
        """What relative paths in the data are relative to: its own folder; the current one where the data has none."""
        found = self.find_data(self.samples_jsonl) if self.samples_jsonl is not None else Path()
        return found.absolute().parent if isinstance(found, Path) and self.samples_jsonl is not None else Path.cwd()

    def eval_all_samples(self, recorder: Recorder, samples: Sequence[Any], *, keep_results: bool = True, **_options: Any) -> list[Any]:
        """
        Ask all of `samples`, several at once; those that an earlier process of the same run has asked are not asked again.

        Args:
            recorder: Who remembers.
            samples: Rows; they are asked in the mould's order and cut to `--max_samples`.
            keep_results: Whether what `eval_sample` returns is wanted back; without it, memory does not grow with it.

        Returns:
            What `eval_sample` returned, in the order of `samples` (and of epochs within each), without the samples that ended in error.
        """
        if self.loop is None:
            self.loop = Loop.from_environment()
        return self.loop.run(self, recorder, samples, keep_results=keep_results)
