"""
Conformance of a provider: replies written after its public documentation, served over real HTTP by a stub, and what must come of them.

A cassette is a JSONL file under tests/completion_fns/cassettes/, one exchange a line:

    {"name": "a plain answer",
     "ask": {"prompt": "2+2?", "options": {"max_tokens": 5}},
     "request": {"path": "/v1/messages", "headers": {"x-api-key": "***"}, "body": {...}},
     "reply": {"status": 200, "headers": {}, "body": {...}},
     "completion": {"completions": ["4"], "finish_reasons": ["end_turn"], ...}}

`request` is what must have been sent (headers: those that are looked at; "***" stands for the key of the test); several requests of one call
are a list, as are their replies. `completion` lists fields of the completion; `error` in its place names the error's class and a part of
its message.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from loopback import Answer, ModelStub

from evalframe.core import errors

CASSETTES = Path(__file__).parent / "completion_fns" / "cassettes"
KEY = "planted-key-0123456789"


def cases(cassette: str) -> list[Any]:
    """The exchanges of a cassette, as parameters of a test."""
    lines = (CASSETTES / f"{cassette}.jsonl").read_text(encoding="utf-8").splitlines()
    read = [json.loads(line) for line in lines if line.strip()]
    return [pytest.param(case, id=case["name"]) for case in read]


def conforms(case: dict[str, Any], make: Callable[[ModelStub], Callable[..., Any]]) -> None:
    """Ask as the case says, and hold what was sent and what came of it against it; `make` gives the function that asks the stub."""
    replies = case["reply"] if isinstance(case["reply"], list) else [case["reply"]]
    wanted = case["request"] if isinstance(case["request"], list) else [case["request"]]

    def answer(number: int, _body: Any) -> Answer:
        reply = replies[min(number, len(replies)) - 1]
        body = reply.get("body", "")
        raw = body if isinstance(body, str) else json.dumps(body)
        return Answer(reply.get("status", 200), reply.get("headers", {}), raw.encode())

    with ModelStub(answer) as stub:
        function = make(stub)
        ask = case["ask"]
        if "error" in case:
            with pytest.raises(getattr(errors, case["error"]["type"])) as caught:
                function(ask["prompt"], **ask.get("options", {}))
            assert case["error"]["says"] in str(caught.value)
            assert KEY not in str(caught.value)
        else:
            completion = function(ask["prompt"], **ask.get("options", {}))
            got = {**asdict(completion), "outcomes": completion.outcomes}
            got["usage"] = {name: value for name, value in got["usage"].items() if name in case["completion"].get("usage", {})}
            assert {name: got[name] for name in case["completion"]} == case["completion"]
        sent = [
            {
                "path": stub.paths[index],
                "headers": {name: stub.headers[index].get(name, "").replace(KEY, "***") for name in want.get("headers", {})},
                "body": stub.bodies[index],
            }
            for index, want in enumerate(wanted[: stub.count])
        ]
        assert sent == [{"headers": {}, **want} for want in wanted]
        assert stub.count == len(wanted)
