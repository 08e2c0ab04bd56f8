"""
`evalframe show NAME`: what a name stands for.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from evalframe.core.errors import EvalframeError, UnknownName, closest
from evalframe.core.secrets import Secrets
from evalframe.core.specs import EvalSpec
from evalframe.registry.load import KINDS, Entry
from evalframe.registry.registry import Registry
from evalframe.registry.resolve import alias_of, follow, price_at
from evalframe.reports.console import harmless

HELP = "Show what a name stands for: its aliases, class, arguments, data and place; what a model costs."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's own arguments."""
    parser.add_argument("name", help="a name of any kind")


def run(arguments: argparse.Namespace) -> int:
    """Print every entry of the name."""
    registry = Registry()
    registry.add_registry_paths(arguments.registry_path or [])
    found = [facts(registry, kind, arguments.name) for kind in KINDS if arguments.name in registry.shelf(kind).entries]
    if not found:
        found = [provider_facts(registry, arguments.name)]
    if arguments.json:
        print(json.dumps(found, indent=2, default=str))
    else:
        print("\n\n".join(harmless(shown(item)) for item in found))
    return 0


def facts(registry: Registry, kind: str, name: str) -> dict[str, Any]:
    """Everything that is known of one entry."""
    entries = chain(registry, kind, name)
    entry = entries[-1]
    told: dict[str, Any] = {"name": name, "kind": KINDS[kind], "place": str(entries[0].place)}
    if len(entries) > 1:
        told["stands for"] = " -> ".join(item.name for item in entries)
        told["defined in"] = str(entry.place)
    if kind == "evals":
        base = registry.get_base_eval(name) or registry.get_base_eval(name.split(".")[0])
        if base:
            told.update({"description": base.description, "metrics": base.metrics, "disclaimer": base.disclaimer})
        told.update(eval_facts(registry, registry.get_eval(name)))
    elif kind == "eval_sets":
        told["evals"] = [spec.key for spec in registry.evals_of_set(name)]
    elif kind == "models":
        price = price_at(registry.shelf(kind), name)
        told.update({"price": str(price), **asdict(price), "description": entry.value.get("description")})
    else:
        told.update(Secrets().mask_arguments(entry.value) if isinstance(entry.value, dict) else {})
    return {key: value for key, value in told.items() if value not in (None, "", [], {})}


def chain(registry: Registry, kind: str, name: str) -> list[Entry]:
    """The entries from a name to what it stands for at last."""
    shelf = registry.shelf(kind)
    follow(shelf, name)  # raises where the chain loops or breaks
    entries = [shelf.entries[name]]
    while (alias := alias_of(entries[-1])) is not None:
        entries.append(shelf.entries[alias])
    return entries


def eval_facts(registry: Registry, spec: EvalSpec) -> dict[str, Any]:
    """The class of an eval, what the class is, its arguments, and where its data lies."""
    told: dict[str, Any] = {"class": spec.cls, "args": Secrets().mask_arguments(spec.args), "run": spec.run}
    try:
        doc = (registry.get_class(spec).__doc__ or "").strip().splitlines()
        told["rule"] = doc[0] if doc else ""
    except EvalframeError as error:
        told["class"] = f"{spec.cls} ({error})"
    for key, value in spec.args.items():
        if isinstance(value, str) and key.endswith(("_jsonl", "_path", "_csv")):
            try:
                told[f"{key} is"] = str(registry.find_data(value, spec.registry_path, place=spec.place))
            except EvalframeError as error:
                told[f"{key} is"] = f"missing: {error}"
    return told


def provider_facts(registry: Registry, name: str) -> dict[str, Any]:
    """What a model's name would be built from, where no entry has that name."""
    provider = name.split("/")[0] + "/"
    if "/" not in name or provider not in registry.names("completion_fns"):
        everything = [other for kind in KINDS for other in registry.names(kind)]
        near = closest(name, everything)
        raise UnknownName(
            f'nothing is called "{name}".' + (f" Closest: {', '.join(near)}." if near else ""),
            do="All: evalframe list evals, evalframe list eval_sets, evalframe list completion_fns",
        )
    spec = registry.resolve_completion_fn(name)
    return {
        "name": name,
        "kind": "model of a provider",
        "place": str(spec.place),
        "class": spec.cls,
        "args": Secrets().mask_arguments(spec.args),
        "price": str(registry.price_of(name) or "not known"),
    }


def shown(item: dict[str, Any]) -> str:
    """Facts, one a line."""
    width = max(len(key) for key in item)
    return "\n".join(
        f"{key:{width}}  {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)}"
        for key, value in item.items()
    )
