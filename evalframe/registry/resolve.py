"""
From a name to what it stands for: aliases are followed, patterns are matched, entries become specs.

An entry `{id: other}` or a bare string is an alias; `{class: module:Class, args: {...}}` is a spec. In patterns only `*` is special.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypeVar

from evalframe.core.errors import AliasLoop, BadEntry, DanglingAlias, EvalframeError, Faults, UnknownName, closest
from evalframe.core.price import Price
from evalframe.core.specs import BaseEvalSpec, EvalSetSpec, EvalSpec, Spec
from evalframe.registry.env import read_env
from evalframe.registry.load import KINDS, Entry, Shelf

AnySpec = TypeVar("AnySpec", bound=Spec)

SPEC_KEYS = frozenset({"class", "args", "run", "override"})
BASE_KEYS = frozenset({"id", "metrics", "description", "disclaimer", "higher_is_better", "override"})
DOLLARS = ("input_usd", "cached_usd", "output_usd")
PRICE_KEYS = frozenset({*DOLLARS, "source", "date", "description", "override"})
ALIAS_KEYS = frozenset({"id", "description", "override"})
MOST_USD = 1_000_000
"""Dollars that a million tokens may cost: a dollar a token. More is a price for something else."""

SNAPSHOT = re.compile(r"[-@]20\d\d(-?)(0[1-9]|1[0-2])\1(0[1-9]|[12]\d|3[01])$")
"""The date at the end of a model's name: -2024-08-06, -20241022, @20241022."""


def find(shelf: Shelf, name: str, *, asked_by: str = "") -> Entry:
    """
    The entry called `name`, itself an alias or not.

    Args:
        shelf: Where to look.
        name: As asked for.
        asked_by: Who asks, for the message: 'eval set "smoke" in smoke.yaml:3'.

    Raises:
        UnknownName: If there is none.
        YamlError: If it stands in a file that cannot be read.
    """
    entry = shelf.entries.get(name)
    if entry is not None:
        return entry
    for file in shelf.broken:
        if file.seems_to_define(name):
            raise file.error.with_traceback(None)
    asking = f", asked for by {asked_by}" if asked_by else ""
    raise UnknownName(f'no {KINDS[shelf.kind]} "{name}"{asking}.{hints(shelf, name)}', do=f"All: evalframe list {shelf.kind}")


def hints(shelf: Shelf, name: str) -> str:
    """What may have been meant, and which files may have held it."""
    near = closest(name, shelf.entries)
    told = f" Closest: {', '.join(near)}." if near else ""
    if shelf.broken:
        told += f" Not searched: {' '.join(str(file.error) for file in shelf.broken)}"
    return told


def alias_of(entry: Entry) -> str | None:
    """
    The name that an entry refers to, or None if it is no alias. An `id` beside a `class` wins, as it always has.

    Raises:
        BadEntry: If it is neither a mapping nor a name.
    """
    value = entry.value
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, dict):
        raise BadEntry(f"{about(entry)} is {shown(value)}: neither an alias nor a spec.", do=how_to_write(entry.kind))
    target = value.get("id")
    if target is not None and not isinstance(target, str):
        raise BadEntry(f"{about(entry)} has the id {shown(target)}, which is no name.", do="Put quotes around the name.")
    return target


def follow(shelf: Shelf, name: str, *, asked_by: str = "") -> Entry:
    """
    The entry that `name` leads to at the end of its chain of aliases.

    Raises:
        UnknownName: If there is no such name.
        AliasLoop: If the chain comes back to where it was.
        DanglingAlias: If the chain leads to a name that is not there.
    """
    chain = [find(shelf, name, asked_by=asked_by)]
    while (target := alias_of(chain[-1])) is not None:
        told = " -> ".join(f"{entry.name} ({entry.place})" for entry in chain)
        if any(entry.name == target for entry in chain):
            raise AliasLoop(
                f"{KINDS[shelf.kind]} aliases lead back to where they began: {told} -> {target}.", do="Let one of them name a spec."
            )
        try:
            chain.append(find(shelf, target))
        except UnknownName as error:
            asking = f", asked for by {asked_by}" if asked_by else ""
            raise DanglingAlias(
                f'{KINDS[shelf.kind]} "{name}"{asking} leads to "{target}", which is not there: {told} -> {target}.{hints(shelf, target)}',
                do=f"All: evalframe list {shelf.kind}",
            ) from error
    return chain[-1]


def spec_of(entry: Entry, cls: type[AnySpec], **more: Any) -> AnySpec:
    """
    The entry as a spec.

    Raises:
        BadEntry: If it has no class, or arguments that are no mapping.
    """
    value = mapping_of(entry)
    reference = value.get("class")
    if not isinstance(reference, str):
        told = f"has the class {shown(reference)}" if "class" in value else f"has no class and no id (it has: {', '.join(map(str, value))})"
        raise BadEntry(f"{about(entry)} {told}.", do=how_to_write(entry.kind))
    return cls(
        cls=reference,
        args=section(entry, "args"),
        key=entry.name,
        group=entry.group,
        registry_path=entry.registry_path,
        place=entry.place,
        **more,
    )


def eval_spec(entry: Entry) -> EvalSpec:
    """
    The entry as an eval.

    Raises:
        BadEntry: As `spec_of`.
    """
    return spec_of(entry, EvalSpec, run=read_env(section(entry, "run"), entry=named(entry)))


def base_eval_spec(entry: Entry) -> BaseEvalSpec:
    """
    The entry as the base of an eval's versions: what people are told about it.

    Raises:
        BadEntry: If it is neither a mapping nor a name.
    """
    target, value = alias_of(entry), entry.value
    told = value if isinstance(value, dict) else {}
    metrics = told.get("metrics") or []
    return BaseEvalSpec(
        id=target,
        metrics=[str(metric) for metric in metrics] if isinstance(metrics, list) else [str(metrics)],
        description=str(told.get("description") or ""),
        disclaimer=str(told.get("disclaimer") or ""),
        higher_is_better=told.get("higher_is_better", True) is not False,
        key=entry.name,
        group=entry.group,
        place=entry.place,
    )


def eval_set_spec(entry: Entry) -> EvalSetSpec:
    """
    The entry as an eval set.

    Raises:
        BadEntry: If its `evals` are not a list of names.
    """
    evals = mapping_of(entry).get("evals")
    evals = [evals] if isinstance(evals, str) else evals
    if not isinstance(evals, list) or not evals:
        raise BadEntry(f"{about(entry)} lists no evals.", do=how_to_write(entry.kind))
    for index, name in enumerate(evals):
        if not isinstance(name, str):
            raise BadEntry(
                f'{entry.place_at("evals", index)}: eval set "{entry.name}" lists {shown(name)}, which is no name.', do="Put quotes."
            )
    return EvalSetSpec(list(evals), key=entry.name, group=entry.group, place=entry.place)


def price_at(shelf: Shelf, name: str) -> Price:
    """
    What the model that a name or alias leads to costs.

    Raises:
        RegistryError: If it leads to none, or to an entry that is no price.
        YamlError: If that stands in a file that cannot be read.
    """
    last = follow(shelf, name)
    if shelf.entries[name] is not last:
        check_price_alias(shelf.entries[name])
    return price(last)


def price(entry: Entry) -> Price:
    """
    The entry as what a model costs.

    Raises:
        BadEntry: If a key is unknown, a price missing or no number of dollars.
        Faults: If several things are wrong with it.
    """
    value = mapping_of(entry)
    errors: list[EvalframeError] = list(unknown_in_price(entry, PRICE_KEYS))
    missing = [key for key in ("input_usd", "output_usd") if value.get(key) is None]
    if missing:
        errors.append(
            BadEntry(f"{about(entry)} has no {' and no '.join(missing)} (it has: {', '.join(map(str, value))}).", do=how_to_write("models"))
        )
    errors += [
        BadEntry(
            f"{entry.place_at(key)}: {key} of {named(entry)} is {shown(value[key])}, which is no price.",
            do="Write US dollars per million tokens as a plain number, such as 0.15; 0 for what is free.",
        )
        for key in DOLLARS
        if value.get(key) is not None and not is_amount(value[key])
    ]
    when = value.get("date", "")
    if not is_day(when):
        errors.append(BadEntry(f"{entry.place_at('date')}: {named(entry)} has the date {shown(when)}.", do="Write it as in 2026-11-05."))
    raise_all(errors)
    cached = value.get("cached_usd")
    return Price(
        input_usd=float(value["input_usd"]),
        output_usd=float(value["output_usd"]),
        cached_usd=None if cached is None else float(cached),
        source=str(value.get("source") or ""),
        date=str(when),
    )


def check_price_alias(entry: Entry) -> None:
    """
    Refuse an alias of a model that also names a price, which would not count.

    Raises:
        BadEntry: If it does.
        Faults: If there are several such keys.
    """
    if isinstance(entry.value, dict):
        raise_all(unknown_in_price(entry, ALIAS_KEYS))


def unknown_in_price(entry: Entry, known: frozenset[str]) -> Iterator[BadEntry]:
    """An error for each key that is not among `known`: a misspelt one would change the bill."""
    for key in entry.value:
        if key not in known:
            near = closest(str(key), known)
            told = f"closest: {', '.join(near)}" if near else f"it takes: {', '.join(sorted(known))}"
            yield BadEntry(f'{entry.place_at(str(key))}: {named(entry)} takes no "{key}" ({told}).', do="Correct it, or leave it out.")


def is_amount(value: Any) -> bool:
    """Whether a value is a number of dollars for a million tokens."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_USD


def is_day(value: Any) -> bool:
    """Whether a value is a day, as YAML or ISO 8601 spell it, or nothing."""
    if isinstance(value, str):
        try:
            return value == "" or (len(value) == len("2026-11-05") and bool(date.fromisoformat(value)))
        except ValueError:
            return False
    return isinstance(value, date) and not isinstance(value, datetime)


def spellings(model: str) -> list[str]:
    """
    The names under which the price of a model may stand, the exact one first.

    Then without its provider (openai/gpt-4o), then without the date of its snapshot (gpt-4o-2024-08-06).
    """
    names = [model, *([model.partition("/")[2]] if "/" in model else [])]
    return list(dict.fromkeys(name for name in (*names, *(SNAPSHOT.sub("", name) for name in names)) if name))


def mapping_of(entry: Entry) -> dict[Any, Any]:
    """
    The entry's mapping.

    Raises:
        BadEntry: If it is something else.
    """
    value = entry.value
    if not isinstance(value, dict):
        raise BadEntry(f"{about(entry)} is {shown(value)}, not a mapping.", do=how_to_write(entry.kind))
    return value


def section(entry: Entry, key: str) -> dict[str, Any]:
    """
    A mapping inside an entry, such as its arguments; {} where there is none.

    Raises:
        BadEntry: If it is no mapping of names.
    """
    value = mapping_of(entry).get(key)
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise BadEntry(f'{entry.place_at(key)}: "{key}" of {KINDS[entry.kind]} "{entry.name}" is no mapping of names to values.')
    return dict(value)


def is_pattern(name: str) -> bool:
    """Whether `name` stands for several names."""
    return "*" in name


def matcher(pattern: str) -> Callable[[str], object]:
    """Whether a name matches a pattern, in which only `*` is special."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL).fullmatch


def expand(shelf: Shelf, patterns: Sequence[str], *, asked_by: Mapping[int, str] | None = None) -> list[Entry]:
    """
    The specs that names and patterns lead to, in the registry's order, each once.

    Args:
        shelf: The evals.
        patterns: Names, or patterns with `*`.
        asked_by: For the message, who asks for each, by its index.

    Raises:
        UnknownName: If a name is not there, or a pattern matches nothing.
        Faults: If that is so, or aliases are broken, for several of them.
    """
    errors: list[EvalframeError] = []
    wanted: dict[str, str] = {}
    for index, pattern in enumerate(patterns):
        asking = (asked_by or {}).get(index, "")
        try:
            wanted.update(dict.fromkeys(matching(shelf, pattern, asked_by=asking), asking))
        except EvalframeError as error:
            errors.append(error)
    found: dict[str, Entry] = {}
    for name in sorted(wanted, key=rank(shelf)):
        try:
            entry = follow(shelf, name, asked_by=wanted[name])
            found.setdefault(entry.name, entry)
        except EvalframeError as error:
            errors.append(error)
    raise_all(errors)
    return list(found.values())


def matching(shelf: Shelf, pattern: str, *, asked_by: str = "") -> list[str]:
    """
    The names that a pattern matches; a name matches itself.

    Raises:
        UnknownName: If there are none.
    """
    if not is_pattern(pattern):
        return [find(shelf, pattern, asked_by=asked_by).name]
    names = list(filter(matcher(pattern), shelf.entries))
    if not names:
        asking = f", asked for by {asked_by}" if asked_by else ""
        raise UnknownName(
            f'no {KINDS[shelf.kind]} matches the pattern "{pattern}"{asking}.{hints(shelf, pattern.replace("*", ""))}',
            do=f"All: evalframe list {shelf.kind}",
        )
    return names


def rank(shelf: Shelf) -> Callable[[str], int]:
    """The position of a name in the registry's order."""
    order = {name: position for position, name in enumerate(shelf.entries)}
    return order.__getitem__


def raise_all(errors: Iterable[EvalframeError]) -> None:
    """Raise what there is: nothing, one error, or several in one."""
    different = list({str(error): error for error in errors}.values())
    if len(different) == 1:
        raise different[0]
    if different:
        raise Faults(different)


def unknown_keys(entry: Entry) -> list[str]:
    """Keys of a mapping that nobody reads."""
    value = entry.value
    if not isinstance(value, dict) or entry.kind in ("modelgraded", "models"):  # those of a model are refused, not only told
        return []
    if entry.kind == "eval_sets":
        known: frozenset[str] = frozenset({"id", "evals", "description", "override"})
    else:
        known = (SPEC_KEYS | BASE_KEYS) if entry.kind == "evals" else (SPEC_KEYS | {"id", "description"})
    return [str(key) for key in value if key not in known]


def about(entry: Entry) -> str:
    """An entry, as messages begin."""
    return f"{entry.place}: {named(entry)}"


def named(entry: Entry) -> str:
    """An entry by its kind and name."""
    return f'{KINDS[entry.kind]} "{entry.name}"'


def shown(value: Any) -> str:
    """A YAML value in a few words."""
    if value is None:
        return "empty"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    return f"{value!r}"


def how_to_write(kind: str) -> str:
    """How an entry of a kind is written."""
    if kind == "eval_sets":
        return "Write {evals: [name, other.*]}."
    if kind == "modelgraded":
        return "Write {prompt: ..., choice_strings: [...]}."
    if kind == "models":
        return "Write a name, {id: name}, or {input_usd: 0.15, output_usd: 0.6} in US dollars per million tokens."
    return "Write a name, {id: name}, or {class: module:Class, args: {...}}."
