import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest
from loopback import Answer, ModelStub, chat, free_port, said

from evalframe.completion_fns import transport as transport_module
from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.completion_fns.transport import Transport, certificates
from evalframe.core.completion import Send
from evalframe.core.errors import BadSetting, CallFailed, ModelUnavailable
from evalframe.resilience.retry import RetryPolicy

ONCE = RetryPolicy(max_tries=1)


@pytest.fixture
def transport():
    transport = Transport()
    yield transport
    transport.close()


def ask(stub, timeout_s=5.0, **request):
    return Send(
        **{"url": f"{stub.base_url}/x", "headers": {"authorization": "Bearer sk-secret"}, "body": b"{}", "timeout_s": timeout_s, **request}
    )


def test_a_reply_comes_back_with_lower_case_headers(transport):
    with ModelStub(lambda number, body: (418, {"Retry-After": "1"}, b"tea")) as stub:
        reply = transport.send(ask(stub))
    assert (reply.status, reply.body, reply.headers["retry-after"], reply.fault) == (418, b"tea", "1", None)


def test_a_redirect_is_not_followed(transport):
    with ModelStub(lambda number, body: (307, {"location": "/elsewhere"}, b"")) as stub:
        assert transport.send(ask(stub)).status == 307
        assert stub.count == 1


@pytest.mark.parametrize(
    ("answer", "fault", "timed_out"),
    [
        (Answer(body=b"x" * 50, trickle_s=0.02), "no whole reply from HOST within 0.1 s", True),
        (Answer(body=b"x" * 50, headers={"x-long": "y" * 100}, trickle_s=0.02), "no whole reply from HOST within 0.1 s", True),
        (Answer(body=b"x", delay_s=30.0), "no whole reply from HOST within 0.1 s", True),
    ],
)
def test_an_exchange_ends_at_its_time_limit(transport, answer, fault, timed_out):
    with ModelStub(lambda number, body: answer) as stub:
        reply = transport.send(ask(stub, timeout_s=0.1))
        assert (reply.status, reply.fault, reply.timed_out) == (0, fault.replace("HOST", f"127.0.0.1:{stub.port}"), timed_out)


def test_a_connection_that_was_too_slow_is_not_used_again(transport):
    with ModelStub(lambda number, body: Answer(body=b"late", delay_s=0.3) if number == 1 else Answer(body=b"good")) as stub:
        assert transport.send(ask(stub, timeout_s=0.05)).timed_out
        assert transport.send(ask(stub)).body == b"good"


def test_a_second_exchange_on_a_connection_has_a_limit_of_its_own(transport):
    with ModelStub(lambda number, body: Answer(body=b"good", delay_s=0.06)) as stub:
        assert [transport.send(ask(stub, timeout_s=1.0)).body for _ in range(4)] == [b"good"] * 4
        assert stub.connections == 1


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Answer(body=b"x" * 50, cut_after=9), "connection closed by HOST in the middle of its reply"),
        (Answer(body=b"x" * 50, cut_after=9, reset=True), "connection reset by HOST|closed by HOST in the middle"),
        (Answer(headers={"content-length": "many"}), "HOST"),
        (Answer(headers={"content-encoding": "gzip"}, body=b"not gzip"), "HOST"),
    ],
)
def test_a_broken_reply_is_a_fault_with_a_name(transport, answer, fault):
    with ModelStub(lambda number, body: answer) as stub:
        reply = transport.send(ask(stub, timeout_s=0.5))
    if reply.fault is None:
        assert reply.body == b""  # a length that is no number counts as none
    else:
        assert any(part.replace("HOST", f"127.0.0.1:{stub.port}") in reply.fault for part in fault.split("|"))
        assert "secret" not in reply.fault


def test_what_answers_no_http_is_a_fault(transport):
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            with server.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

        threading.Thread(target=greet, daemon=True).start()
        reply = transport.send(Send(f"http://127.0.0.1:{server.getsockname()[1]}/", {}, b"{}", 2.0))
    assert reply.status == 0
    assert "127.0.0.1" in reply.fault


def test_a_reply_that_never_ends_is_cut(transport, monkeypatch):
    monkeypatch.setattr(transport_module, "LARGEST_BODY_BYTES", 1 << 20)
    with ModelStub(lambda number, body: Answer(body=b" " * ((1 << 20) + 1) if number == 1 else b"good")) as stub:
        assert transport.send(ask(stub)).fault == f"the reply of 127.0.0.1:{stub.port} is longer than 1 MiB"
        assert transport.send(ask(stub)).body == b"good"


@pytest.mark.parametrize("url", ["http://no-such-host.invalid/v1", "https://127.0.0.1:{closed}/v1"])
def test_a_host_that_is_not_there_is_a_fault(transport, url):
    reply = transport.send(Send(url.format(closed=free_port()), {}, b"{}", 1.0))
    assert reply.fault.startswith(("no such host: no-such-host.invalid", "connection refused by 127.0.0.1:", "no-such-host.invalid"))


def test_https_to_a_server_without_it_is_told(transport):
    with ModelStub(lambda number, body: said("4")) as stub:
        reply = transport.send(Send(f"https://127.0.0.1:{stub.port}/v1", {}, b"{}", 1.0))
    assert reply.fault.startswith(f"no secure connection to 127.0.0.1:{stub.port}")


# ---------------------------------------------------------------------- proxies: CFN-17


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
@pytest.mark.parametrize(
    ("bypass", "through"), [({}, True), ({"no_proxy": "127.0.0.1"}, False), ({"NO_PROXY": "10.0.0.1,127.0.0.1"}, False)]
)
def test_proxies_and_their_exceptions_are_followed(monkeypatch, variable, bypass, through):
    with ModelStub(lambda number, body: said("direct")) as stub, ModelStub(lambda number, body: said("by proxy")) as proxy:
        for name, value in {variable: f"http://user:pw@127.0.0.1:{proxy.port}", **bypass}.items():
            monkeypatch.setenv(name, value)
        model = OpenAIChatCompletionFn("m", base_url=stub.base_url, retry_policy=ONCE)
        assert model("2+2?").completions == ["by proxy" if through else "direct"]
        assert (proxy.count, stub.count) == ((1, 0) if through else (0, 1))
        if through:
            assert proxy.paths == [f"{stub.base_url}/chat/completions"]
            assert proxy.headers[0]["proxy-authorization"] == "Basic dXNlcjpwdw=="


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_fault_of_the_proxy_names_the_proxy_without_its_password(monkeypatch, scheme):
    port = free_port()
    monkeypatch.setenv(f"{scheme}_proxy", f"http://user:secret@127.0.0.1:{port}")
    model = OpenAIChatCompletionFn("m", base_url=f"{scheme}://127.0.0.1:1/v1", retry_policy=ONCE)
    with pytest.raises(CallFailed, match=f"no way through the proxy 127.0.0.1:{port}: connection refused") as caught:
        model("2+2?")
    assert "secret" not in str(caught.value)


def test_a_port_that_looks_like_a_status_is_none():
    from urllib3.exceptions import NewConnectionError, ProxyError

    refused = NewConnectionError(None, "HTTPConnection(host='127.0.0.1', port=50407): Failed to establish a new connection")
    told = transport_module.fault(ProxyError("no way", refused), Send("http://h/v1", {}, b""), "http://127.0.0.1:50407")
    assert told.status == 0
    assert told.fault.startswith("no way through the proxy 127.0.0.1:50407")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_password_ends_the_run_and_is_named(monkeypatch, scheme):
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer():
            connection, _ = server.accept()
            with connection:
                while b"\r\n\r\n" not in connection.recv(1 << 16):
                    pass
                connection.sendall(refusal)

        threading.Thread(target=answer, daemon=True).start()
        monkeypatch.setenv(f"{scheme}_proxy", f"http://user:secret@127.0.0.1:{port}")
        model = OpenAIChatCompletionFn("m", base_url=f"{scheme}://model.internal/v1", retry_policy=ONCE)
        with pytest.raises(ModelUnavailable, match=f"answers 407: the proxy 127.0.0.1:{port} asks for a user") as caught:
            model("2+2?")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["ftp://host:1", "http://host:port", "http://"])
def test_a_proxy_that_is_none_is_a_bad_setting(monkeypatch, transport, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(BadSetting, match="is no URL of a proxy"):
        transport.send(Send("http://127.0.0.1:1/", {}, b"{}", 1.0))


# ---------------------------------------------------------------------- certificates


def test_certificates_are_those_of_certifi_unless_a_variable_names_others(monkeypatch, tmp_path):
    import certifi

    assert certificates().verify_mode is ssl.CERT_REQUIRED
    many = len(certificates().get_ca_certs())
    text = certifi.contents()
    (tmp_path / "one.pem").write_text(text[: text.index("-----END CERTIFICATE-----")] + "-----END CERTIFICATE-----\n", encoding="utf-8")
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "one.pem"))
        assert len(certificates().get_ca_certs()) == 1 < many
        monkeypatch.setenv(name, str(tmp_path / "none.pem"))
        with pytest.raises(BadSetting, match=f"{name} names certificates that cannot be read"):
            certificates()
        monkeypatch.delenv(name)


def test_urllib3_and_requests_are_imported_only_when_something_is_sent():
    code = (
        "import sys, evalframe.completion_fns.openai as o; o.OpenAIChatCompletionFn('m', base_url='http://127.0.0.1:1/v1');"
        "print(sorted({'urllib3', 'requests', 'ssl', 'http.client'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout == "[]\n"


def test_a_chunked_reply_is_put_together(transport):
    body = chat({"content": "4"})
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:])) + b"0\r\n\r\n"

    def answer(number, _):
        return Answer(headers={"transfer-encoding": "chunked", "content-length": ""}, body=chunked)

    with ModelStub(answer) as stub:
        assert transport.send(ask(stub)).body == body


@pytest.fixture
def https(tmp_path):
    """A server with a certificate that nobody has signed but itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    certificate, key = tmp_path / "own.pem", tmp_path / "own.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    with ModelStub(lambda number, body: said("4")) as stub:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        stub._server.socket = context.wrap_socket(stub._server.socket, server_side=True, do_handshake_on_connect=False)
        yield f"https://localhost:{stub.port}/v1", certificate


def test_a_certificate_that_is_not_trusted_is_told_at_once(https):
    began = time.monotonic()
    with pytest.raises(ModelUnavailable, match=r"no secure connection to localhost.*Trust a certificate of your own by SSL_CERT_FILE"):
        OpenAIChatCompletionFn("m", base_url=https[0])("2+2?")
    assert time.monotonic() - began < 20  # tries again would have taken a minute


def test_a_certificate_of_ones_own_is_trusted_by_a_variable(https, monkeypatch):
    url, certificate = https
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert OpenAIChatCompletionFn("m", base_url=url)("2+2?").completions == ["4"]
