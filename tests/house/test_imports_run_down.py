"""The house of the design stands in the code: who may import whom, and what each package's front hands on."""

import ast
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "evalframe"

FREE = {"core"}
MAY_IMPORT = {
    "core": set(),
    "storage": set(),
    "registry": set(),
    "resilience": set(),
    "metrics": set(),
    "executors": set(),
    "sandboxes": set(),
    "solvers": set(),
    "graders": set(),
    "datasets": {"storage"},
    "logs": {"storage"},
    "completion_fns": {"storage", "resilience"},
    "recorders": {"storage", "resilience"},
    "loop": {"executors", "resilience"},
    "eval": {"datasets", "loop"},
    "analysis": {"logs", "metrics"},
    "evals": {"eval", "graders", "solvers", "metrics"},
    "runs": {"registry", "eval", "loop", "logs", "recorders"},
    "reports": {"logs", "analysis"},
    "importers": {"storage", "registry"},
    "testing": {"eval", "completion_fns", "recorders", "registry"},
    "viewer": {"logs", "analysis", "reports"},
    "compat": {"eval", "evals", "runs", "solvers", "graders", "completion_fns", "recorders", "registry", "metrics", "datasets"},
    "cli": {"runs", "registry", "logs", "analysis", "reports", "viewer", "importers", "compat"},
}
LIBRARIES = {"yaml", "pydantic", "jsonlines", "tqdm", "requests", "urllib3"}
"""What the base install brings; anything else is optional and imported inside the part that needs it."""

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path):
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield node.module, node


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_down_the_floors(path):
    room = room_of(path)
    allowed = FREE | {room} | MAY_IMPORT[room]
    for name, node in imports(path):
        parts = name.split(".")
        if parts[0] == "evalframe":
            assert len(parts) > 1, f"{path}:{node.lineno} imports from the front door"
            assert parts[1] in allowed, f"{path}:{node.lineno}: {room} may not import {parts[1]}"


def top_level_imports(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_base_libraries_are_imported_at_the_top(path):
    import sys

    known = sys.stdlib_module_names | LIBRARIES | {"evalframe"}
    assert {name.split(".")[0] for name in top_level_imports(path)} <= known


def test_core_stands_on_the_standard_library_and_pydantic():
    import sys

    for path in (PACKAGE / "core").rglob("*.py"):
        found = {name.split(".")[0] for name, _ in imports(path)}
        assert found <= sys.stdlib_module_names | {"evalframe", "pydantic"}, path


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("__init__.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_front_only_hands_names_on(path):
    if path == PACKAGE / "__init__.py":
        return  # the face, which has a test of its own
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        is_doc = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_all = isinstance(node, ast.Assign) and [target.id for target in node.targets] == ["__all__"]
        assert is_doc or is_all or isinstance(node, ast.Import | ast.ImportFrom), f"{path}:{node.lineno} defines something"


def test_the_face_is_what_all_says():
    evalframe = importlib.import_module("evalframe")
    assert evalframe.__all__ == sorted(evalframe.__all__)
    assert sorted(name for names in evalframe.ROOMS.values() for name in names) == evalframe.__all__
    for name in evalframe.__all__:
        assert getattr(evalframe, name).__module__.startswith("evalframe.")


def test_every_module_has_a_head_and_no_function_is_long():
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert path.name == "__init__.py" or ast.get_docstring(tree), path
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 70, f"{path}:{node.lineno} {node.name}"
