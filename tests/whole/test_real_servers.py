"""
A real server with a real model behind it: llama.cpp's own, in a process of its own on the loopback interface.

It speaks chat completions, completions, responses and Anthropic's messages, so that each of these providers is shown to work with software
that nobody here wrote; it refuses a wrong key, streams nothing, cuts answers off, and keeps to a schema.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from evalframe import ask, read_log, run_eval
from evalframe.completion_fns.anthropic import AnthropicCompletionFn
from evalframe.completion_fns.model_files import SMOLLM2, fetched
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.completion_fns.openai_completions import OpenAICompletionFn
from evalframe.completion_fns.openai_responses import OpenAIResponsesCompletionFn
from evalframe.core.errors import ModelUnavailable

pytestmark = [pytest.mark.slow, pytest.mark.model]

KEY = "planted-key"
SERVER = """
import sys, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_ctx, settings.n_parallel, settings.port = sys.argv[1], 8192, 4, 0
settings.warmup, settings.ui, settings.verbosity = False, False, -1
settings.api_keys = [sys.argv[2]]
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
QUESTION = "What is the capital of France? Answer with one word."


@pytest.fixture(scope="module")
def server():
    """Its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(fetched(SMOLLM2)), KEY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


PROVIDERS = [OpenAIChatCompletionFn, OpenAICompletionFn, OpenAIResponsesCompletionFn, AnthropicCompletionFn]


@pytest.mark.parametrize("cls", PROVIDERS, ids=lambda cls: cls.__name__)
def test_each_wire_format_gets_a_whole_answer(server, cls):
    prompt = "The capital of France is" if cls is OpenAICompletionFn else QUESTION
    completion = cls("smollm2", base_url=f"{server}/v1", api_key=KEY, max_tokens=24, temperature=0)(prompt)
    assert completion.completions[0].strip()
    assert completion.outcomes[0] in ("answered", "truncated")
    usage = completion.usage
    assert usage.unknown == 0
    assert usage.input_tokens >= 5
    assert 0 < usage.output_tokens <= 24


@pytest.mark.parametrize("cls", PROVIDERS, ids=lambda cls: cls.__name__)
def test_an_event_loop_gets_the_same_answer(server, cls):
    model = cls("smollm2", base_url=f"{server}/v1", api_key=KEY, max_tokens=8, temperature=0)
    assert asyncio.run(ask(model, QUESTION)).get_completions() == model(QUESTION).get_completions()


@pytest.mark.parametrize("cls", [OpenAIChatCompletionFn, OpenAICompletionFn, AnthropicCompletionFn], ids=lambda cls: cls.__name__)
def test_an_answer_that_is_cut_off_is_known_for_one(server, cls):
    completion = cls("smollm2", base_url=f"{server}/v1", api_key=KEY, max_tokens=2, temperature=0)("Count from one to a hundred.")
    assert completion.outcomes == ["truncated"]


@pytest.mark.parametrize("cls", PROVIDERS, ids=lambda cls: cls.__name__)
def test_a_wrong_key_is_told_and_not_shown(server, cls):
    with pytest.raises(ModelUnavailable, match="answers 401") as caught:
        cls("smollm2", base_url=f"{server}/v1", api_key="sk-wrong-0123456789")(QUESTION)
    assert "sk-wrong" not in str(caught.value)


def test_a_form_for_the_answer_is_kept_to(server):
    model = OpenAIChatCompletionFn("smollm2", base_url=f"{server}/v1", api_key=KEY, max_tokens=64, temperature=0)
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Oslo"]}}, "required": ["city"]}
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    assert json.loads(model(QUESTION, response_format=form).completions[0])["city"] in ("Paris", "Oslo")


@pytest.mark.parametrize("name", ["vllm/smollm2", "anthropic/smollm2", "openai/smollm2"])
@pytest.mark.parametrize("executor", ["threads", "coroutines"])
def test_a_whole_run_by_the_providers_name(server, tmp_path, monkeypatch, name, executor):
    monkeypatch.chdir(tmp_path)
    for variable in ("VLLM", "ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{variable}_BASE_URL", f"{server}/v1")
        monkeypatch.setenv(f"{variable}_API_KEY", KEY)
    args = {"temperature": 0, "max_tokens": 8}
    result = run_eval(name, "capitals", max_samples=4, record_path="out.jsonl", executor=executor, completion_args=args)
    assert (result.status, result.counts.completed) == ("success", 4)
    assert KEY not in Path("out.jsonl").read_text()
    assert all(event.data["usage"]["output_tokens"] for event in read_log("out.jsonl").events("sampling"))
