import asyncio
import json

import pytest
from loopback import Answer, ModelStub, refused

from evalframe import ask
from evalframe.completion_fns.gateway import GatewayCompletionFn
from evalframe.core.errors import BadArguments, BadReply, ModelUnavailable
from evalframe.resilience.rates import Limiters
from evalframe.resilience.retry import RetryPolicy

SOON = RetryPolicy(max_tries=2, first_wait_s=0.001)
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]


def replied(**body):
    return Answer(body=json.dumps(body).encode())


def gateway(stub, **arguments):
    usual = {"body": {"turns": "{messages}"}, "text": "out", "retry_policy": SOON, "limiters": Limiters()}
    return GatewayCompletionFn("team", url=f"{stub.base_url}/generate?tenant=7", **{**usual, **arguments})


@pytest.mark.parametrize(
    ("body", "options", "sent"),
    [
        ({"turns": "{messages}"}, {}, {"turns": CHAT}),
        ({"p": "{prompt}"}, {}, {"p": "Be brief.\nUser: 2+2?\nAssistant:"}),
        ({"s": "{system}", "u": "{user}", "m": "{model}"}, {}, {"s": "Be brief.", "u": "2+2?", "m": "team"}),
        ({"p": "<{user}> by {model}"}, {}, {"p": "<2+2?> by team"}),
        ({"p": "{user}", "t": "{option:temperature}", "k": [1, "{option:top_k}"]}, {"temperature": 0}, {"p": "2+2?", "t": 0, "k": [1]}),
        ({"p": "{user}", "o": "{options}"}, {"a": 1, "b": [2]}, {"p": "2+2?", "o": {"a": 1, "b": [2]}}),
        (["{user}", {"deep": {"x": "{model}"}}, 3, None], {}, ["2+2?", {"deep": {"x": "team"}}, 3, None]),
        ({"p": "{user}", "json": '{"a": {}}', "n": "{ user }"}, {}, {"p": "2+2?", "json": '{"a": {}}', "n": "{ user }"}),
    ],
)
def test_the_body_is_what_the_template_says(body, options, sent):
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        assert gateway(stub, body=body)(CHAT, **options).completions == ["4"]
        assert stub.bodies == [sent]
        assert stub.paths == ["/v1/generate?tenant=7"]


def test_what_a_prompt_says_is_filled_in_once():
    hostile = "{model} {options} {option:x} {0.__class__} $x ${HOME}"
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        gateway(stub, body={"p": "<{user}>", "m": "{messages}"})(hostile)
        assert stub.bodies[0] == {"p": f"<{hostile}>", "m": [{"role": "user", "content": hostile}]}


@pytest.mark.parametrize(
    ("text", "reply", "answer"),
    [
        ("out", {"out": "4"}, "4"),
        ("output.0.text", {"output": [{"text": "4"}]}, "4"),
        ("choices[0].message.content", {"choices": [{"message": {"content": "4"}}]}, "4"),
        ("output.-1", {"output": ["a", "4"]}, "4"),
        (["nowhere", "out"], {"out": "4"}, "4"),
        ("out", {"out": ""}, ""),
        ("out", {"out": {"a": 1}}, '{"a":1}'),
        ("out", {"out": 4}, "4"),
    ],
)
def test_the_answer_stands_where_the_path_leads(text, reply, answer):
    with ModelStub(lambda number, _: replied(**reply)) as stub:
        assert gateway(stub, text=text)("2+2?").completions == [answer]


def test_a_reply_may_be_text_itself():
    with ModelStub(lambda number, _: Answer(body="vier ü".encode())) as stub:
        assert gateway(stub, text=".")("2+2?").completions == ["vier ü"]


def test_what_else_the_reply_tells_is_kept():
    reply = {"out": "4", "why": "length", "thought": "two and two", "by": "team-2", "calls": [{"id": "c"}], "n": {"in": 3, "out": 1}}
    with ModelStub(lambda number, _: replied(**reply)) as stub:
        completion = gateway(
            stub,
            finish_reason="why",
            reasoning="thought",
            answered_by="by",
            tool_calls="calls",
            usage={"input_tokens": "n.in", "output_tokens": "n.out"},
        )("2+2?")
    assert (completion.outcomes, completion.reasoning, completion.model) == (["truncated"], ["two and two"], "team-2")
    assert completion.tool_calls == [[{"id": "c"}]]
    assert (completion.usage.input_tokens, completion.usage.output_tokens, completion.usage.unknown) == (3, 1, 0)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ({"other": 1}, r"nothing stands at out in it \(it has: other\)"),
        ({"fault": "no room", "out": "4"}, "it tells an error: no room"),
    ],
)
def test_a_reply_without_an_answer_is_tried_again_and_told(reply, told):
    with ModelStub(lambda number, _: replied(**reply)) as stub:
        with pytest.raises(BadReply, match=told):
            gateway(stub, error="fault")("2+2?")
        assert stub.count == 2


def test_headers_are_sent_and_never_shown():
    with ModelStub(lambda number, _: refused(401, "token tok-planted-0123456789 is bad")) as stub:
        model = gateway(stub, headers={"X-Team-Auth": "tok-planted-0123456789", "x-trace": "on"})
        with pytest.raises(ModelUnavailable, match=r"token \*\*\* is bad") as caught:
            model("2+2?")
        assert (stub.headers[0]["x-team-auth"], stub.headers[0]["x-trace"]) == ("tok-planted-0123456789", "on")
    assert "planted" not in f"{caught.value}{model!r}{vars(model)}"


def test_another_method_is_used():
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        stub._server.RequestHandlerClass.do_PUT = stub._server.RequestHandlerClass.do_POST
        assert gateway(stub, method="put")("2+2?").completions == ["4"]


def test_its_answers_depend_on_all_that_it_is_sent():
    def identity(**arguments):
        made = {"url": "http://h/x", "body": {"p": "{prompt}"}, "text": "out", **arguments}
        return json.dumps(GatewayCompletionFn("m", **made).cache_identity({}), sort_keys=True)

    others = [{"url": "http://h/y"}, {"body": {"q": "{prompt}"}}, {"text": "in"}, {"headers": {"a": "b"}}, {"method": "PUT"}]
    assert len({identity(), *(identity(**other) for other in others)}) == 1 + len(others)


def test_an_event_loop_asks_it_as_well():
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        assert asyncio.run(ask(gateway(stub), "2+2?")).get_completions() == ["4"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"body": {"p": "{promt}"}}, r"body: \{promt\} stands for nothing \(closest: prompt\); body has no place for the prompt"),
        ({"body": {"p": "{user}", "t": "{option:}"}}, r"\{option:\} stands for nothing"),
        ({"body": {"m": "{model}"}}, "body has no place for the prompt"),
        ({"body": 3}, "body holds no text"),
        ({"text": []}, "text names no path"),
        ({"text": 3}, "text is a path such as output.0.text, not 3"),
        ({"error": "[]"}, "error is a path such as output.0.text"),
        ({"usage": {"tokens": "a"}}, "usage tells input_tokens, .*, not tokens"),
        ({"temperature": 1}, 'This gateway takes no option "temperature"'),
    ],
)
def test_what_is_described_wrongly_is_told_when_it_is_built(arguments, told):
    with pytest.raises(BadArguments, match=told):
        GatewayCompletionFn("m", **{"url": "http://h/x", "body": {"p": "{prompt}"}, "text": "out", **arguments})
