import asyncio
import json

import pytest
from loopback import Answer, ModelStub, chat, free_port, refused, said

from evalframe.completion_fns.openai import OpenAIChatCompletionFn
from evalframe.core.errors import BadSetting, CallFailed
from evalframe.resilience.rates import Limiters
from evalframe.resilience.retry import RetryPolicy

KEY = "sk-planted-0123456789"


def model(stub, path, **more):
    soon = RetryPolicy(max_tries=3, first_wait_s=0.001)
    return OpenAIChatCompletionFn(
        "m", base_url=f"{stub}?trace={KEY}", api_key=KEY, cassette=path, retry_policy=soon, limiters=Limiters(), **more
    )


@pytest.fixture
def tape(tmp_path):
    """A cassette made against a real server: a question asked twice, one that was throttled, one whose reply repeats the key."""
    path = tmp_path / "tapes" / "one.jsonl"
    answers = [said("4"), said("four"), refused(429, headers={"retry-after-ms": "1"}), said("Paris"), said(f"your key is {KEY}")]
    with ModelStub(lambda number, body: answers[number - 1]) as stub:
        asked = model(stub.base_url, path)
        assert [asked(prompt).completions[0] for prompt in ("2+2?", "2+2?", "Capital?")] == ["4", "four", "Paris"]
        asked("key?")
        url = stub.base_url
    return path, url  # nobody listens there any more


def test_recorded_replies_are_given_in_their_turn_without_a_server(tape):
    path, url = tape
    asked = model(url, path)
    assert [asked(prompt).completions[0] for prompt in ("2+2?", "Capital?", "2+2?", "2+2?")] == ["4", "Paris", "four", "four"]


def test_the_throttled_try_is_played_too(tape):
    path, url = tape
    assert model(url, path)("Capital?").tries == 2


def test_no_key_gets_into_it(tape):
    path, url = tape
    assert KEY not in path.read_text()
    assert "authorization" not in path.read_text()
    assert model(url, path)("key?").completions == ["your key is ***"]


def test_each_line_is_an_exchange_that_a_person_can_read(tape):
    first = json.loads(tape[0].read_text().splitlines()[0])
    assert first["request"]["body"] == {"model": "m", "messages": [{"role": "user", "content": "2+2?"}]}
    assert first["request"]["url"].endswith("/v1/chat/completions")
    assert first["reply"]["status"] == 200


def test_a_question_that_is_not_in_it_is_told_and_not_asked(tape):
    path, url = tape
    with pytest.raises(CallFailed, match=r"one.jsonl holds no reply to this request \(POST http://127.0.0.1:\d+/v1/chat/completions\)"):
        model(url, path)("3+3?")
    with pytest.raises(CallFailed):
        model(url, path, temperature=0)("2+2?")


def test_faults_of_the_network_are_played_too(tmp_path):
    path, url = tmp_path / "tape.jsonl", f"http://127.0.0.1:{free_port()}/v1"
    for _ in range(2):
        with pytest.raises(CallFailed, match="connection refused by"):
            model(url, path)("2+2?")


def test_a_body_that_is_no_json_is_kept_as_text(tmp_path):
    path = tmp_path / "tape.jsonl"
    answers = [Answer(body=b"<html>\xff"), Answer(body=chat({"content": "4"}))]
    with ModelStub(lambda number, body: answers[number - 1]) as stub:
        assert model(stub.base_url, path)("2+2?").tries == 2
        url = stub.base_url
    assert model(url, path)("2+2?").tries == 2


def test_an_event_loop_plays_it_as_well(tape):
    from evalframe import ask

    path, url = tape
    assert asyncio.run(ask(model(url, path), "Capital?")).get_completions() == ["Paris"]


@pytest.mark.parametrize("line", ["{", "[]", '{"request": {}}', '{"reply": {}}', '{"request": {"url": 1}, "reply": {"status": "x"}}'])
def test_a_file_that_is_none_is_told_with_its_line(tmp_path, line):
    path = tmp_path / "tape.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(BadSetting, match=r"tape.jsonl:2 is no exchange of a cassette"):
        model("http://127.0.0.1:1/v1", path)
