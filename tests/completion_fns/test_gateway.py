import asyncio
import json

import pytest
from loopback import Answer, ModelStub, refused

from evalframe import ask
from evalframe.completion_fns.gateway import GatewayCompletionFn
from evalframe.completion_fns.repair import Learnt
from evalframe.core.errors import BadArguments, BadReply, Faults, ModelUnavailable, RequestRefused
from evalframe.resilience.rates import Limiters
from evalframe.resilience.retry import RetryPolicy

SOON = RetryPolicy(max_tries=2, first_wait_s=0.001)
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]


def replied(**body):
    return in_json(body)


def in_json(body):
    return Answer(body=json.dumps(body).encode())


def gateway(stub, **arguments):
    usual = {"body": {"turns": "{messages}"}, "text": "out", "retry_policy": SOON, "limiters": Limiters()}
    return GatewayCompletionFn("team", **{"url": f"{stub.base_url}/generate?tenant=7", **usual, **arguments})


@pytest.mark.parametrize(
    ("body", "options", "sent"),
    [
        ({"turns": "{messages}"}, {}, {"turns": CHAT}),
        ({"p": "{prompt}"}, {}, {"p": "Be brief.\nUser: 2+2?\nAssistant:"}),
        ({"s": "{system}", "u": "{user}", "m": "{model}"}, {}, {"s": "Be brief.", "u": "2+2?", "m": "team"}),
        ({"p": "<{user}> by {model}"}, {}, {"p": "<2+2?> by team"}),
        ({"p": "{user}", "t": "{option:temperature}", "k": [1, "{option:top_k}"]}, {"temperature": 0}, {"p": "2+2?", "t": 0, "k": [1]}),
        ({"p": "{user}", "o": "{options}"}, {"a": 1, "b": [2]}, {"p": "2+2?", "o": {"a": 1, "b": [2]}}),
        ({"p": "{user}", "t": "at {option:temperature}"}, {}, {"p": "2+2?", "t": "at "}),
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
        ("out", {"out": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}]}, "42"),
        ("out", {"out": [1, 2]}, "[1,2]"),
        ("a.7", {"a": {"7": "4"}}, "4"),  # a number may be a name
        ("0.generated_text", [{"generated_text": "4"}], "4"),
        ("[0].text", [{"text": "4"}], "4"),
    ],
)
def test_the_answer_stands_where_the_path_leads(text, reply, answer):
    with ModelStub(lambda number, _: in_json(reply)) as stub:
        assert gateway(stub, text=text)("2+2?").completions == [answer]


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ({"out": None}, "empty"),
        ({"out": {"text": None}}, "empty"),
        ({"out": None, "why": "content_filter"}, "refused"),
        ({"why": "content_filter"}, "refused"),  # some leave the text out then
        ({"why": "max_tokens"}, "truncated"),
        ({"out": None, "calls": [{"id": "c"}]}, "answered"),
        ({"calls": [{"id": "c"}]}, "answered"),
    ],
)
def test_an_answer_without_a_text_is_an_answer_all_the_same(reply, outcome):
    with ModelStub(lambda number, _: replied(**reply)) as stub:
        completion = gateway(stub, text="out.text", finish_reason="why", tool_calls="calls")("2+2?")
        assert (completion.completions, completion.outcomes, stub.count) == ([""], [outcome], 1)


def test_a_reply_may_be_text_itself():
    with ModelStub(lambda number, _: Answer(body="\ufeffvier ü".encode())) as stub:
        assert gateway(stub, text=".")("2+2?").completions == ["vier ü"]


def test_a_web_page_is_no_answer():
    page = Answer(headers={"content-type": "text/html; charset=utf-8"}, body=b"<!DOCTYPE html><title>Log in</title>")
    with ModelStub(lambda number, _: page) as stub, pytest.raises(BadReply, match="it is a web page"):
        gateway(stub, text=".")("2+2?")


def test_the_address_is_asked_as_it_is_written():  # whether it ends in a slash matters to many frameworks
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        for end in ("/generate", "/generate/", "/generate/?a=b/", ""):
            gateway(stub, url=f"{stub.base_url}{end}")("2+2?")
        gateway(stub, base_url=f"{stub.base_url}/other/")("2+2?")  # as --completion_args would say it
        assert stub.paths == ["/v1/generate", "/v1/generate/", "/v1/generate/?a=b/", "/v1", "/v1/other/"]


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
        ([], r"nothing stands at out in it \(it has: a list of 0\)"),
        ({"fault": "no room", "out": "4"}, "it tells an error: no room"),
        ({"fault": {"code": 7}, "out": "4"}, 'it tells an error: {"code":7}'),
    ],
)
def test_a_reply_without_an_answer_is_tried_again_and_told(reply, told):
    with ModelStub(lambda number, _: in_json(reply)) as stub:
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


@pytest.mark.parametrize("reply", [{"fault": "token tok-planted 0123456789 is bad"}, {"tok-planted 0123456789": 1}])
def test_a_gateway_that_repeats_its_headers_tells_nobody_of_them(reply):
    with ModelStub(lambda number, _: replied(**reply)) as stub:
        with pytest.raises(BadReply) as caught:
            gateway(stub, error="fault", headers={"x-who": "tok-planted 0123456789"})("2+2?")
        assert "tok-planted" not in str(caught.value).partition("Its body begins")[0]


def test_a_header_that_yaml_reads_as_no_text_is_sent_as_one():
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        gateway(stub, headers={"x-tenant": 7, "x-trace": True})("2+2?")
        assert (stub.headers[0]["x-tenant"], stub.headers[0]["x-trace"]) == ("7", "true")


PICTURE = {"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": "https://h/a.png"}}]}
CALLING = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}],
}


@pytest.mark.parametrize("message", [PICTURE, CALLING])
def test_what_only_messages_can_hold_is_not_lost_on_the_way(message):
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        assert gateway(stub)([message]).completions == ["4"]
        assert stub.bodies[0]["turns"] == [message]
        for body in ({"p": "{prompt}"}, {"p": "{user}"}):
            with pytest.raises(RequestRefused, match="This gateway is sent text only"):
                gateway(stub, body=body)([message])
        assert stub.count == 1


@pytest.mark.parametrize(
    ("body", "prompt", "is_told"),
    [
        ({"p": "{user}"}, "2+2?", False),
        ({"p": "{user}"}, CHAT, True),
        ({"p": "{user}", "s": "{system}"}, CHAT, False),
        ({"p": "{user}", "s": "{system}"}, [*CHAT, {"role": "assistant", "content": "4"}, CHAT[1]], True),
        ({"p": "{prompt}"}, CHAT, False),
        ({"p": "{messages}", "q": "{user}"}, CHAT, False),
    ],
)
def test_messages_that_have_no_place_are_told_at_the_end(body, prompt, is_told):
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        model = gateway(stub, body=body)
        model(prompt)
    assert any("only the user's last message" in said for said in model.notices()) is is_told


@pytest.mark.parametrize(
    ("body", "options", "sent"),
    [
        ({"p": "{user}"}, {"n": 1, "stream": False}, {"p": "q"}),  # the one answer that is read anyway
        ({"p": "{user}", "k": "{option:n}"}, {"n": 1}, {"p": "q", "k": 1}),
        ({"p": "{user}"}, {"seed": 3}, {"p": "q"}),  # in ignores
        ({"p": "{user}", "o": "{options}"}, {"seed": 3, "temperature": 0}, {"p": "q", "o": {"temperature": 0}}),
        ({"p": "{user}", "o": "{options}"}, {"temperature": None}, {"p": "q", "o": {}}),
    ],
)
def test_only_options_that_are_wanted_and_have_a_place_are_sent(body, options, sent):
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        completion = gateway(stub, body=body, ignores=["seed"])("q", **options)
        assert stub.bodies == [sent]
        assert "seed" not in completion.options


@pytest.mark.parametrize(
    ("body", "options", "told"),
    [
        ({"p": "{user}"}, {"temperature": 0}, r'no option "temperature"\. Give it a place in body: "\{option:temperature\}"'),
        ({"p": "{user}", "o": "{options}"}, {"n": 3}, "n=3 cannot be asked for"),
        ({"p": "{user}", "o": "{options}"}, {"stream": True}, "stream=True cannot be asked for"),
    ],
)
def test_an_option_without_a_place_is_refused(body, options, told):
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        with pytest.raises(BadArguments, match=told):
            gateway(stub, body=body)("q", **options)
        assert stub.count == 0


@pytest.mark.parametrize(
    ("body", "options", "said", "then"),
    [
        (
            {"p": "{user}", "s": {"temp": "{option:temperature}"}},
            {"temperature": 1},
            "'s.temp' is not supported by this model",
            {"p": "q", "s": {}},
        ),
        (
            {"p": "{user}", "o": "{options}"},
            {"max_tokens": 5},
            "'max_tokens' is not supported with this model",
            {"p": "q", "o": {"max_completion_tokens": 5}},
        ),
    ],
)
def test_an_option_that_is_refused_is_known_by_its_name_in_the_body(body, options, said, then):
    with ModelStub(lambda number, _: refused(400, said) if number == 1 else replied(out="4")) as stub:
        model = gateway(stub, body=body, learnt=Learnt())
        assert model("q", **options).completions == ["4"]
        assert stub.bodies[1] == then


def test_another_method_is_used():
    with ModelStub(lambda number, _: replied(out="4")) as stub:
        stub._server.RequestHandlerClass.do_PUT = stub._server.RequestHandlerClass.do_POST
        assert gateway(stub, method="put")("2+2?").completions == ["4"]


def test_its_answers_depend_on_all_that_it_is_sent():
    def identity(**arguments):
        made = {"url": "http://h/x", "body": {"p": "{prompt}"}, "text": "out", **arguments}
        return json.dumps(GatewayCompletionFn("m", **made).cache_identity({}), sort_keys=True)

    others = [
        {"url": "http://h/y"}, {"body": {"q": "{prompt}"}}, {"text": "in"}, {"headers": {"x-tenant": "b"}}, {"method": "PUT"},
        {"reasoning": "why"}, {"usage": {"input_tokens": "in"}},
    ]  # fmt: skip
    assert len({identity(), *(identity(**other) for other in others)}) == 1 + len(others)
    assert identity(headers={"authorization": "Bearer of today"}) == identity(headers={"authorization": "Bearer of tomorrow"})


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
        ({"error": "."}, "error is a path such as output.0.text"),
        ({"text": "out["}, r"text is a path such as output\.0\.text, not 'out\['"),
        ({"text": "a..b"}, "text is a path"),
        ({"text": "a[b]"}, "text is a path"),
        ({"text": ["out", "."]}, r'text "\." is a whole reply that is text'),
        ({"text": "", "reasoning": "a"}, r"no paths lead anywhere \(reasoning\)"),
        ({"body": {"{model}": "{user}"}}, r"body: \{model\} is a name, and names are not filled"),
        ({"method": "GET"}, "method is POST, PUT, PATCH, not GET"),
        ({"headers": "x: y"}, "headers maps names to values"),
        ({"headers": {"x-a": None}}, "The header x-a has no text for a value, but nothing"),
        ({"usage": "n"}, "usage maps input_tokens"),
        ({"extra_options": {"top_k": 1}}, 'This gateway takes no option "top_k"'),
        ({"usage": {"tokens": "a"}}, "usage tells input_tokens, .*, not tokens"),
        ({"temperature": 1}, 'This gateway takes no option "temperature"'),
    ],
)
def test_what_is_described_wrongly_is_told_when_it_is_built(arguments, told):
    with pytest.raises(BadArguments, match=told):
        GatewayCompletionFn("m", **{"url": "http://h/x", "body": {"p": "{prompt}"}, "text": "out", **arguments})


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(Faults) as caught:
        GatewayCompletionFn("m", url="ftp://h", body={"p": "{promt}"}, text="a[", headers={"x-a": "ü"}, temprature=1)
    told = str(caught.value)
    assert all(
        part in told for part in ("{promt} stands for nothing", "not 'a['", "The header x-a holds characters", "ftp://h", '"temprature"')
    )
    assert "ü" not in told
