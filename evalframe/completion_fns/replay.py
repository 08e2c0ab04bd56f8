"""
Answers from an earlier log: `replay/<log>` asks no model.

An answer is found by what was asked: the same messages, in the same epoch, and first of all of the same sample. Logs of openai/evals are
read, too.
"""

from __future__ import annotations

import hashlib
import json
import threading
from array import array
from collections import Counter
from pathlib import Path
from typing import Any

from evalframe.core.completion import Completion, Usage
from evalframe.core.earlier import Ended
from evalframe.core.errors import BadArguments, CallFailed
from evalframe.core.event import Event
from evalframe.core.limit import Limit, LimitReached
from evalframe.core.media import without_media
from evalframe.core.prompts import Prompt, as_messages, is_prompt
from evalframe.core.recorder import record_sampling_if_in_scope
from evalframe.core.scope import SampleScope, before_call, current_scope
from evalframe.storage.event_log import Scan, event_at, events_at, scan

KEPT = ("finish_reason", "reasoning", "tool_calls", "refusal", "answered_by", "outcome")
"""What is taken over from the recorded answer beside its text."""


class ReplayCompletionFn:
    """
    Answers as the model of a log did.

    Args:
        model: The log's path.
        options: Taken and not heeded: the answers are there already.

    Raises:
        BadArguments: If there is no such log.
    """

    def __init__(self, model: str, **options: Any) -> None:
        self.model = str(model)
        self.path = Path(self.model).expanduser().absolute()
        self._lock = threading.Lock()
        self._log: Scan | None = None
        self._by_prompt: dict[int, array[int]] = {}
        self._cut: Counter[tuple[str, int]] = Counter()
        if not self.path.is_file():
            raise BadArguments(f"there is no log {self.path} to replay.", do="Name one: replay/PATH of a .jsonl file.")

    def __call__(self, prompt: Prompt, **options: Any) -> Completion:
        """
        The recorded answer to `prompt`.

        Raises:
            CallFailed: If the log holds none.
            LimitReached: If the log's own run was cut by a limit here.
        """
        before_call(prompt)
        scope, log = current_scope(), self._read()
        event = self._find(log, prompt_hash(prompt), scope)
        if event is None:
            raise self._missing(log, scope)
        data = event.data
        sampled = data.get("sampled")
        texts = [str(text) for text in sampled] if isinstance(sampled, list) else ["" if sampled is None else str(sampled)]
        answered = str(data.get("model") or "replay")
        kept = {name: data[name] for name in KEPT if data.get(name) is not None}
        record_sampling_if_in_scope(
            prompt=prompt, sampled=sampled, model=answered, usage=Usage(calls=0).to_dict(), replayed_from=event.event_id, **kept
        )
        self._cut_here(log, scope)
        finish = data.get("finish_reason")
        reasons = finish if isinstance(finish, list) else [finish] * len(texts)
        return Completion(texts, Usage(calls=0), reasons, model=answered)

    def _read(self) -> Scan:
        """The log, read when the first answer is asked for."""
        with self._lock:
            if self._log is None:
                try:
                    log = scan(self.path)
                    for asked, offset in self._answers(log):
                        self._by_prompt.setdefault(asked, array("Q")).append(offset)
                except OSError as error:
                    raise BadArguments(f"cannot read the log {self.path}: {error.strerror or error}.") from error
                self._log = log
            return self._log

    def _answers(self, log: Scan) -> list[tuple[int, int]]:
        """What was asked, and where the answers stand: those that count, then those of samples that failed, which were paid for, too."""
        counted, others = list[tuple[int, int]](), list[tuple[int, int]]()
        offsets = log.offsets.get("sampling", ())
        for offset, event in zip(offsets, events_at(self.path, offsets), strict=True):
            if isinstance(event.data, dict) and is_prompt(event.data.get("prompt")):
                ended = log.ends.get(self.path, str(event.sample_id), event.epoch)
                if ended is not None and ended.status == "limit":
                    self._cut[place(event.sample_id), event.epoch] += 1
                (counted if log.attempts.count(event) else others).append((prompt_hash(event.data["prompt"]), offset))
        return counted + others

    def _find(self, log: Scan, asked: int, scope: SampleScope | None) -> Event | None:
        """The answer: of the same sample if there is one, each in its turn where the same was asked several times."""
        fitting = [event_at(self.path, offset) for offset in self._by_prompt.get(asked, ())]
        if scope is None:
            return fitting[0] if fitting else None
        fitting = [event for event in fitting if event.epoch == scope.epoch]
        own = [event for event in fitting if place(event.sample_id) == place(scope.sample_id)]
        turn = scope.root.memo.get((self.model, asked), 0)
        scope.root.memo[self.model, asked] = turn + 1
        fitting = own or fitting[:1]
        return fitting[turn] if turn < len(fitting) else None

    def _cut_here(self, log: Scan, scope: SampleScope | None) -> None:
        """End the sample where the log's own run did, if a limit did so with the answer that has just been given."""
        if scope is None or self._cut.get((place(scope.sample_id), scope.epoch)) != scope.root.turns:
            return
        limit = cut_by(self._ended(log, scope))
        if limit is not None and limit.kind not in ("turn", "message") and limit.used > limit.most:
            raise LimitReached(limit)

    def _ended(self, log: Scan, scope: SampleScope) -> Ended | None:
        spec = log.spec or {}
        return log.ends.get(self.path, f"{spec.get('base_eval')}.{spec.get('split')}.{place(scope.sample_id)}", scope.epoch)

    def _missing(self, log: Scan, scope: SampleScope | None) -> Exception:
        """What becomes of a prompt that has no answer: what became of the sample there."""
        told = f"{self.path} holds no answer to this prompt"
        if scope is None:
            return CallFailed(f"{told}.")
        ended = self._ended(log, scope)
        limit = cut_by(ended)
        if limit is not None:
            return LimitReached(limit)
        if ended is not None and ended.status == "error":
            error = ended.data().get("error") or {}
            return CallFailed(f"{told}: its sample ended there in error ({error.get('type')}: {error.get('message')}).")
        return CallFailed(f"{told}.", do="Replay it with the eval, the data and the seed that it was made with.")


def cut_by(ended: Ended | None) -> Limit | None:
    """The limit that cut a sample, if one did."""
    if ended is None or ended.status != "limit":
        return None
    told = ended.data().get("limit") or {}
    return Limit(told.get("type", "turn"), float(told.get("limit") or 0), float(told.get("used") or 0))


def place(sample_id: str | None) -> str:
    """A sample's number: two evals over the same data call the same sample alike but for this."""
    return str(sample_id).rpartition(".")[2]


def prompt_hash(prompt: Any) -> int:
    """64 bits of a hash over the messages of a prompt."""
    asked = without_media(as_messages(prompt) if is_prompt(prompt) else prompt)  # as the log has it
    text = json.dumps(asked, sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "big")
