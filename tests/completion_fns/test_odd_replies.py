"""Every part of every documented reply, replaced by something that does not belong there: it is an answer, or it is told; nothing breaks."""

import copy
import json

import pytest
from conformance import CASSETTES

from evalframe.completion_fns.anthropic import AnthropicCompletionFn
from evalframe.completion_fns.azure import AzureOpenAIChatCompletionFn
from evalframe.completion_fns.calls import Unreadable
from evalframe.completion_fns.gemini import GeminiCompletionFn
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.completion_fns.openai_completions import OpenAICompletionFn
from evalframe.completion_fns.openai_responses import OpenAIResponsesCompletionFn
from evalframe.completion_fns.recorded import record_answer
from evalframe.core.completion import OUTCOMES, Reply
from evalframe.core.errors import EvalframeError
from evalframe.storage import json_text

URL = {"base_url": "http://127.0.0.1:1/v1", "api_key": "k"}
PROVIDERS = {
    "openai_chat": lambda: OpenAIChatCompletionFn("m", **URL),
    "openai_completions": lambda: OpenAICompletionFn("m", **URL),
    "openai_responses": lambda: OpenAIResponsesCompletionFn("m", **URL),
    "azure": lambda: AzureOpenAIChatCompletionFn("d", azure_endpoint="http://127.0.0.1:1", api_key="k"),
    "anthropic": lambda: AnthropicCompletionFn("m", **URL),
    "gemini": lambda: GeminiCompletionFn("m", **URL),
}
ODD = [None, True, -1, 1.5, "", "text", "\ud800", [], [None], [[]], ["text"], {}, {"text": 3}, {"a": {"b": []}}, 10**400]


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def put(value, path, odd):
    """A copy with something else in one place; the whole of it where the path is empty."""
    if not path:
        return odd
    changed = copy.deepcopy(value)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = odd
    return changed


def replies(name):
    for line in (CASSETTES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)["reply"]
        yield from found if isinstance(found, list) else [found]


@pytest.mark.parametrize("name", PROVIDERS)
def test_whatever_stands_in_a_reply_it_is_read_or_told(name, recorder, scope):
    function = PROVIDERS[name]()
    seen = {"read": 0, "told": 0}
    for reply in replies(name):
        status, body = reply.get("status", 200), reply.get("body", "")
        for path in places(body):
            for odd in ODD:
                raw = json_text.dumps(put(body, path, odd))
                try:
                    if status == 200:
                        completion = function._read(Reply(200, body=raw))
                    else:
                        completion = function.read_refusal(Reply(status, body=raw), json.loads(raw))
                        if completion is None:
                            continue
                except (Unreadable, EvalframeError):
                    seen["told"] += 1
                    continue
                seen["read"] += 1
                assert completion.completions
                assert all(type(text) is str for text in completion.completions)
                assert set(completion.outcomes) <= set(OUTCOMES)
                assert completion.model is None or type(completion.model) is str
                for tokens in (completion.usage.input_tokens, completion.usage.output_tokens):
                    assert tokens is None or tokens >= 0
                record_answer(completion, prompt="q", model="m", usage=completion.usage, options={})
    assert seen["read"] > 100
    assert seen["told"] > 20
