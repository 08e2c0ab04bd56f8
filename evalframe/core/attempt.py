"""
One try at one sample, and the line of the log that ends it.
"""

from __future__ import annotations

import hashlib
import json
import traceback
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from evalframe.core.errors import described, message_of
from evalframe.core.limit import Limit
from evalframe.core.recorder import Recorder
from evalframe.core.scope import SampleScope


def input_hash(sample: Any) -> str:
    """SHA-256 of a sample's content, the same for the same content: by it a resumed run knows what has changed."""
    return hashlib.sha256(json.dumps(sample, sort_keys=True, default=repr).encode("ascii")).hexdigest()


class Attempt:
    """
    One try at one sample.

    Args:
        scope: Where what it does is recorded.
        index: The sample's place among all.
        rng: Its randomness.
        mask: Takes secrets out of a text.

    Attributes:
        result: What the eval returned.
        error: What ended it, if it ended in error.
        limit: What cut it, if it was cut.
        status: "completed", "error", "limit" or "interrupted".
        is_final: Whether no other attempt follows.
        seconds: How long it took.
    """

    def __init__(self, scope: SampleScope, index: int, rng: Random, mask: Callable[[str], str]) -> None:
        self.scope = scope
        self.index = index
        self.rng = rng
        self.result: Any = None
        self.error: BaseException | None = None
        self.limit: Limit | None = None
        self.status = "completed"
        self.is_final = True
        self.seconds = 0.0
        self._input_sha256 = input_hash(scope.sample)  # now, before the eval can change the row
        self._mask = mask

    @property
    def message(self) -> str:
        """The error as it is shown, without secrets."""
        return self._mask(described(self.error)) if self.error is not None else ""

    def asks(self, input_sha256: str) -> bool:
        """Whether it asks what an earlier attempt asked, of whose hash this is the beginning."""
        return self._input_sha256.startswith(input_sha256)

    @property
    def is_unscored(self) -> bool:
        """Whether verdicts were due, and none could be given."""
        return self.status in ("completed", "limit") and self.scope.unscored > 0 and not self.scope.scored

    def end(self, recorder: Recorder) -> None:
        """Write the line that ends the attempt; from then on it is on disk."""
        data: dict[str, Any] = {
            "status": self.status,
            "input_sha256": self._input_sha256,
            "seconds": round(self.seconds, 4),
            "waiting_seconds": round(self.scope.waiting_s, 4),
            "usage": {model: spent.to_dict() for model, spent in self.scope.usage.items()},
        }
        if self.scope.judge_usage:
            data["judge_usage"] = {model: spent.to_dict() for model, spent in self.scope.judge_usage.items()}
        if self.scope.outcome is not None:
            data["outcome"] = self.scope.outcome
        if self.error is not None:
            data["error"] = {
                "type": type(self.error).__name__,
                "message": self._mask(message_of(self.error)),
                "traceback": self._mask(traceback_of(self.error)),
            }
        else:
            if self.limit is not None:
                data["limit"] = self.limit.to_dict()
            if self.is_unscored:
                data["unscored"] = True
            data |= told_result(self.result)
        self.scope.is_over = True
        if self.status in ("error", "interrupted") and self.scope.kept is not None:
            data["answers"] = self.scope.kept  # paid for, and not graded: another attempt, also of another process, takes them
        recorder.end(self.scope, data)

    def end_as_wrong(self, recorder: Recorder) -> None:
        """Let a sample that has failed count as wrong: a verdict of its own, after the attempt that came to nothing."""
        verdict = SampleScope(recorder, self.scope.sample_id, self.scope.epoch, self.scope.attempt + 1, self.scope.sample)
        recorder.begin(verdict)
        with recorder.in_scope(verdict):
            recorder.record_match(False, scored_as_wrong=True, error=self.message)
        told: dict[str, Any] = {"status": "error", "scored_as_wrong": True, "input_sha256": self._input_sha256}
        if self.scope.kept is not None:
            told["answers"] = self.scope.kept
        recorder.end(verdict, {**told, "error": {"type": type(self.error).__name__, "message": self.message}})


def told_result(result: Any) -> dict[str, Any]:
    """What the log keeps of a result: itself, if it comes back from JSON as it was; else that it is lost."""
    if result is None:
        return {}
    return {"result": result} if survives_json(result) else {"result_lost": type(result).__name__}


def survives_json(value: Any) -> bool:
    """Whether JSON gives a value back as it is; a tuple comes back as a list, which is taken for the same."""
    if value is None or type(value) in (bool, int, str):
        return True
    if type(value) is float:
        return value == value and value not in (float("inf"), float("-inf"))
    try:
        if isinstance(value, Mapping):
            return type(value) is dict and all(type(key) is str and survives_json(item) for key, item in value.items())
        return type(value) in (list, tuple) and all(map(survives_json, value))
    except RecursionError:
        return False


def traceback_of(error: BaseException) -> str:
    """The traceback of any exception."""
    try:
        return "".join(traceback.format_exception(error))
    except Exception as failure:  # noqa: BLE001 - its message may be one that cannot be spelt
        return f"(its traceback cannot be spelt: {type(failure).__name__})"
