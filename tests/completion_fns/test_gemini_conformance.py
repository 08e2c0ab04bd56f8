import pytest
from conformance import KEY, cases, conforms

from evalframe.completion_fns.gemini import GeminiCompletionFn
from evalframe.completion_fns.repair import Learnt
from evalframe.core.errors import BadArguments, MissingKey
from evalframe.resilience.rates import Limiters
from evalframe.resilience.retry import RetryPolicy

SOON = RetryPolicy(max_tries=3, first_wait_s=0.001)


@pytest.mark.parametrize("case", cases("gemini"))
def test_generate_content_is_spoken_as_documented(case):
    def make(stub):
        url = f"http://127.0.0.1:{stub.port}/v1beta"
        return GeminiCompletionFn("gemini-x", base_url=url, api_key=KEY, retry_policy=SOON, learnt=Learnt(), limiters=Limiters())

    conforms(case, make)


@pytest.mark.parametrize(
    ("model", "path"),
    [("gemini-x", "models/gemini-x"), ("models/gemini-x", "models/gemini-x"), ("tunedModels/a b", "tunedModels/a%20b")],
)
def test_a_model_is_found_by_its_name_in_either_form(model, path):
    assert GeminiCompletionFn(model, base_url="http://h/v1beta", api_key="k").url() == f"http://h/v1beta/{path}:generateContent"


def test_the_key_may_have_googles_other_name(monkeypatch):
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MissingKey, match="GEMINI_API_KEY is not set"):
        GeminiCompletionFn("m")
    monkeypatch.setenv("GOOGLE_API_KEY", "other")
    assert GeminiCompletionFn("m").account()[1] == "other"
    monkeypatch.setenv("GEMINI_API_KEY", "own")
    assert GeminiCompletionFn("m").account()[1] == "own"


def test_an_option_that_nobody_knows_is_refused():
    with pytest.raises(BadArguments, match='Gemini models take no option "temprature"'):
        GeminiCompletionFn("m", base_url="http://h", temprature=1)
