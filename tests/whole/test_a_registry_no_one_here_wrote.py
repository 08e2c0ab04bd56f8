"""
The registry and data of openai/evals 3.0.1, read as they are published; only the class names of the five stock evals are exchanged for ours.

The wheel comes from the package index, without its dependencies; nothing of it is kept in this repository.
"""

import os
import re
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from evalframe import run_eval
from evalframe.core.errors import EvalframeError
from evalframe.registry.registry import Registry

WHEEL = "evals==3.0.1.post1"
OURS = {
    "evals.elsuite.basic.match:Match": "evalframe.evals.basic:Match",
    "evals.elsuite.basic.includes:Includes": "evalframe.evals.basic:Includes",
    "evals.elsuite.basic.fuzzy_match:FuzzyMatch": "evalframe.evals.basic:FuzzyMatch",
    "evals.elsuite.basic.json_match:JsonMatch": "evalframe.evals.basic:JsonMatch",
    "evals.elsuite.basic.json_validator:JsonValidator": "evalframe.evals.basic:JsonValidator",
}
NO_DATA_IN_THE_WHEEL = {"stock-options-iron-butteryfly-spread.dev.v0", "stock-option-terms-inverse-iron-butteryfly-spread.dev.v0"}
"""Published without their samples."""

pytestmark = [pytest.mark.slow, pytest.mark.wheel]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The registry of the wheel, with our class names in its YAML and its data as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith("evals/registry/")])
    registry = folder / "evals" / "registry"
    for path in (registry / "evals").rglob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub("|".join(map(re.escape, OURS)), lambda found: OURS[found.group()], text), encoding="utf-8")
    return registry


def test_every_stock_eval_of_the_published_registry_runs(published, tmp_path):
    registry = Registry()
    registry.add_registry_paths([published])
    specs = {
        spec.key: spec for spec in map(registry.get_eval, named(registry)) if spec.cls in OURS.values() and published == spec.registry_path
    }
    assert len(specs) == 504
    outcomes, told, began = Counter(), [], time.perf_counter()
    for spec in specs.values():
        try:
            result = run_eval("echo", spec, registry=registry, max_samples=20, log_dir=str(tmp_path))
        except EvalframeError as error:
            outcomes[type(error).__name__] += 1
            told.append((spec.key, str(error)))
            continue
        outcomes[result.status] += 1
        if result.status != "success":
            told.append((spec.key, result.reason))
    took = time.perf_counter() - began
    print(f"\n{len(specs)} evals in {took:.1f} s: {dict(outcomes)}", *told, sep="\n")
    assert {name for name, _ in told} == NO_DATA_IN_THE_WHEEL
    assert outcomes == {"success": 502, "MissingData": 2}


def named(registry):
    for entry in registry.entries("evals"):
        try:
            registry.get_eval(entry.name)
        except EvalframeError:
            continue
        yield entry.name


def test_the_command_line_takes_the_published_registry(published, tmp_path):
    command = [Path(sys.executable).parent / "oaieval", "echo", "infiniteloop-match", "--registry_path", published, "--max_samples", "5"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "EVALFRAME_LOG_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "5 in all, 5 completed" in done.stdout


def test_every_published_name_is_listed(published, tmp_path):

    command = [Path(sys.executable).parent / "evalframe", "list", "evals", "--versions", "--registry_path", published]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 1550
