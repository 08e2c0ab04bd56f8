import itertools
import math
import random
import statistics
import tracemalloc
from fractions import Fraction

import numpy
import pytest
from scipy import special, stats

from evalframe.core.errors import MetricError
from evalframe.core.reducer import Reducer
from evalframe.metrics.basic import accuracy_report, half_sample_std, wilson_interval
from evalframe.metrics.repeats import RepeatedScores, half_sample_error, interval, reduced

VERDICTS = [list(verdicts) for n in range(1, 7) for verdicts in itertools.product([0.0, 1.0], repeat=n)]
PARTIAL = [
    [0.5],
    [0.25, 0.5, 1.0],
    [0.0, 0.0, 0.3, 0.3, 0.9],
    [0.1] * 7,
    [1.0, 0.999999],
    *(list(numpy.random.default_rng(n).random(n)) for n in (2, 5, 8)),
]


def share_of_draws(scores, k, of):
    """Over all ways to draw k of the scores without replacement, the share of those for which `of(drawn)` is true."""
    draws = list(itertools.combinations(scores, k))
    return Fraction(sum(bool(of(drawn)) for drawn in draws), len(draws))


def is_right(score):
    return score >= 1


# ---------------------------------------------------------------------- reducers against brute force


@pytest.mark.parametrize("k", range(1, 7))
def test_pass_at_k_is_the_share_of_draws_with_one_right_at_least(k):
    for scores in VERDICTS + PARTIAL:
        wanted = float(share_of_draws(scores, k, lambda drawn: any(map(is_right, drawn)))) if len(scores) >= k else None
        assert reduced(Reducer("pass_at_k", k), scores) == wanted, scores


@pytest.mark.parametrize("k", range(1, 7))
def test_pass_k_is_the_share_of_draws_that_are_all_right(k):
    for scores in VERDICTS + PARTIAL:
        wanted = float(share_of_draws(scores, k, lambda drawn: all(map(is_right, drawn)))) if len(scores) >= k else None
        assert reduced(Reducer("pass_k", k), scores) == wanted, scores


@pytest.mark.parametrize("k", range(1, 7))
def test_at_least_k_counts_the_right_ones(k):
    for scores in VERDICTS + PARTIAL:
        wanted = (1.0 if len([score for score in scores if is_right(score)]) >= k else 0.0) if len(scores) >= k else None
        assert reduced(Reducer("at_least_k", k), scores) == wanted, scores


def test_the_plain_ones_are_numpys_and_scipys():
    for scores in VERDICTS + PARTIAL:
        assert reduced(Reducer("mean"), scores) == pytest.approx(numpy.mean(scores), rel=1e-15)
        assert reduced(Reducer("median"), scores) == numpy.median(scores)
        assert reduced(Reducer("max"), scores) == numpy.max(scores)
        assert reduced(Reducer("mode"), scores) == stats.mode(scores).mode  # scipy too takes the lowest of several


@pytest.mark.parametrize(("scores", "mode"), [
    ([0.0, 1.0], 0.0), ([1.0, 0.0], 0.0), ([1.0, 1.0, 0.0, 0.0], 0.0), ([0.5, 1.0, 0.5, 1.0, 0.0], 0.5), ([0.3, 0.2, 0.1], 0.1), ([1.0], 1.0),
    ([1.0, 1.0, 0.0], 1.0),
])  # fmt: skip
def test_a_tie_of_modes_gives_no_credit_in_whatever_order(scores, mode):
    for order in itertools.permutations(scores):
        assert reduced(Reducer("mode"), order) == mode


@pytest.mark.parametrize(
    "reducer", [Reducer("mean"), Reducer("median"), Reducer("mode"), Reducer("max"), Reducer("pass_k", 1), Reducer("pass_at_k", 1)]
)
def test_of_no_scores_there_is_none(reducer):
    assert reduced(reducer, []) is None


def test_reducers_that_must_agree_do():
    for scores in VERDICTS:
        n = len(scores)
        assert reduced(Reducer("pass_at_k", 1), scores) == reduced(Reducer("pass_k", 1), scores) == reduced(Reducer("mean"), scores)
        assert reduced(Reducer("pass_at_k", n), scores) == reduced(Reducer("at_least_k", 1), scores) == reduced(Reducer("max"), scores)
        assert reduced(Reducer("pass_k", n), scores) == reduced(Reducer("at_least_k", n), scores) == min(scores)
        for k in range(1, n):
            assert reduced(Reducer("pass_at_k", k), scores) <= reduced(Reducer("pass_at_k", k + 1), scores)
            assert reduced(Reducer("pass_k", k), scores) >= reduced(Reducer("pass_k", k + 1), scores)


@pytest.mark.parametrize(
    ("n", "right", "k"), [(200, 3, 100), (1000, 500, 10), (1000, 1, 1), (1000, 999, 999), (500, 0, 7), (500, 500, 7), (2000, 700, 1000)]
)
def test_many_epochs_are_no_trouble(n, right, k):
    """The oracle: the hypergeometric distribution of scipy, through logarithms of the gamma function."""
    scores = [1.0] * right + [0.0] * (n - right)
    at_k, all_k = reduced(Reducer("pass_at_k", k), scores), reduced(Reducer("pass_k", k), scores)
    drawn = stats.hypergeom(n, right, k)
    assert at_k == pytest.approx(1 - drawn.pmf(0), rel=1e-9, abs=1e-12)
    assert all_k == pytest.approx(drawn.pmf(k), rel=1e-9, abs=1e-300)
    assert 0 <= all_k <= at_k <= 1
    assert special.comb(n, k, exact=True) == math.comb(n, k)


# ---------------------------------------------------------------------- the table


def filled(rows):
    """Scores of samples (a list an epoch; None where there is none), put in in the order they come."""
    table = RepeatedScores(max(map(len, rows)))
    for number, row in enumerate(rows):
        for epoch, score in enumerate(row, 1):
            if score is not None:
                table.add(f"s.{number}", epoch, score)
    return table


REDUCERS = [
    Reducer("mean"),
    Reducer("median"),
    Reducer("mode"),
    Reducer("max"),
    Reducer("at_least_k", 2),
    Reducer("pass_at_k", 2),
    Reducer("pass_k", 2),
]


@pytest.mark.parametrize("seed", range(5))
def test_the_report_is_numpys_and_scipys(seed):
    scores = (numpy.random.default_rng(seed).random((12 + seed, 4)) < 0.5).astype(float)
    report = filled(scores.tolist()).accuracy_report(REDUCERS)
    means, n = scores.mean(axis=1), len(scores)
    assert report["accuracy"] == pytest.approx(scores.mean())
    assert report["accuracy_stderr"] == pytest.approx(stats.sem(means))
    assert report["accuracy_ci95"] == pytest.approx(stats.t.interval(0.95, n - 1, loc=means.mean(), scale=stats.sem(means)))
    assert (report["n"], report["epochs"]) == (n, 4)
    assert report["accuracy_by_epoch"] == pytest.approx(scores.mean(axis=0).tolist())
    assert report["accuracy_range"] == pytest.approx([scores.mean(axis=0).min(), scores.mean(axis=0).max()])
    for name, values in {
        "median": numpy.median(scores, axis=1), "max": scores.max(axis=1), "mode": stats.mode(scores, axis=1).mode,
        "at_least_2": (scores.sum(axis=1) >= 2).astype(float),
        "pass_at_2": 1 - special.comb(4 - scores.sum(axis=1), 2) / 6, "pass_2": special.comb(scores.sum(axis=1), 2) / 6,
    }.items():  # fmt: skip
        assert report[f"accuracy_{name}"] == pytest.approx(values.mean())
        assert report[f"accuracy_{name}_stderr"] == pytest.approx(stats.sem(values))
        assert report[f"accuracy_{name}_n"] == n
        low, high = report[f"accuracy_{name}_ci95"]
        assert 0 <= low <= values.mean() <= high <= 1
    assert not [name for name in report if name.startswith("accuracy_mean")]  # that is the accuracy itself


def test_with_a_deterministic_model_many_epochs_report_what_one_does():
    verdicts = [bool(number % 3) for number in range(20)]
    once = accuracy_report(verdicts)
    often = filled([[float(verdict)] * 8 for verdict in verdicts]).accuracy_report()
    assert {name: often[name] for name in once} == {
        name: pytest.approx(value, rel=1e-12) if isinstance(value, float | list) else value for name, value in once.items()
    }
    assert filled([[float(verdict)] for verdict in verdicts]).accuracy_report()["accuracy_stderr"] == pytest.approx(once["accuracy_stderr"])


def test_sums_do_not_depend_on_the_order_to_the_last_bit():
    draw = random.Random(11)
    scores = [(f"s.{number}", epoch, draw.random() * 10 ** draw.randint(-8, 8)) for number in range(40) for epoch in range(1, 6)]
    scores += [("s.3", 2, draw.random()), ("s.3", 2, draw.random()), ("s.7", 1, draw.random())]  # several answers to one call
    wanted = None
    for _ in range(30):
        table = RepeatedScores(5)
        for one in scores:
            table.add(*one)
        told = (repr(sorted(table.accuracy_report(REDUCERS).items())), repr(sorted(table.report("length").items())))
        wanted = wanted or told
        assert told == wanted
        draw.shuffle(scores)


def test_several_scores_of_one_epoch_are_summed_exactly_in_whatever_order():
    reports = set()
    for scores in itertools.permutations([0.1, 0.2, 0.3, 0.7, 1e-17]):  # plain sums of these differ in the last bit
        table = RepeatedScores(2)
        for score in scores:
            table.add("s.0", 1, score)
        reports.add(repr(table.accuracy_report(REDUCERS)))
    assert len({sum(scores) for scores in itertools.permutations([0.1, 0.2, 0.3, 0.7, 1e-17])}) > 1
    assert len(reports) == 1


@pytest.mark.parametrize(("samples", "epochs"), [(5, 2), (40, 3), (12, 8)])
def test_the_standard_error_is_the_one_clustered_by_sample(samples, epochs):
    """
    The oracle: the cluster-robust error of the intercept of a regression on nothing else.

    Its small-sample factor is G / (G - 1) * (N - 1) / (N - 1), of G clusters and N scores with one coefficient: that of the sample variance.
    """
    from statsmodels.api import OLS

    draw = numpy.random.default_rng(samples)
    scores = (draw.random((samples, epochs)) < draw.random((samples, 1))).astype(float)
    groups = numpy.repeat(numpy.arange(samples), epochs)
    fit = OLS(scores.ravel(), numpy.ones(scores.size)).fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": True})
    report = filled(scores.tolist()).accuracy_report()
    assert report["accuracy"] == pytest.approx(fit.params[0])
    assert report["accuracy_stderr"] == pytest.approx(fit.bse[0])
    assert report["accuracy_stderr"] > stats.sem(scores.ravel())  # what treating repeats as samples of their own would claim


@pytest.mark.parametrize("answers", [1, 4])
def test_a_score_takes_some_bytes_and_not_an_object(answers):
    names = [f"s.{number}" for number in range(4000)]
    tracemalloc.start()
    try:
        table = RepeatedScores(3)
        for epoch, name, _ in itertools.product((1, 2, 3), names, range(answers)):
            table.add(name, epoch, 0.5)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 24 * 3 * answers * len(names) + 200 * len(names)


def test_a_mean_is_of_samples_first_and_only_then_over_them():
    """One sample was answered in all four epochs, wrong; one in a single epoch, right: they weigh the same."""
    report = filled([[0.0, 0.0, 0.0, 0.0], [None, 1.0, None, None]]).accuracy_report()
    assert (report["accuracy"], report["n"]) == (0.5, 2)
    assert report["accuracy_by_epoch"] == [0.0, 0.5, 0.0, 0.0]


def test_several_scores_of_one_epoch_are_their_mean_and_count_once():
    table = RepeatedScores(2)
    for score in (1.0, 0.0, 1.0, 1.0):
        table.add("s.0", 1, score)
    table.add("s.0", 2, 0.0)
    report = table.accuracy_report([Reducer("pass_at_k", 2), Reducer("max")])
    assert (report["accuracy"], report["n"], report["accuracy_by_epoch"]) == (0.375, 1, [0.75, 0.0])
    assert (report["accuracy_pass_at_2"], report["accuracy_max"]) == (0.0, 0.75)


def test_a_reducer_rests_on_the_samples_that_have_enough_epochs_for_it():
    report = filled([[1.0, 0.0, 1.0], [1.0, None, None], [0.0, 1.0, None]]).accuracy_report(
        [Reducer("pass_k", 2), Reducer("pass_at_k", 3), Reducer("max")]
    )
    assert [report[f"accuracy_{name}_n"] for name in ("pass_2", "pass_at_3", "max")] == [2, 1, 3]
    assert report["accuracy_pass_2"] == pytest.approx((1 / 3 + 0) / 2)
    assert (report["accuracy_pass_at_3"], report["accuracy_pass_at_3_stderr"]) == (1.0, None)


def test_without_any_score_there_are_no_numbers():
    report = RepeatedScores(3).accuracy_report([Reducer("max")])
    assert report == {
        "accuracy": None, "boostrap_std": None, "accuracy_stderr": None, "accuracy_ci95": None, "n": 0, "epochs": 3,
        "accuracy_by_epoch": [None, None, None], "accuracy_range": None,
        "accuracy_max": None, "accuracy_max_stderr": None, "accuracy_max_ci95": None, "accuracy_max_n": 0,
    }  # fmt: skip


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_left_out(score):
    table = filled([[1.0, 0.0], [0.0, 0.0]])
    table.add("s.0", 2, score)
    table.add("s.9", 1, score)
    assert table.accuracy_report() == filled([[1.0, 0.0], [0.0, 0.0]]).accuracy_report()
    assert table.report("length")["length_n"] == 2


@pytest.mark.parametrize("epoch", [0, -1, 4])
def test_a_score_of_an_epoch_that_there_is_not_is_told(epoch):
    with pytest.raises(MetricError, match=f"of epoch {epoch}, and epochs is 3"):
        RepeatedScores(3).add("s.0", epoch, 1.0)


def test_another_number_has_no_range_of_its_own_and_its_interval_is_not_cut():
    values = numpy.array([[10.0, 30.0], [2.0, 4.0], [100.0, -50.0]])
    report = filled(values.tolist()).report("length")
    means = values.mean(axis=1)
    assert report == {
        "length": pytest.approx(means.mean()), "length_stderr": pytest.approx(stats.sem(means)), "length_n": 3,
        "length_ci95": pytest.approx(list(stats.t.interval(0.95, 2, loc=means.mean(), scale=stats.sem(means)))),
        "length_by_epoch": pytest.approx(values.mean(axis=0).tolist()),
    }  # fmt: skip
    assert "length_by_epoch" not in filled([[1.0], [2.0]]).report("length")


def test_an_accuracy_may_be_called_otherwise():
    report = filled([[1.0, 0.0], [1.0, 1.0]]).accuracy_report([Reducer("max")], prefix="choice")
    assert (report["choice"], report["choice_max"], report["choice_max_n"], report["n"]) == (0.75, 1.0, 2, 2)
    assert not [name for name in report if name.startswith("accuracy")]


# ---------------------------------------------------------------------- intervals


@pytest.mark.parametrize("successes", range(6))
def test_an_interval_of_verdicts_is_wilsons(successes):
    assert interval([1.0] * successes + [0.0] * (5 - successes)) == list(wilson_interval(successes, 5))
    low, high = stats.binomtest(successes, 5).proportion_ci(method="wilson")
    assert interval([1.0] * successes + [0.0] * (5 - successes)) == pytest.approx([low, high])


def test_an_interval_of_scores_between_is_students_cut_to_what_they_can_be():
    scores = [0.5, 0.75, 0.25, 0.5]
    assert interval(scores) == pytest.approx(list(stats.t.interval(0.95, 3, loc=0.5, scale=stats.sem(scores))))
    assert interval([0.5, 1.0]) == [0.0, 1.0]
    assert interval([0.5]) is None
    assert interval([]) is None


@pytest.mark.parametrize("n", range(2, 8))
def test_the_moulds_error_is_that_of_means_over_halves(n):
    """Brute force: the standard deviation of the mean over every half of the values."""
    values = list(numpy.random.default_rng(n).random(n))
    halves = [statistics.fmean(half) for half in itertools.combinations(values, n // 2)]
    assert half_sample_error(values) == pytest.approx(statistics.pstdev(halves))
    verdicts = [float(value < 0.5) for value in values]
    assert half_sample_error(verdicts) == pytest.approx(half_sample_std(int(sum(verdicts)), n))


@pytest.mark.parametrize("values", [[], [0.5]])
def test_of_fewer_than_two_there_is_no_error(values):
    assert half_sample_error(values) is None
