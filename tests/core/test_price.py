import pytest

from evalframe.core.completion import Usage
from evalframe.core.price import Price

PRICE = Price(input_usd=2.0, cached_usd=0.5, output_usd=8.0)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(input_tokens=1_000_000, output_tokens=0), 2.0),
        (Usage(input_tokens=0, output_tokens=1_000_000), 8.0),
        (
            Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=500_000),
            1.2 + 0.2 + 4.0,
        ),  # cached tokens are part of the input
        (Usage(input_tokens=10, output_tokens=1_000, reasoning_tokens=900), 0.00802),  # reasoning is part of the output
        (Usage(input_tokens=1_000_000), 2.0),  # what is known is counted
        (Usage(output_tokens=1_000_000), 8.0),
        (Usage(cached_tokens=1_000_000), 0.5),
        (Usage(input_tokens=100, cached_tokens=1_000_000), 0.5),  # an endpoint that counts cached tokens apart: never less than nothing
        (Usage(input_tokens=1_000_000, output_tokens=0, calls=3, unknown=2), 2.0),  # a partial sum, as its usage says
        (Usage(input_tokens=0, output_tokens=0), 0.0),
        (Usage(calls=0), 0.0),  # an answer from a cache: nothing was asked
        (Usage(), None),
        (Usage(unknown=1), None),
        (Usage(reasoning_tokens=5), None),
    ],
)
def test_tokens_cost_what_the_price_says_and_nobody_guesses_unknown_ones(usage, dollars):
    cost = PRICE.cost_usd(usage)
    assert cost == (dollars if dollars is None else pytest.approx(dollars, abs=1e-12))


def test_cached_tokens_cost_like_all_others_where_no_price_is_known_for_them():
    assert Price(2.0, 8.0).cost_usd(Usage(input_tokens=1_000_000, cached_tokens=900_000, output_tokens=0)) == pytest.approx(2.0)


def test_cached_tokens_may_be_free():
    assert Price(2.0, 8.0, cached_usd=0.0).cost_usd(Usage(input_tokens=1_000_000, cached_tokens=1_000_000, output_tokens=0)) == 0.0


@pytest.mark.parametrize("usage", [Usage(), Usage(unknown=1), Usage(input_tokens=5, output_tokens=7)])
def test_what_is_free_costs_nothing_even_where_tokens_are_unknown(usage):
    assert Price(0.0, 0.0).cost_usd(usage) == 0.0


@pytest.mark.parametrize(
    ("price", "text"),
    [
        (Price(0.15, 0.6, 0.075), "$0.15 in, $0.075 cached, $0.6 out per million tokens"),
        (Price(10, 40), "$10 in, $40 out per million tokens"),
        (Price(0, 0), "free"),
        (Price(0, 0, 0.1), "$0 in, $0.1 cached, $0 out per million tokens"),
    ],
)
def test_a_price_reads_as_a_person_says_it(price, text):
    assert str(price) == text
