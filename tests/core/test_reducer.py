import itertools

import pytest

from evalframe.core.errors import BadSetting
from evalframe.core.reducer import PLAIN, WITH_K, Reducer, nearest

KINDS = [*PLAIN, *WITH_K]


@pytest.mark.parametrize(("name", "kind", "k"), [
    ("mean", "mean", None), ("median", "median", None), ("mode", "mode", None), ("max", "max", None),
    ("at_least_1", "at_least_k", 1), ("at_least_3", "at_least_k", 3), ("pass_at_1", "pass_at_k", 1), ("pass_at_10", "pass_at_k", 10),
    ("pass_1", "pass_k", 1), ("pass_2", "pass_k", 2), ("pass_at_999999999", "pass_at_k", 999_999_999),
])  # fmt: skip
def test_a_name_says_which_and_how_many(name, kind, k):
    assert Reducer.named(name) == Reducer(kind, k)
    assert Reducer.named(name).name == name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 17])
def test_every_reducer_is_found_by_its_own_name(kind, k):
    made = Reducer(kind, k if kind in WITH_K else None)
    assert Reducer.named(made.name) == made


def test_no_two_reducers_share_a_name():
    made = [Reducer(kind) for kind in PLAIN] + [Reducer(kind, k) for kind, k in itertools.product(WITH_K, range(1, 30))]
    assert len({reducer.name for reducer in made}) == len(made)


@pytest.mark.parametrize("name", WITH_K)
def test_a_name_without_its_number_is_told_how_to_write_it(name):
    with pytest.raises(BadSetting, match="does not say which k") as caught:
        Reducer.named(name)
    assert caught.value.exit_code == 2
    assert f"{name.removesuffix('k')}2" in str(caught.value)


@pytest.mark.parametrize("name", [
    "", "average", "means", "Mean", " mean", "pass", "pass_", "pass_at_", "pass_at_0", "pass_0", "at_least_0", "pass_-1", "pass_1.5", "pass_01",
    "pass_at_2 ", "pass_at_２", "pass_at_1２", "pass_at_1000000000", "mean_2", "max_at_2", "at_least_k2", "passk", "\n", "pass_2\n",
])  # fmt: skip
def test_what_no_reducer_is_called_is_refused_and_all_spellings_are_told(name):
    with pytest.raises(BadSetting) as caught:
        Reducer.named(name)
    told = str(caught.value)
    for spelling in ("mean", "median", "mode", "max", "at_least_2", "pass_at_2", "pass_2"):
        assert spelling in told


@pytest.mark.parametrize(("name", "near"), [
    ("pass@3", "pass_at_3"), ("pass^3", "pass_3"), ("pass_at3", "pass_at_3"), ("medain", "median"), ("atleast_4", "at_least_4"), ("maxx", "max"),
    ("Pass@10", None), ("xyz", None), ("", None),
])  # fmt: skip
def test_the_spelling_most_like_it_is_suggested_with_its_number(name, near):
    if near is not None:
        assert nearest(name) == near
        with pytest.raises(BadSetting, match=f"Closest: {near}\\."):
            Reducer.named(name)
        assert Reducer.named(near).name == near
    else:
        assert nearest(name) is None or Reducer.named(nearest(name))
