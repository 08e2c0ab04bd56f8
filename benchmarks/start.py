"""
How long it takes to start: medians of ten, in milliseconds, and as ratios to an interpreter that does nothing.

Run it with the interpreter that evalframe is installed for: `python benchmarks/start.py`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 10
OAIEVAL = str(Path(sys.executable).parent / "oaieval")
COMMANDS = {
    "python, doing nothing": [sys.executable, "-c", "pass"],
    "import evalframe": [sys.executable, "-c", "import evalframe"],
    "oaieval --help": [OAIEVAL, "--help"],
    "one finished sample (echo)": [OAIEVAL, "echo", "first-steps", "--max_samples", "1"],
}


def median_ms(command: list[str], folder: str) -> float:
    """The median wall-clock time of a command."""
    times = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times[1:])  # the first run warms the caches


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        figures = {name: median_ms(command, folder) for name, command in COMMANDS.items()}
    bare = figures["python, doing nothing"]
    for name, figure in figures.items():
        print(f"{name:28} {figure:6.0f} ms  {figure / bare:5.1f} x")


if __name__ == "__main__":
    main()
