"""What the completions endpoint does not take, and what a log says of it. Its replies: test_openai_others_conformance.py."""

import json

import pytest
from loopback import Answer, ModelStub

from evalframe.completion_fns.openai_completions import OpenAICompletionFn
from evalframe.completion_fns.repair import Learnt
from evalframe.core.errors import BadArguments
from evalframe.resilience.rates import Limiters

FOUR = json.dumps({"choices": [{"text": " 4", "finish_reason": "stop"}]}).encode()


def model(base_url="http://h/v1", **arguments):
    return OpenAICompletionFn("m", base_url=base_url, learnt=Learnt(), limiters=Limiters(), **arguments)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("tools", [{"type": "function"}], "endpoint=chat"),
        ("response_format", {"type": "json_object"}, "endpoint=chat"),
        ("reasoning_effort", "low", "endpoint=chat"),
        ("max_token", 5, "closest: max_tokens"),
    ],
)
def test_what_means_nothing_to_a_base_model_is_refused(option, value, told):
    with pytest.raises(BadArguments, match=told):
        model(**{option: value})
    with pytest.raises(BadArguments, match=told):
        model()("x", **{option: value})


def test_nothing_is_sent_that_was_not_asked_for():
    with ModelStub(lambda number, body: Answer(body=FOUR)) as stub:
        model(stub.base_url)("2+2=")
        assert (stub.paths, stub.bodies) == (["/v1/completions"], [{"model": "m", "prompt": "2+2="}])


def test_a_limit_of_a_call_wins_under_whatever_name():
    with ModelStub(lambda number, body: Answer(body=FOUR)) as stub:
        model(stub.base_url, max_tokens=64)("2+2=", max_completion_tokens=5)
        assert stub.bodies[0]["max_tokens"] == 5


def test_the_log_shows_the_text_that_was_sent(sampling):
    with ModelStub(lambda number, body: Answer(body=FOUR)) as stub:
        model(stub.base_url)(
            [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}, {"role": "user", "content": "2+2?"}]
        )
        assert sampling()[0]["prompt"] == stub.bodies[0]["prompt"] == "User: 1+1?\nAssistant: 2\nUser: 2+2?\nAssistant:"
