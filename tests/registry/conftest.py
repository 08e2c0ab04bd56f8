import sys
import textwrap

import pytest

from evalframe.registry.registry import Registry


@pytest.fixture
def write(tmp_path):
    """Write files below the test's own folder: {"R/evals/a.yaml": "..."}."""

    def write_all(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode("utf-8"))
        return tmp_path

    return write_all


@pytest.fixture
def registry(write):
    """A registry made of files; the folders R, R2, ... that they lie in are read in this order."""

    def make(files, *, kind="evals"):
        files = {name if "/" in name else f"R/{kind}/{name}": text for name, text in files.items()}
        folder = write(files)
        roots = sorted({name.split("/")[0] for name in files if name.startswith("R")})
        return Registry([folder / root for root in roots])

    return make


@pytest.fixture(autouse=True)
def _own_imports(monkeypatch):
    """What a test makes importable is gone after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]
