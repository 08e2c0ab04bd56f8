"""
`evalframe list`: what can be run, and what models cost.
"""

from __future__ import annotations

import argparse
import json

from evalframe.cli.options import say
from evalframe.core.errors import EvalframeError
from evalframe.registry.load import KINDS
from evalframe.registry.registry import Registry
from evalframe.registry.resolve import alias_of, price_at
from evalframe.reports.console import table

HELP = "List what can be run: evals, eval sets, completion functions, solvers, model-graded specs; and the models whose price is known."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's own arguments."""
    parser.add_argument("kind", nargs="?", default="evals", choices=tuple(KINDS), help="what to list (default: evals)")
    parser.add_argument("--versions", action="store_true", help="List each version of an eval beside its base name.")


def run(arguments: argparse.Namespace) -> int:
    """Print the names of a kind, each with what it is."""
    registry = Registry()
    registry.add_registry_paths(arguments.registry_path or [])
    found = [
        row
        for row in (describe(registry, arguments.kind, name) for name in registry.names(arguments.kind))
        if arguments.versions or row["base"]
    ]
    if arguments.json:
        print(json.dumps([{key: value for key, value in row.items() if key != "base"} for row in found], indent=2))
    elif found:
        print(table([("name", "stands for", "what it is"), *((row["name"], row["stands_for"], row["description"]) for row in found)]))
    for warning in registry.warnings:
        say(f"warning: {warning}")
    return 0


def describe(registry: Registry, kind: str, name: str) -> dict[str, str]:
    """A name, what it leads to, one sentence on it, and whether it is a base name: one without a version."""
    entry = registry.shelf(kind).entries[name]
    row = {"name": name, "stands_for": "", "description": "", "base": "" if kind == "evals" and "." in name else "yes"}
    try:
        value = entry.value
        if kind == "evals":
            base = registry.get_base_eval(name)
            row["description"] = base.description if base and base.description else ""
            row["stands_for"] = (base.id if base and base.id else "") or str(value.get("class", "") if isinstance(value, dict) else "")
        elif kind == "models":
            row["stands_for"] = alias_of(entry) or ""
            row["description"] = str(price_at(registry.shelf(kind), name))
        elif isinstance(value, str):
            row["stands_for"] = value
        elif isinstance(value, dict):
            row["stands_for"] = str(value.get("id") or value.get("class") or "")
            if kind == "eval_sets":
                row["description"] = f"{len(registry.evals_of_set(name))} evals"
    except EvalframeError as error:
        row["description"] = f"cannot be used: {error}"
    return row
