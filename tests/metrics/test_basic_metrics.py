import itertools
import math
import random

import numpy
import pytest
from scipy import stats

from evalframe.metrics.basic import (
    RunningMean,
    accuracy_report,
    half_sample_std,
    mean,
    proportion_error,
    standard_error,
    wilson_interval,
)


@pytest.mark.parametrize("scores", [[0.0, 1.0], [0.25, 0.5, 1.0, 0.0], [1.0] * 7, list(numpy.random.default_rng(1).random(50))])
def test_mean_and_error_are_scipys(scores):
    assert mean(scores) == pytest.approx(numpy.mean(scores))
    assert standard_error(scores) == pytest.approx(stats.sem(scores))
    running = RunningMean()
    for score in scores:
        running.add(score)
    assert (running.mean, running.standard_error, running.n) == (pytest.approx(mean(scores)), pytest.approx(stats.sem(scores)), len(scores))


@pytest.mark.parametrize(("successes", "n"), [(0, 5), (5, 5), (3, 10), (1, 2), (567, 1000)])
def test_a_proportion_is_scipys(successes, n):
    scores = [1.0] * successes + [0.0] * (n - successes)
    assert proportion_error(successes, n) == pytest.approx(stats.sem(scores))
    interval = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert wilson_interval(successes, n) == pytest.approx((interval.low, interval.high))
    narrower = stats.binomtest(successes, n).proportion_ci(0.8, method="wilson")
    assert wilson_interval(successes, n, level=0.8) == pytest.approx((narrower.low, narrower.high))


@pytest.mark.parametrize(("successes", "n"), [(1, 4), (3, 7), (5, 8), (2, 2)])
def test_the_moulds_error_is_the_spread_over_all_halves(successes, n):
    scores = [1] * successes + [0] * (n - successes)
    means = [sum(half) / (n // 2) for half in itertools.combinations(scores, n // 2)]
    assert half_sample_std(successes, n) == pytest.approx(numpy.std(means))


def test_the_moulds_error_is_what_many_draws_come_to():
    draw, scores = random.Random(5), [1] * 30 + [0] * 70
    means = [sum(draw.sample(scores, 50)) / 50 for _ in range(4000)]
    assert half_sample_std(30, 100) == pytest.approx(numpy.std(means), rel=0.05)


def test_of_nothing_there_is_no_number():
    assert mean([]) is None
    assert standard_error([1.0]) is None
    assert wilson_interval(0, 0) is None
    assert half_sample_std(1, 1) is None
    assert RunningMean().mean is None
    assert accuracy_report([]) == {"accuracy": None, "boostrap_std": None, "accuracy_stderr": None, "accuracy_ci95": None, "n": 0}


def test_a_report_reads_its_verdicts_once():
    report = accuracy_report(iter([True, False, True, True]))
    assert (report["accuracy"], report["n"]) == (0.75, 4)
    assert report["accuracy_stderr"] == pytest.approx(math.sqrt(0.75 * 0.25 / 3))
    assert report["accuracy_ci95"][0] < 0.75 < report["accuracy_ci95"][1]
