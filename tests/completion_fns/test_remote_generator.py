"""The generator without any driver's help: no sockets, no sleep, a clock of its own."""

from random import Random

import pytest

from evalframe.completion_fns.calls import Patience, Unreadable, send_with_retries
from evalframe.completion_fns.lane import Lane
from evalframe.core.completion import Reply, Send, Usage, Wait
from evalframe.core.errors import BadReply, CallFailed, ModelUnavailable, RequestRefused
from evalframe.core.steps import on_thread
from evalframe.resilience.rates import RateLimiter
from evalframe.resilience.retry import RetryPolicy

REQUEST = Send("http://u:p@host:1/v1/chat/completions?k=v", {"authorization": "Bearer sk-secret-0000", "api-key": "az-secret"}, b"{}", 5.0)
REFUSED = Reply(0, fault="connection refused by host:1")


def read(reply):
    if reply.body != b"good":
        raise Unreadable("it is bad", Usage(3, None, 4))
    return "read"


class World:
    """A transport, a clock and a sleep; each reply takes a second."""

    def __init__(self, *replies, **policy):
        self.replies, self.time, self.slept = list(replies), 0.0, []
        self.patience = Patience(RetryPolicy(**policy), lambda: self.time, lambda: 1_800_000_000.0, Random(0))

    def send(self, request):
        self.time += 1.0
        return self.replies.pop(0)

    def sleep(self, seconds):
        self.time += seconds
        self.slept.append(seconds)

    @property
    def on_thread(self):
        return self

    def run(self):
        return on_thread(Lane(self, RateLimiter(), self.sleep).run(send_with_retries(REQUEST, read, self.patience)))


def test_it_yields_what_to_do_and_does_nothing_itself():
    steps = send_with_retries(REQUEST, read, World().patience)
    assert next(steps) is REQUEST
    wait = steps.send(Reply(429, {"retry-after": "7"}, b'{"error": {"message": "slow down."}}'))
    assert isinstance(wait, Wait)
    assert 7.0 <= wait.seconds <= 7.6
    assert wait.reason == "status 429: slow down"
    assert next(steps) is REQUEST
    with pytest.raises(StopIteration) as end:
        steps.send(Reply(200, body=b"good"))
    assert (end.value.value.value, end.value.value.tries, end.value.value.lost) == ("read", 2, None)


@pytest.mark.parametrize("bad", [REFUSED, Reply(429), Reply(500), Reply(503), Reply(408), Reply(200, body=b"<html>")], ids=str)
def test_what_may_pass_is_tried_again(bad):
    world = World(bad, bad, Reply(200, body=b"good"))
    assert world.run().tries == 3
    assert len(world.slept) == 2


def test_tokens_spent_on_replies_that_could_not_be_read_are_counted():
    assert World(Reply(200, body=b"?"), Reply(500), Reply(200, body=b"?"), Reply(200, body=b"good")).run().lost == Usage(
        6, None, 8, calls=2
    )


def test_waiting_is_booked_for_the_sample_in_scope(scope):
    world = World(Reply(429, {"retry-after-ms": "2000"}), Reply(200, body=b"good"))
    world.run()
    assert scope.waiting_s == sum(world.slept) >= 2.0


@pytest.mark.parametrize(
    ("reply", "error", "told"),
    [
        (
            Reply(401, body=b'{"error": {"message": "Bad key sk-secret-0000."}}'),
            ModelUnavailable,
            "answers 401: Bad key ***. Check the API key",
        ),
        (Reply(403, body=b'{"error": "no access"}'), ModelUnavailable, "answers 403: no access. Check what the API key may do"),
        (Reply(404, body=b'{"detail": "Not Found"}'), ModelUnavailable, "answers 404: Not Found. Check the model's name and the base URL"),
        (Reply(407, body=b""), ModelUnavailable, "answers 407. Give the proxy's user"),
        (Reply(307, {"location": "https://host/v1"}), ModelUnavailable, "answers 307 and points to https://host/v1."),
        (Reply(400, body=b'{"error": {"message": "no temperature"}}'), RequestRefused, "answers 400: no temperature."),
        (Reply(413, body=b"<html><title>Too large</title></html>"), RequestRefused, "answers 413: Too large."),
        (Reply(422, body=b'{"detail": [{"loc": ["n"]}]}'), RequestRefused, 'answers 422: [{"loc":["n"]}]'),
        (Reply(400, body=b"\xff" * 5000), RequestRefused, "answers 400"),
    ],
)
def test_what_will_not_pass_is_told_at_once_with_the_servers_own_words(reply, error, told):
    with pytest.raises(error) as caught:
        World(reply).run()
    assert told in str(caught.value)
    assert str(caught.value).startswith("http://host:1/v1/chat/completions answers")
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 800


def test_giving_up_names_the_last_cause_the_tries_and_the_seconds():
    with pytest.raises(CallFailed) as caught:
        World(Reply(500), REFUSED, REFUSED, max_tries=3, first_wait_s=0.0).run()
    assert str(caught.value) == "http://host:1/v1/chat/completions failed 3 times in 3.0 s. The last time: connection refused by host:1."


def test_giving_up_after_a_time_limit_says_how_to_raise_it():
    with pytest.raises(
        CallFailed, match=r"failed 1 time in 1.0 s. The last time: no whole reply. Raise timeout_s \(EVALS_THREAD_TIMEOUT\)"
    ):
        World(Reply(0, fault="no whole reply", timed_out=True), max_tries=1).run()


def test_giving_up_on_what_cannot_be_read_shows_its_first_characters():
    with pytest.raises(BadReply) as caught:
        World(Reply(200, body=b"<html>az-secret " + b"x" * 9000), max_tries=1).run()
    assert "because it is bad. Its body begins: '<html>*** xxx" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_hint_that_is_longer_than_all_the_time_there_is_ends_it_now():
    world = World(Reply(429, {"retry-after": "100"}), max_total_s=50.0)
    with pytest.raises(CallFailed, match="failed 1 time"):
        world.run()
    assert world.slept == []


def test_an_error_of_the_transport_reaches_whoever_asked():
    class Broken(World):
        def send(self, request):
            raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        Broken().run()
