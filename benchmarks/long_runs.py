"""
Long runs: what a sample costs when there are many, how much memory they need, and how soon a run that is taken up again asks its first
new question.

    python benchmarks/long_runs.py [SAMPLES]      100,000 if not given; a million takes some ten minutes

Run it with the interpreter that evalframe is installed for. Times of one run compare with each other only.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FEW = 1_000
OAIEVAL = str(Path(sys.executable).parent / "oaieval")
FIRST = '''
import os, time
import evalframe


class First:
    """Says back what it is asked, and keeps when it was asked first."""

    def __init__(self):
        self.is_asked = False

    def __call__(self, prompt, **options):
        if not self.is_asked:
            self.is_asked = True
            with open(os.environ["FIRST"], "w", encoding="utf-8") as file:
                file.write(repr(time.time()))
        evalframe.record_sampling(prompt, prompt, model="first")
        return evalframe.Completion([prompt])
'''


def lay_out(folder: Path, samples: int) -> None:
    """A registry with one eval of so many samples."""
    for name in ("evals", "completion_fns", "data"):
        (folder / "R" / name).mkdir(parents=True)
    spec = {"class": "evalframe.evals.basic:Match", "args": {"samples_jsonl": "many.jsonl"}}
    (folder / "R" / "evals" / "many.yaml").write_text(json.dumps({"many": {"id": "many.dev.v0"}, "many.dev.v0": spec}), encoding="utf-8")
    (folder / "R" / "completion_fns" / "first.yaml").write_text("first: {class: 'first:First'}\n", encoding="utf-8")
    (folder / "R" / "first.py").write_text(FIRST, encoding="utf-8")
    with (folder / "R" / "data" / "many.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"input": f"Say {number}", "ideal": f"Say {number}"}) + "\n" for number in range(samples))


def run(folder: Path, *more: str) -> tuple[float, float, float]:
    """Seconds in all, seconds until the first question, and the peak of memory in MB of a run."""
    first = folder / "first.txt"
    first.unlink(missing_ok=True)
    command = [OAIEVAL, "first", "many", "--registry_path", "R", "--threads", "4", *more]
    began = time.time()
    with subprocess.Popen(command, cwd=folder, env={"FIRST": str(first)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os_wait(process)
    assert status == 0, f"{' '.join(command)} ended with {status}"
    ended = time.time()
    return ended - began, float(first.read_text(encoding="utf-8")) - began, used.ru_maxrss / 1024


def os_wait(process: subprocess.Popen[bytes]) -> tuple[int, int, resource.struct_rusage]:
    """Wait for a process, and learn what it used."""
    import os

    pid, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return pid, process.returncode, used


def main() -> None:
    """Print the table."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder, samples)
        few_s, few_first_s, few_mb = run(folder, "--record_path", "few.jsonl", "--max_samples", str(FEW))
        half_s, _, _ = run(folder, "--record_path", "half.jsonl", "--max_samples", str(samples // 2))
        rest_s, rest_first_s, rest_mb = run(folder, "--resume", "half.jsonl", "--max_samples", str(samples))
        many_s, many_first_s, many_mb = run(folder, "--record_path", "many.jsonl")
    for name, number, seconds, first_s, megabytes in (
        (f"{samples:,} samples", samples, many_s, many_first_s, many_mb),
        (f"the first {FEW:,}", FEW, few_s, few_first_s, few_mb),
        ("the half, resumed", samples // 2, rest_s, rest_first_s, rest_mb),
    ):
        each_us = 1e6 * seconds / number
        print(f"{name:20} {seconds:8.1f} s  {each_us:6.0f} us a sample  {megabytes:4.0f} MB  first asked after {first_s:5.2f} s")
    print(f"memory of many to few: {many_mb / few_mb:.2f} x; both halves to the whole: {(half_s + rest_s) / many_s:.2f} x;", end=" ")
    print(f"first question of the resumed half to that of a new run: {rest_first_s / many_first_s:.2f} x")


if __name__ == "__main__":
    main()
