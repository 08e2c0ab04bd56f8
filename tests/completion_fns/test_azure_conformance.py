"""Azure's addresses, keys and versions, and a whole run against a deployment. Its replies: test_openai_others_conformance.py."""

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from loopback import ModelStub, refused, said

from evalframe.completion_fns.azure import AzureOpenAIChatCompletionFn
from evalframe.completion_fns.repair import Learnt
from evalframe.core.errors import BadArguments
from evalframe.logs.run_log import read_log
from evalframe.registry.build import check_arguments, takes
from evalframe.resilience.rates import Limiters

DATED = "openai/deployments/d/chat/completions?api-version=2024-10-21"
RUN_WIDE = ("timeout_s", "max_retries", "max_total_retry_s", "max_retry_after_s", "max_connections")


@pytest.fixture(autouse=True)
def no_azure_variables(monkeypatch):
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-sent")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://not-to-be-asked:1/v1")


@pytest.mark.parametrize(
    ("arguments", "url", "model_in_body"),
    [
        ({"azure_endpoint": "http://h", "api_version": "2024-10-21"}, f"http://h/{DATED}", None),
        ({"azure_endpoint": "http://h/gateway/", "api_version": "2024-10-21"}, f"http://h/gateway/{DATED}", None),
        ({"azure_endpoint": "http://h", "api_version": date(2024, 10, 21)}, f"http://h/{DATED}", None),  # YAML without quotes
        ({"azure_endpoint": f"http://h/{DATED}"}, f"http://h/{DATED}", None),  # as the portal shows it
        ({"azure_endpoint": "http://h?a=b", "api_version": "2024-10-21"}, f"http://h/{DATED.replace('?', '?a=b&')}", None),
        ({"azure_endpoint": "http://h"}, "http://h/openai/v1/chat/completions", "d"),
        ({"azure_endpoint": "http://h", "api_version": "v1"}, "http://h/openai/v1/chat/completions", "d"),
        ({"azure_endpoint": "http://h", "api_version": "preview"}, "http://h/openai/v1/chat/completions?api-version=preview", "d"),
        ({"base_url": "http://h/openai/v1/"}, "http://h/openai/v1/chat/completions", "d"),
        ({"base_url": "http://h/team/v1"}, "http://h/team/v1/chat/completions", "d"),  # a gateway
        ({"base_url": "http://h/team/v1", "api_version": "2024-10-21"}, "http://h/team/v1/chat/completions?api-version=2024-10-21", "d"),
        ({"base_url": "http://h", "api_version": "2024-10-21"}, f"http://h/{DATED}", None),  # an endpoint by another argument
    ],
)
def test_the_address_follows_from_endpoint_deployment_and_version(arguments, url, model_in_body):
    model = AzureOpenAIChatCompletionFn("d", api_key="k", **arguments)
    assert (model.url(), model.body("hi", {}).get("model")) == (url, model_in_body)


def test_the_version_of_the_environment_gives_way_to_an_address_without_versions(monkeypatch):
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    assert AzureOpenAIChatCompletionFn("d", azure_endpoint="http://h", api_key="k").url() == f"http://h/{DATED}"
    assert AzureOpenAIChatCompletionFn("d", azure_endpoint="http://h/openai/v1", api_key="k").url() == "http://h/openai/v1/chat/completions"
    assert AzureOpenAIChatCompletionFn("d", base_url="http://h/v1", api_key="k").url() == "http://h/v1/chat/completions"


def test_the_deployment_is_asked_and_the_model_is_logged():
    model = AzureOpenAIChatCompletionFn("gpt-x", azure_deployment="d", azure_endpoint="http://h", api_version="2024-10-21", api_key="k")
    assert (model.model, model.deployment, model.url()) == ("gpt-x", "d", f"http://h/{DATED}")
    assert AzureOpenAIChatCompletionFn(azure_deployment="d", azure_endpoint="http://h", api_key="k").model == "d"
    assert AzureOpenAIChatCompletionFn(azure_endpoint=f"http://h/{DATED}", api_key="k").model == "d"


def test_two_deployments_have_a_limit_each():
    first, second = (AzureOpenAIChatCompletionFn(name, azure_endpoint="http://h", api_version="2024-10-21", api_key="k") for name in "ab")
    assert first.account() != second.account()


@pytest.mark.parametrize(
    ("given", "variables", "header", "value"),
    [
        ({"api_key": "az"}, {"AZURE_OPENAI_API_KEY": "other"}, "api-key", "az"),
        ({}, {"AZURE_OPENAI_API_KEY": "az", "AZURE_OPENAI_AD_TOKEN": "token"}, "api-key", "az"),
        ({"api_key_env": "MINE"}, {"MINE": "az"}, "api-key", "az"),
        ({}, {"AZURE_OPENAI_AD_TOKEN": "token"}, "authorization", "Bearer token"),
        ({"azure_ad_token": "token"}, {"AZURE_OPENAI_API_KEY": "az"}, "authorization", "Bearer token"),
        ({"needs_key": False}, {}, "api-key", None),
    ],
)
def test_only_azures_own_key_is_sent(monkeypatch, given, variables, header, value):
    for name, held in variables.items():
        monkeypatch.setenv(name, held)
    with ModelStub(lambda number, body: said("4")) as stub:
        endpoint = f"http://127.0.0.1:{stub.port}"
        AzureOpenAIChatCompletionFn("d", azure_endpoint=endpoint, learnt=Learnt(), limiters=Limiters(), **given)("2+2?")
        sent = stub.headers[0]
    other = {"api-key": "authorization", "authorization": "api-key"}[header]
    assert (sent.get(header), sent.get(other)) == (value, None)
    assert "not-to-be-sent" not in str(sent)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"azure_endpoint": "h.openai.azure.com"}, "azure_endpoint is no http or https URL: 'h.openai.azure.com'"),
        ({"azure_endpoint": "http://[h"}, "azure_endpoint is no http or https URL"),
        ({"base_url": "ftp://user:secret@h"}, "base_url is no http or https URL: 'h'"),
        ({"azure_endpoint": "http://h", "base_url": "http://h/v1"}, "base_url and azure_endpoint both say"),
        ({"azure_endpoint": "http://h", "temprature": 1}, 'no option "temprature"'),
    ],
)
def test_what_cannot_be_an_address_is_told_by_the_name_it_was_given_under(arguments, told):
    with pytest.raises(BadArguments) as caught:
        AzureOpenAIChatCompletionFn("d", api_key="k", **arguments)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_settings_of_a_run_reach_it():
    assert all(takes(AzureOpenAIChatCompletionFn, name) for name in RUN_WIDE)
    check_arguments(AzureOpenAIChatCompletionFn, ["azure_deployment", "temperature"], origin="an entry")


FILES = {
    "R/evals/cap.yaml": "cap:\n  id: cap.dev.v0\n  description: probe\n  metrics: [accuracy]\n"
    "cap.dev.v0:\n  class: evalframe.evals.basic:Match\n  args:\n    samples_jsonl: cap/samples.jsonl\n",
    "R/data/cap/samples.jsonl": '{"input": [{"role": "user", "content": "Capital of France?"}], "ideal": "Paris"}\n',
    "R/completion_fns/az.yaml": "az-mini:\n  class: evalframe.completion_fns.openai:AzureOpenAIChatCompletionFn\n  args:\n"
    "    azure_endpoint: http://127.0.0.1:$PORT\n    azure_deployment: team-deploy\n    api_version: 2025-03-01-preview\n",
}


def test_a_run_asks_a_deployment_that_an_entry_names(tmp_path):  # CFN-09
    with ModelStub(lambda number, body: said("Paris")) as stub:
        wanted = "/openai/deployments/team-deploy/chat/completions?api-version=2025-03-01-preview"

        def answer(number, body):
            fits = stub.paths[number - 1] == wanted and stub.headers[number - 1].get("api-key") == "az-test"
            return said("Paris") if fits else refused(404, "Resource not found")

        stub.answer = answer
        for name, text in FILES.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("$PORT", str(stub.port)), encoding="utf-8")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("EVAL", "OPENAI", "AZURE"))}
        done = subprocess.run(
            [str(Path(sys.executable).parent / "oaieval"), "az-mini", "cap", "--registry_path", "R", "--record_path", "log.jsonl"],
            cwd=tmp_path, env={**clean, "AZURE_OPENAI_API_KEY": "az-test"}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        headers = stub.headers
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_log(tmp_path / "log.jsonl").final_report["accuracy"] == 1.0
    assert [sent.get("authorization") for sent in headers] == [None]
    assert "az-test" not in (tmp_path / "log.jsonl").read_text(encoding="utf-8") + done.stdout + done.stderr
