"""
Every error that a user can bring about.

    EvalframeError
    ├── RegistryError        a name, an entry or a class of the registry
    │   ├── UnknownName      nothing is called that
    │   ├── DuplicateName    two entries are called that
    │   ├── AliasLoop        aliases that lead back to where they began
    │   ├── DanglingAlias    an alias that leads to nothing
    │   ├── BadEntry         an entry that is neither an alias nor a spec
    │   ├── BadClass         a class that cannot be imported
    │   └── BadArguments     arguments that a class does not take
    ├── YamlError            a YAML file
    │   ├── BadYaml          it cannot be parsed
    │   ├── DuplicateKey     a key stands twice in one mapping
    │   └── ForbiddenTag     a tag that would run code
    ├── CompletionFnError    a model, its endpoint, its answers
    │   ├── MissingKey       no API key where one is needed
    │   ├── ModelUnavailable the endpoint refuses the key or the model: every sample would fail
    │   ├── RequestRefused   the endpoint refuses this request
    │   ├── BadReply         an answer that cannot be read
    │   ├── CallFailed       given up after retries
    │   └── ScriptExhausted  a scripted function has no reply left
    ├── DataError            a data set
    │   ├── MissingData      no such file
    │   ├── NotData          a Git LFS pointer or a web page in place of data
    │   ├── BadRows          rows that cannot be read, all of them told
    │   ├── BadSample        a row that this eval cannot use
    │   └── EmptyDataset     no rows
    ├── MetricError          a number that cannot be computed
    ├── UsageError           the command, a setting, the machine
    │   ├── BadSetting       a value a setting does not take
    │   ├── Unpriced         a model without a price, where a limit on cost is set
    │   ├── MissingExtra     an optional library is not installed
    │   ├── LogUnavailable   the log cannot be opened or written
    │   └── BadLog           a file that is not a log
    ├── EvalFailed           an eval's own code raised outside of a sample
    └── Faults               several of the above, found in one go

A message says what was wanted, where (file:line:column), what is known, and in `do` what to try next, in at most three steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any


class EvalframeError(Exception):
    """
    An error that its reader can act on.

    Args:
        message: What was wanted, where, and what is known; sentences that end in a full stop.
        do: What to try next: one sentence, or up to three steps.
    """

    kind = "usage"
    exit_code = 2

    def __init__(self, message: str, *, do: str | Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.do: tuple[str, ...] = (do,) if isinstance(do, str) else tuple(do)

    def __str__(self) -> str:
        if len(self.do) <= 1:
            return " ".join((self.message, *self.do))
        return "\n".join((self.message, *(f"  {number}. {step}" for number, step in enumerate(self.do, 1))))


class RegistryError(EvalframeError):
    """A name, an entry or a class of the registry."""

    kind = "registry"


class UnknownName(RegistryError):
    """Nothing is called that."""


class DuplicateName(RegistryError):
    """Two entries are called that."""


class AliasLoop(RegistryError):
    """Aliases that lead back to where they began."""


class DanglingAlias(RegistryError):
    """An alias that leads to nothing."""


class BadEntry(RegistryError):
    """An entry that is neither an alias nor a spec."""


class BadClass(RegistryError):
    """A class that cannot be imported."""


class BadArguments(RegistryError):
    """Arguments that a class does not take."""


class YamlError(EvalframeError):
    """A YAML file."""

    kind = "yaml"


class BadYaml(YamlError):
    """It cannot be parsed."""


class DuplicateKey(YamlError):
    """A key stands twice in one mapping."""


class ForbiddenTag(YamlError):
    """A tag that would run code."""


class CompletionFnError(EvalframeError):
    """A model, its endpoint, its answers."""

    kind = "completion_fn"


class MissingKey(CompletionFnError):
    """No API key where one is needed."""


class ModelUnavailable(CompletionFnError):
    """The endpoint refuses the key or the model: every sample would fail."""


class RequestRefused(CompletionFnError):
    """The endpoint refuses this request."""


class BadReply(CompletionFnError):
    """An answer that cannot be read."""


class CallFailed(CompletionFnError):
    """Given up after retries."""


class ScriptExhausted(CompletionFnError):
    """A scripted function has no reply left."""


class DataError(EvalframeError):
    """A data set."""

    kind = "data"


class MissingData(DataError):
    """No such file."""


class NotData(DataError):
    """A Git LFS pointer or a web page in place of data."""


class BadRows(DataError):
    """Rows that cannot be read, all of them told."""


class BadSample(DataError):
    """A row that this eval cannot use."""


class EmptyDataset(DataError):
    """No rows."""


class MetricError(EvalframeError):
    """A number that cannot be computed."""

    kind = "metric"


class UsageError(EvalframeError):
    """The command, a setting, the machine."""


class BadSetting(UsageError):
    """A value a setting does not take."""


class Unpriced(UsageError):
    """A model without a price, where a limit on cost is set."""


class MissingExtra(UsageError):
    """An optional library is not installed."""

    @classmethod
    def named(cls, what: str, *, library: str, extra: str) -> MissingExtra:
        """The message for `what` (such as "reading hf://openai/gsm8k"), which needs `library` from the extra `extra`."""
        return cls(f'{what} needs "{library}".', do=f'Install it: pip install "evalframe[{extra}]"')


class LogUnavailable(UsageError):
    """The log cannot be opened or written."""


class BadLog(UsageError):
    """A file that is not a log."""


class EvalFailed(EvalframeError):
    """An eval's own code raised outside of a sample."""

    exit_code = 1


class Faults(EvalframeError):
    """Several errors, found in one go, so that they can be mended in one go."""

    def __init__(self, errors: Iterable[EvalframeError]) -> None:
        self.errors: tuple[EvalframeError, ...] = tuple(flat for error in errors for flat in flatten(error))
        super().__init__("\n".join(described(error) for error in self.errors))


class Collector:
    """Gathers faults, so that all of them can be told at once."""

    def __init__(self) -> None:
        self._found: list[EvalframeError] = []

    def of(self, step: Callable[[], Any]) -> Any:
        """What `step` returns; None, and the fault kept, if it raises one."""
        try:
            return step()
        except EvalframeError as error:
            self.add(error)
            return None

    def add(self, error: EvalframeError) -> None:
        """Keep a fault, once."""
        if str(error) not in [str(other) for other in self._found]:
            self._found.append(error)

    def __bool__(self) -> bool:
        return bool(self._found)

    def all(self) -> EvalframeError:
        """The fault, or all of them as one error."""
        return self._found[0] if len(self._found) == 1 else Faults(self._found)


def flatten(error: EvalframeError) -> tuple[EvalframeError, ...]:
    """The errors inside `error`: those of a `Faults`, else itself."""
    return error.errors if isinstance(error, Faults) else (error,)


def described(error: BaseException) -> str:
    """One error as it is shown to a person: its name and its message."""
    if isinstance(error, Faults):
        return str(error)
    return f"{type(error).__name__}: {message_of(error)}".removesuffix(": ")


def message_of(error: BaseException) -> str:
    """The message of any exception, also of one whose own spelling fails."""
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - somebody else's __str__ may raise whatever it likes
        return f"(its message cannot be spelt: {type(failure).__name__})"


def closest(name: str, names: Iterable[str], *, most: int = 5) -> list[str]:
    """The names most like `name`, best first; an equal name but for case comes first."""
    pool = sorted(set(names))
    folded = [other for other in pool if other.casefold() == name.casefold()]
    near = get_close_matches(name, pool, n=most, cutoff=0.6)
    inside = [other for other in pool if len(name) >= 4 and name.casefold() in other.casefold()]
    return list(dict.fromkeys(folded + near + inside))[:most]
