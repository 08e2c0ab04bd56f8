from random import Random

import pytest

from evalframe.resilience.retry import RetryPolicy, asked_to_wait_s, is_retriable, retry_after_s

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


def test_waits_double_up_to_the_longest_and_are_spread_over_two_seconds():
    policy = RetryPolicy(max_tries=100, first_wait_s=0.5, longest_wait_s=8.0)
    for tries, least_s, most_s in [
        (1, 0.0, 0.5),
        (2, 0.0, 1.0),
        (3, 0.0, 2.0),
        (4, 2.0, 4.0),
        (5, 6.0, 8.0),
        (6, 6.0, 8.0),
        (99, 6.0, 8.0),
    ]:
        drawn = [policy.wait_s(tries, elapsed_s=0.0, hint_s=None, rng=Random(seed)) for seed in range(200)]
        assert all(least_s <= wait <= most_s for wait in drawn)
        assert min(drawn) < least_s + 0.1 * (most_s - least_s)
        assert max(drawn) > most_s - 0.1 * (most_s - least_s)


def test_an_outage_of_a_minute_is_survived_and_told_within_a_minute_and_a_half():  # CON-06
    for seed in range(200):
        rng, policy = Random(seed), RetryPolicy()
        waits = [policy.wait_s(tries, elapsed_s=0.0, hint_s=None, rng=rng) for tries in range(1, policy.max_tries)]
        assert 60 < sum(waits) < 90


@pytest.mark.parametrize(
    ("headers", "expected_s"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s"}, 1.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1h2m0.5s"}, 3720.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "59.7s", "x-ratelimit-remaining-requests": "5"}, 59.7),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "2s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "3s",
            },
            3.0,
        ),
        ({"x-ratelimit-remaining-requests": "7", "x-ratelimit-reset-requests": "1s"}, None),  # that one is not used up
        ({"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:20Z"}, 20.0),
        ({"anthropic-ratelimit-input-tokens-remaining": "0", "anthropic-ratelimit-input-tokens-reset": "2027-01-15T07:59:20Z"}, 0.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "30"}, 30.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 12)}, 12.0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "8"}, 8.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": ""}, None),
        ({"x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ratelimit-remaining-requests": "none", "x-ratelimit-reset-requests": "1s"}, None),
        ({"retry-after": "3", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "60s"}, 3.0),  # its own word counts
    ],
)
def test_a_limit_that_is_used_up_says_when_it_opens(headers, expected_s):
    told = asked_to_wait_s(headers, now=NOW)
    assert told == (None if expected_s is None else pytest.approx(expected_s))


def test_the_same_randomness_gives_the_same_wait():
    policy = RetryPolicy()
    assert policy.wait_s(3, elapsed_s=0, hint_s=None, rng=Random(1)) == policy.wait_s(3, elapsed_s=0, hint_s=None, rng=Random(1))


@pytest.mark.parametrize(
    ("hint_s", "least_s", "most_s"),
    [(2.0, 2.0, 2.6), (0.0, 0.0, 0.6), (119.0, 119.0, 119.6), (3600.0, 120.0, 120.6)],  # an hour is not believed
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
