"""Importing touches nothing: no file, no socket, no thread, no environment, no root logger, no key needed."""

import subprocess
import sys
from pathlib import Path

import pytest

AT_THE_FIRST_CALL = {"evalframe.completion_fns.transport", "evalframe.completion_fns.aio_transport"}
"""Stands on urllib3, which opens and closes a socket when it is imported, to see whether the machine knows IPv6."""

MODULES = sorted(
    ".".join(("evalframe", *path.relative_to(Path(__file__).parents[2] / "evalframe").with_suffix("").parts))
    for path in (Path(__file__).parents[2] / "evalframe").rglob("*.py")
    if path.name != "__init__.py"
)

PROBE = """
import logging, os, sys, threading
before = (dict(os.environ), list(logging.root.handlers), logging.root.level, threading.active_count())
touched = []
def hook(event, arguments):
    if event in ("socket.__new__", "socket.connect", "os.mkdir", "subprocess.Popen", "os.remove", "os.rename", "shutil.copyfile"):
        touched.append((event, arguments))
    if event == "open" and isinstance(arguments[1], str) and any(letter in arguments[1] for letter in "wax+"):
        touched.append((event, arguments))
sys.addaudithook(hook)
sys.dont_write_bytecode = True
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
assert not touched, touched
assert before == (dict(os.environ), list(logging.root.handlers), logging.root.level, threading.active_count())
"""


@pytest.mark.parametrize(
    "modules", [["evalframe"], [name for name in MODULES if name not in AT_THE_FIRST_CALL]], ids=["the face", "every module"]
)
def test_importing_touches_nothing(modules):
    done = subprocess.run([sys.executable, "-c", PROBE, *modules], capture_output=True, encoding="utf-8", env={"HOME": "/nonexistent"})
    assert done.returncode == 0, done.stderr


def test_the_face_loads_no_library():
    code = "import evalframe, sys; print(sorted({'yaml', 'pydantic', 'requests', 'urllib3', 'tqdm', 'jsonlines', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.stdout.strip() == "[]", done.stderr
