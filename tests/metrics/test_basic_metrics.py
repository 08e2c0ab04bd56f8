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
    mean_interval,
    proportion_error,
    standard_error,
    t_quantile,
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


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 10, 29, 100, 101, 500, 100_000])
@pytest.mark.parametrize("probability", [0.5, 0.75, 0.95, 0.975, 0.9995])
def test_a_quantile_of_t_is_scipys(freedom, probability):
    assert t_quantile(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("scores", [[0.0, 1.0], [0.25, 0.5, 1.0, 0.0], list(numpy.random.default_rng(2).random(300))])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_of_a_mean_is_scipys(scores, level):
    wanted = stats.t.interval(level, len(scores) - 1, loc=numpy.mean(scores), scale=stats.sem(scores))
    running = RunningMean()
    for score in scores:
        running.add(score)
    assert mean_interval(scores, level=level) == pytest.approx(wanted)
    assert running.interval(level) == pytest.approx(wanted)


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
    assert mean_interval([1.0]) is None
    assert RunningMean().interval() is None
    assert wilson_interval(0, 0) is None
    assert half_sample_std(1, 1) is None
    assert RunningMean().mean is None
    assert accuracy_report([]) == {"accuracy": None, "boostrap_std": None, "accuracy_stderr": None, "accuracy_ci95": None, "n": 0}


def test_a_report_reads_its_verdicts_once():
    report = accuracy_report(iter([True, False, True, True]))
    assert (report["accuracy"], report["n"]) == (0.75, 4)
    assert report["accuracy_stderr"] == pytest.approx(math.sqrt(0.75 * 0.25 / 3))
    assert report["accuracy_ci95"][0] < 0.75 < report["accuracy_ci95"][1]
