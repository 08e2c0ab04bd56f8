import itertools

import pytest

from evalframe.core.errors import BadSetting
from evalframe.core.reducer import Reducer
from evalframe.resilience.epochs import EpochPlan


@pytest.mark.parametrize(("epochs", "names", "reducers"), [
    (1, (), [Reducer("mean")]),
    (3, ["mean"], [Reducer("mean")]),
    (3, ["max", "pass_at_3", "pass_2"], [Reducer("max"), Reducer("pass_at_k", 3), Reducer("pass_k", 2)]),
    (2, ["max", "max", "mode", "max"], [Reducer("max"), Reducer("mode")]),  # one given twice counts once
    (1, ["pass_at_1", "pass_1", "at_least_1"], [Reducer("pass_at_k", 1), Reducer("pass_k", 1), Reducer("at_least_k", 1)]),
    (1000, ["at_least_1000"], [Reducer("at_least_k", 1000)]),
])  # fmt: skip
def test_a_plan_is_made_of_settings(epochs, names, reducers):
    assert EpochPlan.of(epochs, names) == EpochPlan(epochs, tuple(reducers))


def test_without_settings_each_sample_is_asked_once():
    assert EpochPlan() == EpochPlan.of(1)
    assert list(EpochPlan().items([4, 2])) == [(4, 1), (2, 1)]


@pytest.mark.parametrize(("epochs", "names", "told"), [
    (1, ["pass_at_2"], "pass_at_2 needs at least 2 epochs, and epochs is 1"),
    (4, ["at_least_5"], "at_least_5 needs at least 5 epochs, and epochs is 4"),
    (2, ["pass_3", "pass_at_7", "at_least_4"], "pass_at_7 needs at least 7 epochs"),  # the greediest: mending it mends all
    (3, ["max", "pass_2", "pass_4"], "pass_4 needs at least 4"),
])  # fmt: skip
def test_a_k_that_is_larger_than_the_number_of_epochs_is_refused_with_what_to_do(epochs, names, told):
    with pytest.raises(BadSetting, match=told) as caught:
        EpochPlan.of(epochs, names)
    needed = max(Reducer.named(name).k or 1 for name in names)
    assert f"--epochs {needed}" in str(caught.value)
    assert EpochPlan.of(needed, names).epochs == needed


@pytest.mark.parametrize("epochs", [0, -3])
def test_there_is_one_epoch_at_least(epochs):
    with pytest.raises(BadSetting, match=f"epochs is {epochs}"):
        EpochPlan.of(epochs)


def test_a_reducer_that_is_unknown_is_refused():
    with pytest.raises(BadSetting, match='no epochs_reducer "medium"'):
        EpochPlan.of(3, ["mean", "medium"])


def test_all_samples_come_once_before_any_comes_again():
    assert list(EpochPlan(3).items([5, 0, 9])) == [(index, epoch) for epoch in (1, 2, 3) for index in (5, 0, 9)]
    assert list(EpochPlan(3).items([])) == []


def test_what_is_asked_is_told_one_by_one():
    items = EpochPlan(10**9).items(range(10**9))  # a list of them would not fit into any memory
    assert list(itertools.islice(items, 2)) == [(0, 1), (1, 1)]
