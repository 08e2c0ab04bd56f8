"""
`evalframe validate`: every fault of a registry and its data, without asking a model.
"""

from __future__ import annotations

import argparse
import json

from evalframe.cli.options import counted, say
from evalframe.core.errors import EvalframeError, described, flatten
from evalframe.core.specs import EvalSpec
from evalframe.registry.registry import Registry
from evalframe.registry.validate import validate
from evalframe.reports.console import harmless
from evalframe.runs.config import RunConfig
from evalframe.runs.prepare import full_name

HELP = "Check entries, classes, arguments and every row of data, and tell all faults at once. Exit code 2 if there are any."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's own arguments."""
    parser.add_argument("names", nargs="*", help="evals, or patterns with *; all evals and all other entries if left out")


def run(arguments: argparse.Namespace) -> int:
    """Print every fault."""
    registry = Registry()
    registry.add_registry_paths(arguments.registry_path or [])
    faults: list[EvalframeError] = [] if arguments.names else validate(registry)
    specs = registry.get_evals(arguments.names) if arguments.names else usable(registry)
    rows = 0
    for spec in specs:
        found, read = check_eval(registry, spec)
        faults += [fault for fault in found if str(fault) not in [str(other) for other in faults]]
        rows += read
    if arguments.json:
        print(json.dumps([{"kind": fault.kind, "error": type(fault).__name__, "message": str(fault)} for fault in faults], indent=2))
    else:
        for fault in faults:
            print(harmless(described(fault)))
    for warning in registry.warnings:
        if str(warning) not in [str(fault) for fault in faults]:
            say(f"warning: {warning}")
    say(f"{counted(len(specs), 'eval')} with {counted(rows, 'row')} checked, {counted(len(faults), 'fault')} found")
    return 2 if faults else 0


def usable(registry: Registry) -> list[EvalSpec]:
    """Every eval that a name leads to; those that none can be made of are told by the registry's own checks."""
    specs: dict[str, EvalSpec] = {}
    for name in registry.names("evals"):
        try:
            spec = registry.get_eval(name)
        except EvalframeError:
            continue
        specs.setdefault(spec.key, spec)
    return list(specs.values())


def check_eval(registry: Registry, spec: EvalSpec) -> tuple[list[EvalframeError], int]:
    """The faults of one eval, and how many rows were read."""
    try:
        RunConfig.resolve({}, {}, spec.run)
        built = registry.make_eval(spec, [registry.make_completion_fn("echo")], seed=0, name=full_name(spec.key))
        built.check()
    except EvalframeError as error:
        return list(flatten(error)), 0
    return [], sum(facts["rows"] for facts in built.data_facts(lambda rows: {"rows": len(rows)}))
