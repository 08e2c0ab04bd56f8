import pytest

from evalframe.core.secrets import Secrets, names_secret


@pytest.mark.parametrize(("name", "secret"), [
    ("api_key", True), ("OPENAI_API_KEY", True), ("Authorization", True), ("token", True), ("client_secret", True), ("x-api-key", True),
    ("hf_token", True), ("password", True), ("api_key_env", False), ("max_tokens", False), ("token_limit", False), ("keys", True),
    ("monkey", False), ("model", False), ("tokens", True), ("max_completion_tokens", False), (7, False),
])  # fmt: skip
def test_a_name_tells_a_secret(name, secret):
    assert names_secret(name) is secret


def test_arguments_are_masked_by_name_however_deep():
    arguments = {"model": "m", "headers": {"Authorization": "Bearer abc", "Accept": "json"}, "list": [{"api_key": "k"}], "api_key": None}
    assert Secrets().mask_arguments(arguments) == {
        "model": "m",
        "headers": {"Authorization": "***", "Accept": "json"},
        "list": [{"api_key": "***"}],
        "api_key": None,
    }


def test_userinfo_in_a_url_is_masked():
    assert Secrets().mask("see http://user:pass@host:1/x and http://host/a@b") == "see http://***@host:1/x and http://host/a@b"


def test_values_of_the_environment_are_masked_in_any_text():
    secrets = Secrets.from_environment({"MY_API_KEY": "sk-123456", "HF_TOKEN": "hf_abcdef", "HOME": "/home/someone", "A_TOKEN": "1"})
    assert secrets.mask("sk-123456 hf_abcdef /home/someone 1") == "*** *** /home/someone 1"


def test_a_longer_secret_is_masked_whole():
    assert Secrets(["sk-12345678", "sk-12345678-more"]).mask("sk-12345678-more") == "***"


def test_secrets_among_arguments_are_learnt():
    secrets = Secrets()
    secrets.add_arguments({"extra_headers": {"Authorization": "Bearer 12345"}, "list": [{"token": "abcdefgh"}], "model": "abcdefghi"})
    assert secrets.mask("Bearer 12345, abcdefgh, model") == "***, ***, model"


@pytest.mark.parametrize("secret", ["completed", "20220722", "sampling-x", "a.dev.0 more"])
def test_a_secret_that_is_a_common_word_or_number_breaks_no_line_of_a_log(secret):
    secrets = Secrets([secret])
    line = {
        "run_id": "r", "event_id": 20220722, "sample_id": "a.dev.0", "type": "sample",
        "data": {"status": "completed", "input_sha256": "20220722ab", "seed": 20220722, "said": f"it is {secret}."},
    }  # fmt: skip
    masked = secrets.mask_line(line)
    assert masked["data"].pop("said") == "it is ***."
    assert {**line, "data": {key: value for key, value in line["data"].items() if key != "said"}} == masked
    final = {"final_report": {"n": 3}, "status": "completed", "samples": {"completed": 3}}
    assert secrets.mask_line(final) == final
    spec = secrets.mask_line({"spec": {"run_id": "20220722-1", "seed": 20220722, "command": f"run {secret}"}})
    assert spec == {"spec": {"run_id": "20220722-1", "seed": 20220722, "command": "run ***"}}


def test_the_query_of_a_url_is_masked_where_its_name_says_so():
    text = "https://h/x?key=abcdefgh&api-version=2024-10-21&sig=zz%2F and a?b=c&code=1234#f"
    assert Secrets().mask(text) == "https://h/x?key=***&api-version=2024-10-21&sig=*** and a?b=c&code=***#f"
    secrets = Secrets()
    secrets.add_arguments({"url": "https://h/x?key=abcdefgh&n=ordinary-word"})
    assert secrets.mask("abcdefgh ordinary-word") == "*** ordinary-word"


def test_headers_are_secret_but_for_those_that_never_are():
    arguments = {"headers": {"x-own": "tok-12345678", "Accept": "json"}, "extra_headers": {"anthropic-beta": "x", "x-trace": 5}}
    assert Secrets().mask_arguments(arguments) == {
        "headers": {"x-own": "***", "Accept": "json"},
        "extra_headers": {"anthropic-beta": "x", "x-trace": "***"},
    }
    secrets = Secrets()
    secrets.add_arguments(arguments)
    assert secrets.mask("tok-12345678 json") == "*** json"


def test_a_token_is_known_without_the_word_before_it():
    secrets = Secrets()
    secrets.add_arguments({"headers": {"authorization": "Bearer tok-12345678"}})
    assert secrets.mask("Bearer tok-12345678, tok-12345678") == "***, ***"
