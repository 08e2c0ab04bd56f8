"""Ten thousand calls to a server that fails at one in five: none lost, none doubled."""

import json
import threading
from collections import Counter

import pytest
from loopback import Answer, ModelStub, chat, refused, said

from evalframe import read_log, run_eval
from evalframe.core.order import seeded

FAULTS = [
    refused(500, "oops"),
    refused(503, "busy", {"retry-after-ms": "5"}),
    refused(429, "slow down", {"retry-after-ms": "5"}),
    Answer(body=b'{"choices": [{"mess'),
    Answer(body=chat({"content": "x"}), cut_after=10),
    Answer(body=chat({"content": "x"}), cut_after=10, reset=True),
]


class Flaky:
    """Fails at a fifth of the requests, in turn in every way there is, and counts what it has answered."""

    def __init__(self):
        self.answered, self.faults = Counter(), 0
        self._lock, self._rng = threading.Lock(), seeded("flaky", 1, 1)

    def __call__(self, number, body):
        with self._lock:
            if self._rng.random() < 0.2:
                self.faults += 1
                return FAULTS[self.faults % len(FAULTS)]
            asked = body["messages"][-1]["content"].split()[-1]
            self.answered[asked] += 1
        return said(asked)


@pytest.mark.parametrize(
    ("executor", "rows"),
    [
        pytest.param("threads", 500, marks=pytest.mark.slow),
        pytest.param("coroutines", 500, marks=pytest.mark.slow),
        pytest.param("threads", 10_000, marks=pytest.mark.torture),
        pytest.param("coroutines", 10_000, marks=pytest.mark.torture),
    ],
)
def test_none_is_lost_and_none_is_doubled(tmp_path, monkeypatch, executor, rows):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "R/evals").mkdir(parents=True)
    told = {"class": "evalframe.evals.basic:Match", "args": {"samples_jsonl": str(tmp_path / "rows.jsonl")}}
    (tmp_path / "R/evals/a.yaml").write_text(json.dumps({"a": {"id": "a.dev.v1"}, "a.dev.v1": told}))
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"input": f"Say {number}", "ideal": str(number)}) + "\n" for number in range(rows))
    )
    flaky = Flaky()
    with ModelStub(flaky) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        result = run_eval("m", "a", registry_path="R", record_path="out.jsonl", threads=20, max_retries=30, executor=executor)
    assert (result.status, result.counts.completed, result.report["accuracy"]) == ("success", rows, 1.0)
    assert flaky.faults > rows / 6
    assert stub.count == rows + flaky.faults  # every request was an answer that counts, or a fault
    assert set(flaky.answered.values()) == {1}
    log = read_log("out.jsonl")
    for kind in ("sampling", "match", "sample"):
        assert set(Counter(event.sample_id for event in log.events(kind, all_attempts=True)).values()) == {1}, kind
    assert result.report["usage"]["m"]["calls"] + result.report["usage"]["m"]["unknown"] >= rows
