"""The factory that chooses among OpenAI's endpoints, as the registry sees it. Which class it gives: test_openai_others_conformance.py."""

import subprocess
import sys

import pytest

from evalframe.completion_fns.endpoints import openai_model
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.completion_fns.openai_completions import OpenAICompletionFn
from evalframe.core.errors import BadArguments
from evalframe.registry.build import Origin, construct, takes

RUN_WIDE = ("timeout_s", "max_retries", "max_total_retry_s", "max_retry_after_s", "max_connections")
HERE = Origin("evalframe.completion_fns.endpoints:openai_model")


def test_the_settings_of_a_run_reach_the_model_that_is_made():
    assert all(takes(openai_model, name) for name in RUN_WIDE)
    given = dict.fromkeys(RUN_WIDE, 3)
    policy = openai_model("m", base_url="http://h/v1", **given).patience.policy
    assert (policy.max_tries, policy.max_total_s, policy.longest_hint_s) == (4, 3.0, 3.0)


def test_no_setting_stands_for_the_usual():
    made = openai_model("m", base_url="http://h/v1", **dict.fromkeys(RUN_WIDE[:4]))
    usual = OpenAIChatCompletionFn("m", base_url="http://h/v1")
    assert (made.timeout_s, made.patience.policy) == (usual.timeout_s, usual.patience.policy)


@pytest.mark.parametrize(
    ("patterns", "cls"),
    [
        ((), OpenAIChatCompletionFn),
        ("davinci-*", OpenAICompletionFn),  # one pattern, without a list
        (["babbage-002", "davinci-???"], OpenAICompletionFn),
        (["davinci"], OpenAIChatCompletionFn),  # a name is the whole name
        (["DAVINCI-002"], OpenAIChatCompletionFn),
    ],
)
def test_models_that_only_complete_are_named_by_the_entry(patterns, cls):
    assert type(openai_model("davinci-002", base_url="http://h/v1", completions_models=patterns)) is cls


def test_the_registry_builds_it_as_it_builds_a_class():
    made = construct(openai_model, {"endpoint": "completions", "base_url": "http://h/v1", "temperature": 0}, HERE, supplied={"model": "m"})
    assert isinstance(made, OpenAICompletionFn)
    with pytest.raises(BadArguments, match='needs the argument "model"'):
        construct(openai_model, {"endpoint": "chat"}, HERE)
    with pytest.raises(BadArguments, match="closest: temperature"):
        construct(openai_model, {"model": "m", "base_url": "http://h/v1", "temprature": 0}, HERE)
    with pytest.raises(BadArguments, match=r"endpoint is one of chat, completions, responses"):
        construct(openai_model, {"model": "m", "endpoint": "embeddings"}, HERE)


def test_only_the_endpoint_that_is_asked_is_imported():
    code = (
        "import sys; from evalframe.completion_fns.endpoints import openai_model; openai_model('m', base_url='http://h/v1');"
        "print([name for name in sys.modules if name.startswith('evalframe.completion_fns.openai_')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
