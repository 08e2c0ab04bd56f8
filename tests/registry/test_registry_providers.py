"""Each bundled provider, built as a run builds it: where it asks, with whose key, and with nobody else's."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from loopback import ModelStub, said

from evalframe.core.errors import MissingKey
from evalframe.registry.registry import Registry

ENTRIES = {
    name.removesuffix("/"): entry.value.get("args") or {}
    for name, entry in Registry().shelf("completion_fns").entries.items()
    if name.endswith("/") and "completion_fns/providers.yaml" in str(entry.place)
}
REMOTE = [name for name in ENTRIES if name not in ("local", "replay")]
LOCAL = ("ollama", "vllm", "sglang", "llamacpp", "lmstudio", "litellm")
KEYS = {"openai": "OPENAI_API_KEY", "azure": "AZURE_OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
KEYS |= {name: ENTRIES[name]["api_key_env"] for name in REMOTE if name not in KEYS}
SECRETS = {variable: f"planted-{variable.lower()}" for variable in set(KEYS.values())}


@pytest.fixture
def environment(monkeypatch):
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL", "_ENDPOINT")):
            monkeypatch.delenv(name)
    return monkeypatch


def test_the_table_of_the_file_is_read_whole():
    assert len(REMOTE) > 20
    assert len(set(KEYS.values())) == len(KEYS)


def test_the_table_of_the_docs_names_every_provider_its_key_and_its_address():
    page = (Path(__file__).parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")
    rows = {found[1]: found[0] for found in re.finditer(r"^\| `(\w+)/.*$", page, re.MULTILINE)}
    assert rows.keys() == ENTRIES.keys()
    for name in REMOTE:
        assert f"`{KEYS[name]}`" in rows[name], name
        told = ENTRIES[name].get("base_url")
        variable, address = (told.name, told.default) if hasattr(told, "default") else ("", told or "")
        assert urlsplit(address).netloc in rows[name], name
        assert variable in rows[name], name


@pytest.mark.parametrize("name", REMOTE)
def test_only_its_own_key_is_sent_to_a_provider(environment, name):
    for variable, secret in SECRETS.items():
        environment.setenv(variable, secret)
    environment.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    made = Registry().make_completion_fn(f"{name}/some/model:7b")
    sent = " ".join(made._endpoint.all_headers.values())
    assert made.model == "some/model:7b"
    assert SECRETS[KEYS[name]] in sent
    assert [variable for variable, secret in SECRETS.items() if secret in sent] == [KEYS[name]]
    assert made.url().startswith("http://127.0.0.1:" if name in LOCAL else "https://")


@pytest.mark.parametrize("name", REMOTE)
def test_without_a_key_it_says_which_variable_is_missing(environment, name):
    environment.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    if name in LOCAL:
        assert "authorization" not in Registry().make_completion_fn(f"{name}/m")._endpoint.all_headers
    else:
        with pytest.raises(MissingKey, match=f"{KEYS[name]} is not set"):
            Registry().make_completion_fn(f"{name}/m")


RENAMED = [name for name in REMOTE if (ENTRIES[name].get("renames") or {}).get("max_completion_tokens") == "max_tokens"]


@pytest.mark.parametrize("name", RENAMED)
def test_a_limit_of_tokens_is_not_lost_where_only_the_older_name_is_known(environment, name):
    with ModelStub(lambda number, body: said("4")) as stub:
        made = Registry().make_completion_fn(f"{name}/m", base_url=stub.base_url, api_key="k", max_completion_tokens=5)
        assert made("2+2?").completions == ["4"]
        assert stub.bodies[0] == {"model": "m", "messages": [{"role": "user", "content": "2+2?"}], "max_tokens": 5}


@pytest.mark.parametrize("name", LOCAL)
def test_a_server_of_ones_own_is_found_where_its_variable_says(environment, name):
    with ModelStub(lambda number, body: said("4")) as stub:
        environment.setenv(f"{name.upper()}_BASE_URL", stub.base_url)
        made = Registry().make_completion_fn(f"{name}/m", temperature=0)
        assert made("2+2?").completions == ["4"]
        assert stub.bodies[0] == {"model": "m", "messages": [{"role": "user", "content": "2+2?"}], "temperature": 0}


def test_quirks_are_data(environment):
    with ModelStub(lambda number, body: said("4")) as stub:
        mistral = Registry().make_completion_fn(
            "mistral/m", base_url=stub.base_url, api_key="k", seed=7, max_completion_tokens=5, safe_prompt=True
        )
        mistral("2+2?")
        sent = {name: value for name, value in stub.bodies[0].items() if name not in ("model", "messages")}
        assert sent == {"random_seed": 7, "max_tokens": 5, "safe_prompt": True}


@pytest.mark.parametrize("name", ["my-org/llama-4", "o9-mini", "chatgpt-99-preview", "nousresearch/hermes:free"])
def test_a_name_that_is_no_provider_is_a_model_of_openais_protocol(environment, name):  # CFN-01
    environment.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    made = Registry().make_completion_fn(name)
    assert (made.model, made.url()) == (name, "http://127.0.0.1:1/v1/chat/completions")


def test_base_models_are_asked_for_completions_and_others_if_somebody_says_so(environment):
    environment.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert Registry().make_completion_fn("davinci-002").url() == "http://127.0.0.1:1/v1/completions"
    assert Registry().make_completion_fn("o9", endpoint="responses", timeout_s=3).url() == "http://127.0.0.1:1/v1/responses"
