"""Pictures in rows of data: sent as data, logged as hashes, cached by what is in them, found again by a replay."""

import base64
import json
from pathlib import Path

import pytest
from loopback import ModelStub, said

from evalframe import read_log, run_eval
from evalframe.core.errors import EvalframeError

PNG = b"\x89PNG\r\n\x1a\n" + b"cat"
SENT = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


@pytest.fixture
def see(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "R/evals").mkdir(parents=True)
    (tmp_path / "R/data/see").mkdir(parents=True)
    (tmp_path / "R/data/see/cat.png").write_bytes(PNG)
    told = {"class": "evalframe.evals.basic:Includes", "args": {"samples_jsonl": "see/s.jsonl"}}
    (tmp_path / "R/evals/see.yaml").write_text(json.dumps({"see": {"id": "see.dev.v1"}, "see.dev.v1": told}))

    def run(function="m", part=None, **settings):
        part = part or {"type": "image_url", "image_url": {"url": "cat.png"}}
        row = {"input": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}], "ideal": "cat"}
        (tmp_path / "R/data/see/s.jsonl").write_text(json.dumps(row) + "\n")
        return run_eval(function, "see", registry_path="R", **settings)

    with ModelStub(lambda number, body: said("A cat.")) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        run.stub = stub
        yield run


@pytest.mark.parametrize("executor", ["threads", "coroutines"])
def test_the_model_gets_the_picture_and_the_log_its_hash(see, executor):
    result = see(record_path="out.jsonl", executor=executor)
    assert result.report["accuracy"] == 1.0
    assert see.stub.bodies[0]["messages"][0]["content"][1] == {"type": "image_url", "image_url": {"url": SENT}}
    text = Path("out.jsonl").read_text()
    assert base64.b64encode(PNG).decode() not in text
    assert "data:image/png;base64,sha256:" in text


def test_the_log_keeps_it_when_asked(see):
    see(record_path="out.jsonl", log_media=True)
    (event,) = read_log("out.jsonl").events("sampling")
    assert event.data["prompt"][0]["content"][1]["image_url"]["url"] == SENT


def test_another_picture_under_the_same_name_is_asked_for_anew(see):
    see(cache_dir="c")
    see(cache_dir="c")
    assert see.stub.count == 1
    Path("R/data/see/cat.png").write_bytes(PNG + b"!")
    see(cache_dir="c")
    assert see.stub.count == 2


def test_a_log_answers_for_the_model_and_is_graded_again(see):
    from evalframe.runs.regrade import regrade

    see(record_path="out.jsonl")
    assert see("replay/out.jsonl").report["accuracy"] == 1.0
    assert regrade("out.jsonl", registry_path="R").report["accuracy"] == 1.0
    assert see.stub.count == 1


@pytest.mark.parametrize(
    ("url", "told"),
    [("dog.png", "dog.png cannot be read: No such file"), ("/etc/passwd", "is neither a picture"), ("s.jsonl", "is neither a picture")],
)
def test_what_cannot_be_sent_is_told_with_its_row_before_anything_is_asked(see, url, told):
    with pytest.raises(EvalframeError, match=r"s.jsonl:1.*has an \"input\" that cannot be asked: .*" + told):
        see(part={"type": "image_url", "image_url": {"url": url}})
    assert see.stub.count == 0
