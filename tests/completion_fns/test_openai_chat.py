from concurrent.futures import ThreadPoolExecutor

import pytest
from loopback import USAGE, Answer, ModelStub, chat, free_port, refused, said

from evalframe.completion_fns.openai import PARAMETERS, OpenAIChatCompletionFn
from evalframe.core.completion import Usage
from evalframe.core.errors import BadArguments, BadReply, BadSetting, CallFailed, Faults, MissingKey, ModelUnavailable, RequestRefused
from evalframe.resilience.retry import RetryPolicy

SOON = RetryPolicy(max_tries=4, first_wait_s=0.001, longest_hint_s=0.01)
USER = {"role": "user", "content": "2+2?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}}


def model_of(stub, **arguments):
    return OpenAIChatCompletionFn("m-1", **{"base_url": stub.base_url, "retry_policy": SOON, **arguments})


def scripted(*answers):
    """A stub that gives these answers in order, the last one again and again."""
    return ModelStub(lambda number, body: answers[min(number, len(answers)) - 1])


GOOD = said("4")


@pytest.mark.parametrize(
    ("answers", "requests"),
    [
        ([refused(429, headers={"retry-after": "1"}), GOOD], 2),
        ([refused(500), GOOD], 2),
        ([refused(503, headers={"retry-after-ms": "1"}), refused(408), refused(409), GOOD], 4),
        ([Answer(body=chat({"content": "4"})[:-9]), GOOD], 2),  # JSON cut short
        ([Answer(body=b"<!DOCTYPE html><title>Gateway</title>"), GOOD], 2),
        ([Answer(body=b""), GOOD], 2),
        ([Answer(body=chat()), GOOD], 2),  # no choices
        ([Answer(body=chat(choices=None)), GOOD], 2),
        ([Answer(body=b"[]"), GOOD], 2),
        ([Answer(body=chat({"content": "4"}), cut_after=20, reset=True), GOOD], 2),
        ([Answer(body=chat({"content": "4"}), cut_after=20), GOOD], 2),
        ([Answer(body=b"x", cut_after=0, reset=True), GOOD], 2),
    ],
)
def test_a_fault_that_passes_costs_a_try_and_no_answer(answers, requests, sampling):
    with scripted(*answers) as stub:
        completion = model_of(stub)(USER["content"])
        assert (completion.get_completions(), completion.tries, stub.count) == (["4"], requests, requests)
    assert sampling()[0]["tries"] == requests


@pytest.mark.parametrize(
    ("answer", "error", "told", "requests"),
    [
        (refused(500, "overloaded"), CallFailed, "failed 4 times in .* s. The last time: status 500: overloaded", 4),
        (refused(429, headers={"retry-after": "3600"}), CallFailed, "failed 4 times .* status 429", 4),
        (Answer(body=b"{"), BadReply, r"answered 4 times in .* because it is not JSON. Its body begins: '\{'", 4),
        (Answer(body=b"<html>login</html>"), BadReply, r"it is a web page. Its body begins: '<html>login</html>'. Check that the base", 4),
        (Answer(body=chat(choices=None)), BadReply, 'because it has no "choices"', 4),
        (Answer(body=b'{"error": {"message": "upstream died"}}'), BadReply, 'no "choices". Its body begins: \'.*upstream died', 4),
        (
            Answer(body=chat({"content": "4"}), cut_after=20, reset=True),
            CallFailed,
            "The last time: connection (reset|closed) by 127.0.0.1",
            4,
        ),
        (Answer(body=chat({"content": "4"}), cut_after=20), CallFailed, "closed by 127.0.0.1:.* in the middle of its reply", 4),
        (
            refused(401, "Incorrect API key: sk-test-0000"),
            ModelUnavailable,
            r"answers 401: Incorrect API key: \*\*\*. Check the API key",
            1,
        ),
        (
            refused(404, "no model m-1"),
            ModelUnavailable,
            "/v1/chat/completions answers 404: no model m-1. Check the model's name and the",
            1,
        ),
        (refused(400, "unsupported: temperature", param="temperature"), RequestRefused, "answers 400: unsupported: temperature", 1),
        (Answer(302, {"location": "/login"}), ModelUnavailable, "answers 302 and points to /login", 1),
    ],
)
def test_a_fault_that_stays_is_told_for_what_it_is(answer, error, told, requests):
    with scripted(answer) as stub:
        with pytest.raises(error, match=told) as caught:
            model_of(stub, api_key="sk-test-0000")("2+2?")
        assert stub.count == requests
    assert "sk-test" not in str(caught.value)


def test_nobody_listening_is_told_with_the_address():
    port = free_port()
    model = OpenAIChatCompletionFn("m", base_url=f"http://127.0.0.1:{port}/v1", retry_policy=SOON)
    with pytest.raises(CallFailed, match=f"failed 4 times in .* s. The last time: connection refused by 127.0.0.1:{port}."):
        model("2+2?")


@pytest.mark.parametrize(
    "slow",
    [Answer(body=chat({"content": "4"}), trickle_s=0.02), Answer(body=chat({"content": "4"}), delay_s=30.0)],
    ids=["trickle", "silence"],
)
def test_the_time_limit_holds_however_slowly_bytes_come(slow):
    with scripted(slow) as stub:
        model = model_of(stub, timeout_s=0.15, retry_policy=RetryPolicy(max_tries=2, first_wait_s=0.0))
        with pytest.raises(CallFailed, match=r"failed 2 times .* no whole reply from 127.0.0.1:\d+ within 0.15 s. Raise timeout_s"):
            model("2+2?")
        assert stub.count == 2


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "4"}, "4"),
        ({"content": ""}, ""),
        ({"content": None}, ""),
        ({}, ""),
        (None, ""),
        ({"content": [{"type": "text", "text": "4"}, {"type": "image", "url": "x"}, {"type": "text", "text": "2"}]}, "42"),
        ({"content": ["4", "2"]}, "42"),
        ({"content": {"a": 1}}, '{"a":1}'),
        ({"content": None, "tool_calls": [CALL]}, ""),
        ({"content": None, "refusal": "I will not."}, ""),
        ({"content": "\u2028\ud800 \u0000"}, "\u2028\ud800 \u0000"),
    ],
)
def test_whatever_stands_in_place_of_content_is_a_text(message, text, sampling):
    with scripted(Answer(body=chat(message, finish_reason="length"))) as stub:
        completion = model_of(stub)("2+2?")
    assert completion.get_completions() == [text]
    assert completion.finish_reason == "length"
    assert (sampling()[0]["sampled"], sampling()[0]["finish_reason"]) == (text, "length")


@pytest.mark.parametrize("usage", [..., None, [], "many", {}, {"prompt_tokens": None}, {"prompt_tokens": -1, "completion_tokens": "7"}])
def test_a_reply_without_usage_is_an_answer_of_unknown_cost(usage, scope, sampling):  # CFN-18
    with scripted(said("4", usage=usage)) as stub:
        completion = model_of(stub)("2+2?")
    assert completion.get_completions() == ["4"]
    assert completion.usage == Usage(unknown=1)
    assert sampling()[0]["usage"] == Usage(unknown=1).to_dict()
    assert scope.usage["m-1"].unknown == 1


def test_usage_is_added_up_by_model_with_cached_and_reasoning_tokens(scope):  # REC-13
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 5}}
    with scripted(said("4", usage=usage)) as stub:
        model = model_of(stub)
        for _ in range(10):
            model("2+2?")
    assert scope.usage == {"m-1": Usage(110, 40, 70, 50, calls=10)}


def test_tokens_of_a_reply_without_an_answer_are_in_the_usage():
    with scripted(Answer(body=chat()), GOOD) as stub:
        assert model_of(stub)("2+2?").usage == Usage(22, None, 14, None, calls=2)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_beside_the_answer(name, sampling):  # REC-12
    with scripted(Answer(body=chat({"content": "1", name: "because it says one"}))) as stub:
        completion = model_of(stub)("Say the number 1")
    assert (completion.completions, completion.reasoning) == (["1"], ["because it says one"])
    assert (sampling()[0]["sampled"], sampling()[0]["reasoning"]) == ("1", "because it says one")


@pytest.mark.parametrize("message", [{"content": None, "tool_calls": [CALL]}, {"content": None, "function_call": CALL["function"]}])
def test_a_reply_of_tool_calls_only_is_kept_and_its_text_is_empty(message, sampling):  # CFN-11
    tools = [{"type": "function", "function": {"name": "get_weather"}}]
    with scripted(Answer(body=chat(message, finish_reason="tool_calls"))) as stub:
        completion = model_of(stub)("Weather in Oslo?", tools=tools, tool_choice="auto")
        assert (stub.bodies[0]["tools"], stub.bodies[0]["tool_choice"]) == (tools, "auto")
    assert completion.tool_calls[0][0]["function"] == CALL["function"]
    assert sampling()[0]["sampled"] == ""
    assert sampling()[0]["tool_calls"][0]["function"]["arguments"] == '{"city":"Oslo"}'


def test_a_refusal_is_recorded(sampling):
    with scripted(Answer(body=chat({"content": None, "refusal": "I will not."}))) as stub:
        model_of(stub)("2+2?")
    assert sampling()[0]["refusal"] == "I will not."


def test_of_many_answers_all_are_kept(sampling):
    with scripted(said("4", None, "5", finish_reason="stop")) as stub:
        assert model_of(stub)("2+2?", n=3).get_completions() == ["4", "", "5"]
        assert stub.bodies[0]["n"] == 3
    assert sampling()[0]["sampled"] == ["4", "", "5"]
    assert sampling()[0]["finish_reason"] == ["stop"] * 3


def test_an_answer_is_recorded_with_what_was_sent(sampling):
    with scripted(said("4")) as stub:
        model_of(stub, temperature=0.5)(prompt="2+2?", max_tokens=9)
    assert sampling() == [
        {
            "prompt": [USER],
            "sampled": "4",
            "model": "m-1",
            "usage": Usage(11, None, 7).to_dict(),
            "finish_reason": "stop",
            "answered_by": "stub-1",
            "options": {"temperature": 0.5, "max_tokens": 9},
        }
    ]


def test_options_reach_the_request_as_json(sampling):  # CLI-01
    with scripted(GOOD) as stub:
        model_of(stub, temperature=0.5, max_tokens=10, seed=7, stop=["\n"], extra_options={"min_p": 0.1, "deep": {"a": None}})("2+2?")
        assert stub.bodies[0] == {
            "model": "m-1", "messages": [USER], "temperature": 0.5, "max_tokens": 10, "seed": 7, "stop": ["\n"],
            "min_p": 0.1, "deep": {"a": None},
        }  # fmt: skip


def test_nothing_is_sent_that_was_not_asked_for():  # CFN-04
    with scripted(GOOD) as stub:
        model_of(stub)("2+2?")
        assert stub.bodies[0] == {"model": "m-1", "messages": [USER]}
        assert stub.paths == ["/v1/chat/completions"]  # CFN-01: whatever the model is called
        assert "authorization" not in stub.headers[0]


def test_options_of_a_call_win_and_none_takes_one_away():
    with scripted(GOOD) as stub:
        model_of(stub, temperature=0.5, top_p=0.9, seed=None)("2+2?", temperature=0.0, top_p=None)
        assert stub.bodies[0] == {"model": "m-1", "messages": [USER], "temperature": 0.0}


def test_messages_are_sent_as_they_are():
    messages = [
        {"role": "system", "content": "x", "name": "example_user"},
        {"role": "user", "content": [{"type": "text", "text": "é\ud800"}]},
    ]
    with scripted(GOOD) as stub:
        model_of(stub)(messages)
        assert stub.bodies[0]["messages"] == messages


@pytest.mark.parametrize("prompt", [None, 3, [], ["2+2?"], [{"content": "x"}], {"role": "user"}])
def test_what_is_no_prompt_is_not_sent(prompt):
    with scripted(GOOD) as stub:
        with pytest.raises(RequestRefused, match="A prompt is text or a list of chat messages"):
            model_of(stub)(prompt)
        assert stub.count == 0


def test_connections_are_kept_and_shared_by_threads():
    with scripted(GOOD) as stub:
        model = model_of(stub, max_connections=4)
        with ThreadPoolExecutor(12) as threads:
            assert all(threads.map(lambda _: model("2+2?").completions == ["4"], range(200)))
        assert stub.count == 200
        assert stub.connections <= 4


# ---------------------------------------------------------------------- what is refused before the first request


def test_an_unknown_option_is_refused_by_name_with_the_closest():
    with pytest.raises(BadArguments) as caught:
        OpenAIChatCompletionFn("m", base_url="http://h/v1", temprature=1, zzz=2)
    assert str(caught.value).startswith('Chat completions take no option "temprature" (closest: temperature), "zzz".')
    assert "extra_options" in str(caught.value)


def test_every_parameter_of_the_endpoint_is_known():
    asked = "temperature top_p max_tokens max_completion_tokens n stop seed presence_penalty frequency_penalty logit_bias logprobs "
    asked += "top_logprobs response_format tools tool_choice parallel_tool_calls reasoning_effort verbosity service_tier store metadata "
    asked += "prediction user"
    assert set(asked.split()) <= PARAMETERS


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"extra_options": [1]}, "extra_options is a JSON object"),
        ({"extra_options": {"stream": True}}, "extra_options cannot hold stream"),
        ({"extra_headers": "x"}, "extra_headers is a JSON object"),
        ({"timeout_s": 0}, "timeout_s is a number of seconds above 0, not 0"),
        ({"timeout_s": "soon"}, "timeout_s"),
        ({"max_retries": -1}, "max_retries is a number from 0, not -1"),
        ({"base_url": "localhost:8000/v1"}, "base_url is no http or https URL: 'localhost:8000/v1'. Write it like"),
        ({"base_url": "http://"}, "base_url is no http"),
        ({"base_url": "http://h:port/v1"}, "base_url is no http"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_at_once(arguments, told):
    with pytest.raises(BadArguments, match=told):
        OpenAIChatCompletionFn("m", **{"base_url": "http://h/v1", **arguments})


def test_openai_needs_a_key_and_says_where_it_goes(monkeypatch):
    with pytest.raises(MissingKey, match=r"api.openai.com needs an API key, and OPENAI_API_KEY is not set"):
        OpenAIChatCompletionFn("gpt-5")
    with pytest.raises(MissingKey, match="MY_KEY is not set"):
        OpenAIChatCompletionFn("gpt-5", api_key_env="MY_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000\n")
    model = OpenAIChatCompletionFn("gpt-5")
    assert model.base_url == "https://api.openai.com/v1"
    assert "sk-test" not in repr(model) + str(vars(model))


def test_another_server_gets_the_key_if_there_is_one(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000")
    with scripted(GOOD) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{stub.base_url}/")
        OpenAIChatCompletionFn("m", extra_headers={"X-Team": "a"})("2+2?")
        OpenAIChatCompletionFn("m", api_key="mine", api_key_env="NONE")("2+2?")
        OpenAIChatCompletionFn("m", base_url=f"http://u:p%40@127.0.0.1:{stub.port}/v1/chat/completions?v=1")("2+2?")
        assert [headers["authorization"] for headers in stub.headers] == ["Bearer sk-test-0000", "Bearer mine", "Basic dTpwQA=="]
        assert stub.headers[0]["x-team"] == "a"
        assert stub.paths == ["/v1/chat/completions"] * 2 + ["/v1/chat/completions?v=1"]


def test_userinfo_is_shown_nowhere():
    model = OpenAIChatCompletionFn("m", base_url="http://user:secret@127.0.0.1:8000/v1")
    assert model.base_url == "http://127.0.0.1:8000/v1"
    assert "secret" not in repr(model)


@pytest.mark.parametrize("key", ["sk-\u00e9", "a\nb", "a\u200b"])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(key):
    with pytest.raises(BadSetting, match="The API key") as caught:
        OpenAIChatCompletionFn("m", base_url="http://h/v1", api_key=key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"), [("EVALS_THREAD_TIMEOUT", "soon"), ("EVALS_THREAD_TIMEOUT", "0"), ("OPENAI_BASE_URL", "h:80")]
)
def test_a_variable_that_cannot_be_used_is_told(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadSetting, match=f"{variable} is "):
        OpenAIChatCompletionFn("m", api_key="k")


def test_the_time_limit_and_the_number_of_tries_have_their_defaults(monkeypatch):
    plain = OpenAIChatCompletionFn("m", base_url="http://h/v1", timeout_s=None, max_retries=None, max_total_retry_s=None)
    assert (plain.timeout_s, plain.patience.policy) == (300.0, RetryPolicy())
    monkeypatch.setenv("EVALS_THREAD_TIMEOUT", "20")
    set_ = OpenAIChatCompletionFn("m", base_url="http://h/v1", max_retries=2, max_total_retry_s=5)
    assert (set_.timeout_s, set_.patience.policy) == (20.0, RetryPolicy(max_tries=3, max_total_s=5.0))
    assert OpenAIChatCompletionFn("m", base_url="http://h/v1", timeout_s=3).timeout_s == 3.0


def test_a_byte_order_mark_is_no_fault():
    with scripted(Answer(body=b"\xef\xbb\xbf" + chat({"content": "4"}))) as stub:
        assert (model_of(stub)("2+2?").completions, stub.count) == (["4"], 1)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(Faults) as caught:
        OpenAIChatCompletionFn("gpt-5", temprature=1, extra_options=[1])
    told = str(caught.value)
    assert all(part in told for part in ("OPENAI_API_KEY is not set", 'no option "temprature"', "extra_options is a JSON object"))
