"""What an event loop sends over: the same faults in the same words as threads', and nothing left behind when a loop ends."""

import asyncio
import subprocess
import sys
import time

import pytest
from loopback import Answer, ModelStub, chat, free_port, said

from evalframe import ask
from evalframe.completion_fns.aio_transport import AioTransport
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.completion_fns.transport import Transport
from evalframe.core.completion import Send
from evalframe.core.errors import BadSetting, CallFailed, ModelUnavailable
from evalframe.resilience.retry import RetryPolicy

ONCE = RetryPolicy(max_tries=1)
GOOD = Answer(body=chat({"content": "4"}), headers={"X-Odd": "a"})


def by_thread(request):
    transport = Transport()
    try:
        return transport.send(request)
    finally:
        transport.close()


def by_loop(request):
    async def send():
        return await AioTransport().send(request)

    return asyncio.run(send())


BOTH = pytest.mark.parametrize("send", [by_thread, by_loop])


def request(url, timeout_s=5.0, **headers):
    return Send(
        f"{url}/chat/completions", {"content-type": "application/json", "user-agent": "evalframe", **headers}, b'{"a": 1}', timeout_s
    )


@BOTH
def test_a_reply_comes_whole_with_its_headers_in_lower_case(send):
    with ModelStub(lambda number, body: GOOD) as stub:
        reply = send(request(stub.base_url, authorization="Bearer k"))
        assert (reply.status, reply.body, reply.headers["x-odd"], reply.fault) == (200, GOOD.body, "a", None)
        assert stub.bodies == [{"a": 1}]
        headers = stub.headers[0]
        assert (headers["authorization"], headers["user-agent"], headers["content-type"]) == ("Bearer k", "evalframe", "application/json")


@BOTH
@pytest.mark.parametrize(
    ("answer", "timeout_s", "fault"),
    [
        (Answer(body=chat({"content": "4"}), trickle_s=0.02), 0.2, "no whole reply from 127.0.0.1:PORT within 0.2 s"),
        (Answer(body=chat({"content": "4"}), delay_s=30.0), 0.2, "no whole reply from 127.0.0.1:PORT within 0.2 s"),
        (Answer(body=chat({"content": "4"}), cut_after=20), 5.0, "connection closed by 127.0.0.1:PORT in the middle of its reply"),
    ],
    ids=["trickle", "silence", "cut"],
)
def test_a_fault_of_the_network_is_a_reply_that_names_it(send, answer, timeout_s, fault):
    with ModelStub(lambda number, body: answer) as stub:
        began = time.monotonic()
        reply = send(request(stub.base_url, timeout_s))
        assert time.monotonic() - began < 10
        assert (reply.status, reply.timed_out) == (0, timeout_s < 1)
        assert reply.fault.startswith(fault.replace("PORT", str(stub.port)))


@BOTH
def test_a_reset_is_told(send):
    with ModelStub(lambda number, body: Answer(body=b"x" * 100, cut_after=0, reset=True)) as stub:
        fault = send(request(stub.base_url)).fault
    assert fault.startswith(("connection reset by 127.0.0.1", "connection closed by 127.0.0.1"))


@BOTH
def test_nobody_listening_and_no_such_host_are_told(send):
    port = free_port()
    assert send(request(f"http://127.0.0.1:{port}/v1")).fault == f"connection refused by 127.0.0.1:{port}"
    assert send(request("http://no-such-host.invalid/v1")).fault == "no such host: no-such-host.invalid"


@BOTH
def test_a_redirect_is_not_followed(send):
    with ModelStub(lambda number, body: Answer(302, {"location": "/elsewhere"})) as stub:
        assert send(request(stub.base_url)).status == 302
        assert stub.count == 1


@BOTH
def test_a_proxy_is_gone_through_unless_the_host_is_listed(send, monkeypatch):
    with ModelStub(lambda number, body: said("by proxy")) as proxy, ModelStub(lambda number, body: said("direct")) as stub:
        monkeypatch.setenv("http_proxy", f"http://user:secret@127.0.0.1:{proxy.port}")
        assert b"by proxy" in send(request(stub.base_url)).body
        assert proxy.paths == [f"{stub.base_url}/chat/completions"]
        assert proxy.headers[0]["proxy-authorization"].startswith("Basic ")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert b"direct" in send(request(stub.base_url)).body


@BOTH
def test_a_proxy_that_does_not_answer_is_named_without_its_password(send, monkeypatch):
    port = free_port()
    monkeypatch.setenv("http_proxy", f"http://user:secret@127.0.0.1:{port}")
    fault = send(request("http://model.internal/v1")).fault
    assert fault == f"no way through the proxy 127.0.0.1:{port}: connection refused by 127.0.0.1:{port}"


@BOTH
def test_a_proxy_that_wants_a_password_is_told(send, monkeypatch):
    with ModelStub(lambda number, body: Answer(407)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        reply = send(request("http://model.internal/v1"))
    assert reply.status == 407
    assert f"the proxy 127.0.0.1:{proxy.port} asks for a user".encode() in reply.body


def test_a_socks_proxy_is_refused_with_a_way_out(monkeypatch):
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(BadSetting, match="Leave out --executor coroutines"):
        by_loop(request("http://model.internal/v1"))


def test_connections_are_kept_and_shared_by_tasks():
    async def crowd(model):
        for _ in range(10):
            await asyncio.gather(*(ask(model, "2+2?") for _ in range(5)))

    with ModelStub(lambda number, body: said("4")) as stub:
        asyncio.run(crowd(OpenAIChatCompletionFn("m", base_url=stub.base_url)))
        assert (stub.count, stub.connections <= 6) == (50, True)


def test_one_function_serves_one_loop_after_another():
    with ModelStub(lambda number, body: said("4")) as stub:
        model = OpenAIChatCompletionFn("m", base_url=stub.base_url)
        for _ in range(3):
            assert asyncio.run(ask(model, "2+2?")).get_completions() == ["4"]
        assert model._senders.on_event_loop._sessions == {}


def test_a_task_that_is_cancelled_leaves_no_connection_that_is_used_again():
    async def main(model):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ask(model, "slow")
        return await ask(model, "2+2?")

    with ModelStub(lambda number, body: said("4") if number > 1 else Answer(body=chat({"content": "late"}), delay_s=0.5)) as stub:
        assert asyncio.run(main(OpenAIChatCompletionFn("m", base_url=stub.base_url))).get_completions() == ["4"]


def test_errors_are_those_of_threads():
    with ModelStub(lambda number, body: Answer(401, body=b'{"error": {"message": "no"}}')) as stub, pytest.raises(ModelUnavailable):
        asyncio.run(ask(OpenAIChatCompletionFn("m", base_url=stub.base_url), "2+2?"))
    with pytest.raises(CallFailed, match=r"failed 1 time in .* connection refused"):
        asyncio.run(ask(OpenAIChatCompletionFn("m", base_url=f"http://127.0.0.1:{free_port()}/v1", retry_policy=ONCE), "2+2?"))


def test_no_warning_is_left_behind_by_a_process_that_ends():
    program = (
        "import asyncio, sys; from evalframe import ask; from evalframe.completion_fns.openai import OpenAIChatCompletionFn\n"
        "from evalframe.executors.coroutines import on_shared_loop\n"
        "model = OpenAIChatCompletionFn('m', base_url=sys.argv[1])\n"
        "print(asyncio.run(ask(model, 'q')).get_completions())\n"
        "print(on_shared_loop(lambda item: ask(model, item))('q').get_completions())\n"
    )
    with ModelStub(lambda number, body: said("4")) as stub:
        command = [sys.executable, "-W", "error", "-c", program, stub.base_url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("['4']\n['4']\n", "")


def test_what_is_no_http_is_told_without_the_address_query():
    async def answer(reader, writer):
        await reader.read(1 << 16)
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        model = OpenAIChatCompletionFn("m", base_url=f"http://127.0.0.1:{port}/v1?key=planted-0123", retry_policy=ONCE)
        with pytest.raises(CallFailed, match=f"127.0.0.1:{port} sent no valid HTTP: Bad status line") as caught:
            await ask(model, "2+2?")
        assert "planted" not in str(caught.value)
        server.close()

    asyncio.run(main())
