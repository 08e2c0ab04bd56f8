"""
Where the commands begin: whatever is still being loaded when someone presses Ctrl-C, it ends in a word, not in a traceback.
"""

from __future__ import annotations

import sys
from importlib import import_module

INTERRUPTED = 130


def begun(module: str) -> int:
    """Load a command's module and run it."""
    try:
        code: int = import_module(module).main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return code


def oaieval() -> int:
    """`oaieval`."""
    return begun("evalframe.cli.oaieval")


def oaievalset() -> int:
    """`oaievalset`."""
    return begun("evalframe.cli.oaievalset")


def evalframe() -> int:
    """`evalframe`."""
    return begun("evalframe.cli.main")
