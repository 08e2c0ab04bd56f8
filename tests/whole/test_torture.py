"""
A run that is killed and taken up again, until it is complete, is the run that nobody disturbed.

Three seeds with the slow tests; fifty with `pytest -m torture -s`, which prints what they went through.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import pytest
from torture import Torture

AT_ONCE = 3


def torture(seeds, folder):
    """What each seed's run went through, as a table, and what did not hold."""
    began, failures = time.monotonic(), {}

    def one(seed):
        run = Torture(seed, folder / str(seed))
        try:
            run.run()
        except Exception as failure:  # noqa: BLE001 - told at the end, beside those of the other seeds
            failures[seed] = f"{type(failure).__name__}: {failure}"
        return run.summary()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        table = list(pool.map(one, seeds))
    print("", *table, sep="\n")
    for what in ("kills", "of them -9", "resumes", "turned away", "torn", "requests a sample", "undisturbed"):
        numbers = [row[what] for row in table]
        print(f"{what:17}  min {min(numbers):5.2f}  median {median(numbers):5.2f}  max {max(numbers):5.2f}  sum {sum(numbers):7.2f}")
    print(f"{len(table)} runs, {time.monotonic() - began:.0f} s", *(f"{seed}: {failures[seed]}" for seed in sorted(failures)), sep="\n")
    return failures


@pytest.mark.slow
def test_runs_that_are_killed_again_and_again_are_the_runs_nobody_disturbed(tmp_path):
    assert torture([101, 102, 103], tmp_path) == {}


@pytest.mark.torture
def test_fifty_runs_that_are_killed_again_and_again_are_the_runs_nobody_disturbed(tmp_path):
    assert torture(range(50), tmp_path) == {}
