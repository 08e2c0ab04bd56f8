"""The other endpoints of OpenAI, and Azure's: what is sent, and how what comes back is read."""

import pytest
from conformance import KEY, cases, conforms
from loopback import ModelStub, said

from evalframe.completion_fns.azure import AzureOpenAIChatCompletionFn
from evalframe.completion_fns.endpoints import openai_model
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.completion_fns.openai_completions import OpenAICompletionFn
from evalframe.completion_fns.openai_responses import OpenAIResponsesCompletionFn
from evalframe.completion_fns.repair import Learnt
from evalframe.core.errors import BadArguments, MissingKey
from evalframe.resilience.rates import Limiters
from evalframe.resilience.retry import RetryPolicy

SOON = RetryPolicy(max_tries=3, first_wait_s=0.001)


def fresh():
    return {"api_key": KEY, "retry_policy": SOON, "learnt": Learnt(), "limiters": Limiters()}


@pytest.mark.parametrize("case", cases("openai_completions"))
def test_completions_are_spoken_as_documented(case):
    conforms(case, lambda stub: OpenAICompletionFn("m", base_url=stub.base_url, **fresh()))


@pytest.mark.parametrize("case", cases("openai_responses"))
def test_responses_are_spoken_as_documented(case):
    conforms(case, lambda stub: OpenAIResponsesCompletionFn("gpt-x", base_url=stub.base_url, **fresh()))


@pytest.mark.parametrize("case", cases("azure"))
def test_azure_is_spoken_as_documented(case, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-sent")
    conforms(
        case,
        lambda stub: AzureOpenAIChatCompletionFn(
            azure_endpoint=f"http://127.0.0.1:{stub.port}/", azure_deployment="team-deploy", api_version="2025-03-01-preview", **fresh()
        ),
    )


@pytest.mark.parametrize("version", [None, "v1"])
def test_azure_without_a_version_names_the_deployment_in_the_body(version):
    with ModelStub(lambda number, body: said("4")) as stub:
        AzureOpenAIChatCompletionFn("team-deploy", azure_endpoint=f"http://127.0.0.1:{stub.port}", api_version=version, **fresh())("2+2?")
        assert stub.paths == ["/openai/v1/chat/completions"]
        assert stub.bodies[0]["model"] == "team-deploy"


@pytest.mark.parametrize("suffix", ["", "/", "/openai", "/openai/v1", "/openai/v1/", "/openai/deployments/x/chat/completions"])
def test_azures_address_may_end_in_whatever_the_portal_shows(suffix):
    model = AzureOpenAIChatCompletionFn("d", azure_endpoint=f"http://h:1{suffix}", api_version="2024-10-21", api_key="k")
    assert model.url() == "http://h:1/openai/deployments/d/chat/completions?api-version=2024-10-21"


def test_azure_is_found_by_its_variables_and_needs_its_own_key(monkeypatch):
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadArguments, match="nothing says where the deployment is found"):
        AzureOpenAIChatCompletionFn("d")
    with pytest.raises(BadArguments, match="which deployment"):
        AzureOpenAIChatCompletionFn(azure_endpoint="http://h:1")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "http://h:1")
    monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-sent")
    with pytest.raises(MissingKey, match="h:1 needs an API key, and AZURE_OPENAI_API_KEY is not set"):
        AzureOpenAIChatCompletionFn("d")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "az")
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    assert AzureOpenAIChatCompletionFn("a/b").url() == "http://h:1/openai/deployments/a%2Fb/chat/completions?api-version=2024-10-21"


def test_azure_is_found_under_the_name_of_openais_module():
    from evalframe.completion_fns import openai

    assert openai.AzureOpenAIChatCompletionFn is AzureOpenAIChatCompletionFn
    with pytest.raises(AttributeError):
        _ = openai.NoSuchThing


@pytest.mark.parametrize(
    ("model", "arguments", "cls"),
    [
        ("gpt-x", {}, OpenAIChatCompletionFn),
        ("o9-mini", {}, OpenAIChatCompletionFn),
        ("davinci-002", {}, OpenAICompletionFn),
        ("gpt-3.5-turbo-instruct-0914", {}, OpenAICompletionFn),
        ("davinci-002", {"endpoint": "chat"}, OpenAIChatCompletionFn),
        ("gpt-x", {"endpoint": "responses"}, OpenAIResponsesCompletionFn),
        ("gpt-x", {"endpoint": "completions"}, OpenAICompletionFn),
    ],
)
def test_a_model_is_asked_for_chat_unless_somebody_says_otherwise(model, arguments, cls):
    known = ["davinci-002", "gpt-3.5-turbo-instruct*"]
    made = openai_model(model, base_url="http://h/v1", completions_models=known, timeout_s=3, max_retries=1, temperature=0, **arguments)
    assert (type(made), made.timeout_s, made.patience.policy.max_tries) == (cls, 3.0, 2)


def test_an_endpoint_that_there_is_not_is_told_with_those_that_there_are():
    with pytest.raises(BadArguments, match=r'there is no endpoint "response" \(closest: responses.*one of chat, completions, responses'):
        openai_model("m", endpoint="response", base_url="http://h/v1")


@pytest.mark.parametrize("option", ["n", "stop", "seed"])
def test_what_responses_do_not_have_is_refused_before_anything_is_asked(option):
    with pytest.raises(BadArguments, match=f'Responses take no option "{option}"'):
        OpenAIResponsesCompletionFn("m", base_url="http://h/v1", **{option: 2})
