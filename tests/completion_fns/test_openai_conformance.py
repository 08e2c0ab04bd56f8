import pytest
from conformance import KEY, cases, conforms

from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.completion_fns.repair import Learnt
from evalframe.resilience.rates import Limiters
from evalframe.resilience.retry import RetryPolicy

SOON = RetryPolicy(max_tries=3, first_wait_s=0.001)


@pytest.mark.parametrize("case", cases("openai_chat"))
def test_chat_completions_are_spoken_as_documented(case):
    conforms(
        case,
        lambda stub: OpenAIChatCompletionFn(
            "gpt-x", base_url=stub.base_url, api_key=KEY, retry_policy=SOON, learnt=Learnt(), limiters=Limiters()
        ),
    )
