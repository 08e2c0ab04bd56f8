"""What the responses endpoint does not take, and what a log says of it. Its replies: test_openai_others_conformance.py."""

import pytest
from loopback import Answer, ModelStub

from evalframe.completion_fns.openai_responses import OpenAIResponsesCompletionFn
from evalframe.completion_fns.repair import Learnt
from evalframe.core.errors import BadArguments
from evalframe.resilience.rates import Limiters

FOUR = b'{"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "4"}]}]}'


def model(base_url="http://h/v1", **arguments):
    return OpenAIResponsesCompletionFn("m", base_url=base_url, learnt=Learnt(), limiters=Limiters(), **arguments)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("n", 2, "epochs"),
        ("stop", ["\n"], "no stop sequences"),
        ("seed", 7, "no seeds"),
        ("frequency_penalty", 0.5, "no penalties"),
        ("functions", [{"name": "f"}], "write them as tools"),
        ("background", True, "waited for"),
        ("logprobs", 5, "top_logprobs=5"),
        ("reasoning", "high", "a JSON object"),
        ("text", "json", "a JSON object"),
        ("max_output_token", 5, "closest: max_output_tokens"),
    ],
)
def test_what_the_endpoint_does_not_have_is_refused_with_what_to_do(option, value, told):
    with pytest.raises(BadArguments, match=told):
        model(**{option: value})
    with pytest.raises(BadArguments, match=told):
        model()("2+2?", **{option: value})


@pytest.mark.parametrize(
    ("option", "value"), [("n", 1), ("n", None), ("stop", []), ("stop", None), ("presence_penalty", 0.0), ("logit_bias", {})]
)
def test_a_value_that_asks_for_nothing_is_taken_and_not_sent(option, value):
    with ModelStub(lambda number, body: Answer(body=FOUR)) as stub:
        completion = model(stub.base_url, **{option: value})("2+2?")
        assert (set(stub.bodies[0]), completion.options) == ({"model", "input"}, {})


def test_a_limit_of_a_call_wins_under_whatever_name():
    with ModelStub(lambda number, body: Answer(body=FOUR)) as stub:
        model(stub.base_url, max_output_tokens=2000)("2+2?", max_tokens=64)
        assert stub.bodies[0]["max_output_tokens"] == 64


def test_what_only_this_server_knows_goes_through_as_it_is():
    with ModelStub(lambda number, body: Answer(body=FOUR)) as stub:
        model(stub.base_url, extra_options={"stop": ["\n"], "top_k": 5})("2+2?")
        assert (stub.bodies[0]["stop"], stub.bodies[0]["top_k"]) == (["\n"], 5)
    with pytest.raises(BadArguments, match="extra_options cannot hold background"):
        model(extra_options={"background": True})


def test_the_log_shows_messages_without_the_names_that_are_not_sent(sampling):
    with ModelStub(lambda number, body: Answer(body=FOUR)) as stub:
        model(stub.base_url)([{"role": "system", "name": "example_user", "content": "hi"}, {"role": "user", "content": "2+2?"}])
    assert sampling()[0]["prompt"] == [{"role": "system", "content": "hi"}, {"role": "user", "content": "2+2?"}]
