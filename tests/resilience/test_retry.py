from random import Random

import pytest

from evalframe.resilience.retry import RetryPolicy, is_retriable, retry_after_s

NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 529, 599])
def test_a_status_that_may_pass_is_tried_again(status):
    assert is_retriable(status)


@pytest.mark.parametrize("status", [200, 204, 301, 400, 401, 403, 404, 407, 413, 422, 600])
def test_a_status_that_will_not_pass_is_not(status):
    assert not is_retriable(status)


@pytest.mark.parametrize(
    ("headers", "expected_s"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),  # the finer one counts
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30.0),
        ({"retry-after": "Fri, 15 Jan 2027 07:59:00 GMT"}, 0.0),  # a moment that has passed
        ({"retry-after": "Friday, 15-Jan-27 08:00:30 GMT"}, 30.0),  # the older spelling
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Fri, 99 Jan 2027 08:00:30 GMT"}, None),
    ],
)
def test_a_hint_is_read_in_each_of_its_spellings(headers, expected_s):
    assert retry_after_s(headers, now=NOW) == expected_s


def test_waits_double_up_to_the_longest_and_are_drawn_from_all_of_it():
    policy = RetryPolicy(max_tries=100, first_wait_s=0.5, longest_wait_s=8.0)
    for tries, ceiling_s in [(1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (6, 8.0), (99, 8.0)]:
        drawn = [policy.wait_s(tries, elapsed_s=0.0, hint_s=None, rng=Random(seed)) for seed in range(200)]
        assert all(0.0 <= wait <= ceiling_s for wait in drawn)
        assert min(drawn) < 0.1 * ceiling_s
        assert max(drawn) > 0.9 * ceiling_s


def test_the_same_randomness_gives_the_same_wait():
    policy = RetryPolicy()
    assert policy.wait_s(3, elapsed_s=0, hint_s=None, rng=Random(1)) == policy.wait_s(3, elapsed_s=0, hint_s=None, rng=Random(1))


@pytest.mark.parametrize(
    ("hint_s", "least_s", "most_s"),
    [(2.0, 2.0, 2.5), (0.0, 0.0, 0.5), (119.0, 119.0, 119.5), (3600.0, 120.0, 120.5)],  # an hour is not believed
)
def test_a_hint_is_obeyed_up_to_the_longest_that_is_believed(hint_s, least_s, most_s):
    for seed in range(50):
        wait_s = RetryPolicy().wait_s(1, elapsed_s=0.0, hint_s=hint_s, rng=Random(seed))
        assert least_s <= wait_s <= most_s


@pytest.mark.parametrize(
    ("policy", "tries_made", "elapsed_s", "hint_s"),
    [
        (RetryPolicy(), 8, 1.0, None),
        (RetryPolicy(max_tries=1), 1, 0.0, None),
        (RetryPolicy(), 2, 901.0, None),
        (RetryPolicy(), 2, 850.0, 60.0),  # the wait would end too late
        (RetryPolicy(max_total_s=0.0, first_wait_s=0.1), 1, 0.001, None),
    ],
)
def test_it_is_given_up_after_the_last_try_or_when_the_time_would_be_over(policy, tries_made, elapsed_s, hint_s):
    assert policy.wait_s(tries_made, elapsed_s=elapsed_s, hint_s=hint_s, rng=Random(0)) is None


def test_by_default_a_call_is_tried_eight_times_within_a_quarter_of_an_hour():
    policy, tries = RetryPolicy(), 1
    while policy.wait_s(tries, elapsed_s=0.0, hint_s=None, rng=Random(tries)) is not None:
        tries += 1
    assert (tries, policy.max_total_s) == (8, 900.0)
