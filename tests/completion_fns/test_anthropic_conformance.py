import pytest
from conformance import KEY, cases, conforms

from evalframe.completion_fns.anthropic import AnthropicCompletionFn
from evalframe.completion_fns.repair import Learnt
from evalframe.core.errors import BadArguments, MissingKey
from evalframe.resilience.rates import Limiters
from evalframe.resilience.retry import RetryPolicy

SOON = RetryPolicy(max_tries=3, first_wait_s=0.001)


@pytest.mark.parametrize("case", cases("anthropic"))
def test_messages_are_spoken_as_documented(case):
    conforms(
        case,
        lambda stub: AnthropicCompletionFn(
            "claude-x", base_url=stub.base_url, api_key=KEY, retry_policy=SOON, learnt=Learnt(), limiters=Limiters()
        ),
    )


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "http://h:1/v1/messages"])
def test_the_address_may_lack_its_version(url):
    assert AnthropicCompletionFn("m", base_url=url, api_key="k").url() == "http://h:1/v1/messages"


@pytest.mark.parametrize("option", ["n", "seed", "logprobs", "presence_penalty"])
def test_what_the_api_does_not_have_is_refused_before_anything_is_asked(option):
    with pytest.raises(BadArguments, match=f'Anthropic.s messages take no option "{option}"'):
        AnthropicCompletionFn("m", base_url="http://h", **{option: 1})


def test_its_own_address_needs_its_own_key(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-sent")
    with pytest.raises(MissingKey, match="ANTHROPIC_API_KEY is not set"):
        AnthropicCompletionFn("m")


def test_further_headers_and_another_version_are_sent():
    model = AnthropicCompletionFn("m", base_url="http://h", anthropic_version="2099-01-01", extra_headers={"anthropic-beta": "x"})
    headers = model.cache_identity({})["headers"]
    assert (headers["anthropic-version"], headers["anthropic-beta"]) == ("2099-01-01", "x")
