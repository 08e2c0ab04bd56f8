"""
Look at every entry of a registry without running anything, and tell all that is wrong.

Covers: files, names, aliases, classes, the names of arguments and the values of dataclasses, eval sets, prices. Does not cover: data rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalframe.core.errors import BadEntry, EvalframeError, flatten
from evalframe.core.specs import CompletionFnSpec, SolverSpec, Spec
from evalframe.registry import resolve
from evalframe.registry.build import Origin, check_arguments, coerce, nested_parts
from evalframe.registry.load import KINDS, Entry
from evalframe.registry.registry import EVAL_KEYWORDS, Registry, origin_of


def validate(registry: Registry, kinds: Sequence[str] | None = None) -> list[EvalframeError]:
    """
    Every fault of every entry; keys that nobody reads become warnings of the registry.

    Args:
        registry: What to look at.
        kinds: Only these; None for all.
    """
    found = [error for kind in (KINDS if kinds is None else kinds) for error in kind_faults(registry, kind)]
    return list({str(error): error for error in found}.values())


def kind_faults(registry: Registry, kind: str) -> Iterator[EvalframeError]:
    """What is wrong with one kind."""
    yield from (file.error for file in registry.shelf(kind).broken)
    for entry in registry.entries(kind):
        if entry.faults:
            yield from entry.faults
            continue
        try:
            check(registry, entry)
        except EvalframeError as error:
            yield from flatten(error)


def check(registry: Registry, entry: Entry) -> None:
    """
    Look at one entry.

    Raises:
        EvalframeError: What is wrong with it, all of it.
    """
    alias = resolve.alias_of(entry)
    warn_of_keys(registry, entry)
    if entry.kind == "models":
        resolve.price_at(registry.shelf("models"), entry.name)
    elif alias is not None:
        resolve.follow(registry.shelf(entry.kind), entry.name)
    elif entry.kind == "eval_sets":
        registry.evals_of_set(entry.name)
    elif entry.kind == "modelgraded":
        resolve.mapping_of(entry)
    elif entry.kind == "evals":
        check_spec(registry, resolve.eval_spec(entry), EVAL_KEYWORDS)
    else:
        supplied = ("registry", "model") if entry.name.endswith("/") else ("registry",)
        check_spec(registry, resolve.spec_of(entry, SolverSpec if entry.kind == "solvers" else CompletionFnSpec), supplied)


def check_spec(registry: Registry, spec: Spec, supplied: Sequence[str]) -> None:
    """
    Import the class of a spec and of each part inside its arguments, and hold the arguments against their constructors.

    Raises:
        EvalframeError: What is wrong, all of it.
    """
    errors: list[EvalframeError] = []
    own = origin_of(spec)
    inner = [(Origin(part["class"], own.what, own.place), part.get("args") or {}) for part in nested_parts(spec.args)]
    for origin, args in [(own, spec.args), *inner]:
        try:
            cls = registry.import_class(origin)
            check_arguments(cls, args, origin, supplied=supplied if origin is own else ("registry",))
            coerce(cls, dict(args), origin, spelt=args)
        except EvalframeError as error:
            errors.append(error)
    resolve.raise_all(errors)


def warn_of_keys(registry: Registry, entry: Entry) -> None:
    """Keep a warning about keys that nobody reads, such as a misspelt `args`."""
    unknown = resolve.unknown_keys(entry)
    if unknown:
        registry.warn(BadEntry(f"{resolve.about(entry)} has keys that nobody reads: {', '.join(unknown)}."))
    value = entry.value
    if isinstance(value, dict) and value.get("id") is not None and "class" in value:
        registry.warn(BadEntry(f"{resolve.about(entry)} has both an id and a class; the id counts."))
