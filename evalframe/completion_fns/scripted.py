"""
A completion function that reads its answers from a script: a list, a file, or a field of the sample that is asked.

With `field: ideal` every answer is right, which proves an eval's data and grader before any model is paid.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from evalframe.completion_fns.dummy import without_model
from evalframe.core.completion import Completion
from evalframe.core.errors import BadArguments, BadRows, ScriptExhausted, closest
from evalframe.core.prompts import Prompt, is_chat, last_text
from evalframe.core.scope import before_call, current_scope
from evalframe.storage import json_text
from evalframe.storage.files import UTF8_BOM, open_binary, read_chunks, shown, with_head

ROW = 'Each line is a text, {"reply": "..."}, or {"prompt": "...", "reply": "..."}.'


@dataclass
class Replies:
    """Replies in their order, and how many have been given."""

    texts: list[str] = field(default_factory=list)
    given: int = 0

    def next(self, *, cycle: bool) -> str | None:
        """The next one, or None if there is none left; a cycle begins anew."""
        if not self.texts or (self.given >= len(self.texts) and not cycle):
            return None
        self.given += 1
        return self.texts[(self.given - 1) % len(self.texts)]


class ScriptedCompletionFn:
    """
    Answers from a script; exactly one of the first three arguments says which.

    Args:
        replies: The answers, in order.
        replies_path: A JSONL file of them: texts, {"reply": ...}, or {"prompt": ..., "reply": ...}. A row with a prompt answers only
            prompts whose last text equals it, several such rows in order; the other rows answer all other prompts.
        field: The field of the sample that holds the answer; the first one, if it is a list.
        cycle: Begin anew after the last answer.

    Attributes:
        calls: How often it was asked.
    """

    model = "scripted"

    def __init__(
        self,
        replies: Iterable[str] | None = None,
        replies_path: str | Path | None = None,
        field: str | None = None,
        cycle: bool = False,
    ) -> None:
        given = [name for name, value in (("replies", replies), ("replies_path", replies_path), ("field", field)) if value is not None]
        if len(given) != 1:
            raise BadArguments(
                f"A scripted function takes one source of replies, and was given {' and '.join(given) or 'none'}.",
                do="Give replies_path=FILE, field=NAME or replies=[...].",
            )
        self.field = field
        self.replies_path = None if replies_path is None else str(replies_path)
        self.cycle = cycle
        self.calls = 0
        self._lock = threading.Lock()
        self._by_prompt: dict[str, Replies] = defaultdict(Replies)
        self._in_order = Replies()
        if replies is not None:
            self._in_order.texts = checked(replies)
        if replies_path is not None:
            for prompt, reply in read_script(replies_path):
                (self._in_order if prompt is None else self._by_prompt[prompt]).texts.append(reply)

    def __call__(self, prompt: Prompt, **options: Any) -> Completion:
        """
        Answer `prompt`; options are logged and otherwise without effect.

        Raises:
            ScriptExhausted: If the script holds no answer, or no further one.
        """
        before_call(prompt)
        with self._lock:
            self.calls += 1
            reply = self._from_sample(self.field) if self.field is not None else self._from_script(prompt)
        return without_model(prompt, reply, name=self.model, options=options)

    def _from_script(self, prompt: Prompt) -> str:
        asked = last_text(prompt)
        source = self._by_prompt.get(asked, self._in_order)
        reply = source.next(cycle=self.cycle)
        if reply is not None:
            return reply
        where = f" of {self.replies_path}" if self.replies_path else ""
        if not source.texts:
            near = closest(asked, self._by_prompt, most=1)
            told = f" Closest: {shortened(near[0])}." if near else ""
            raise ScriptExhausted(f"The script{where} has no reply to {shortened(asked)}.{told}", do="Add a row with that prompt.")
        raise ScriptExhausted(
            f"All {len(source.texts)} replies{where} {f'to {shortened(asked)} ' if asked in self._by_prompt else ''}have been given.",
            do="Add replies, or begin anew with cycle=true.",
        )

    def _from_sample(self, name: str) -> str:
        scope = current_scope()
        sample = scope.sample if scope else None
        if sample is None:
            raise ScriptExhausted(f'The script is the field "{name}" of the sample, and no sample is in scope.', do="Run it in an eval.")
        row = sample if isinstance(sample, Mapping) else {key: getattr(sample, key) for key in dir(sample) if not key.startswith("_")}
        value = row.get(name)
        if isinstance(value, list | tuple):
            value = value[0] if value else None
        if value is None:
            has = ", ".join(str(key) for key in row)
            raise ScriptExhausted(f'The sample has no reply in "{name}" (it has: {has}).', do="Name another field: field=NAME.")
        return spelt(value)


def checked(replies: Iterable[str]) -> list[str]:
    """The replies as a list of texts; a lone text is refused, since it would be read letter by letter."""
    texts = [] if isinstance(replies, str | Mapping) else list(replies)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise BadArguments(f"The replies of a scripted function are a list of texts, not {replies!r}.")
    return texts


def read_script(path: str | Path) -> list[tuple[str | None, str]]:
    """
    The rows of a script: the prompt that each answers, if it names one, and the reply.

    Raises:
        DataError: If it cannot be read; all lines that are none are told.
    """
    rows: list[tuple[str | None, str]] = []
    faults: list[str] = []
    content = b"".join(with_head(read_chunks(open_binary(path), shown(path)), path))
    for number, line in enumerate(content.removeprefix(UTF8_BOM).splitlines(), 1):
        if not line.strip():
            continue
        try:
            rows.append(read_row(json_text.loads(line)))
        except JSONDecodeError as error:
            faults.append(f"{shown(path)}:{number}:{error.colno} is not JSON: {error.msg}.")
        except (UnicodeDecodeError, ValueError) as error:
            faults.append(f"{shown(path)}:{number} {error}.")
    if not rows and not faults:
        faults.append(f"{shown(path)} holds no reply.")
    if faults:
        raise BadRows("\n".join(faults), do=ROW)
    return rows


def read_row(row: Any) -> tuple[str | None, str]:
    """
    One row of a script.

    Raises:
        ValueError: With what is wrong with it.
    """
    if isinstance(row, str):
        return None, row
    if not isinstance(row, dict):
        raise ValueError(f"is {type(row).__name__}, neither a text nor an object")
    prompt, reply = row.get("prompt"), row.get("reply")
    if not isinstance(reply, str):
        raise ValueError(f'has no text under "reply" (it has: {", ".join(row)})')
    if prompt is None:
        return None, reply
    if not (isinstance(prompt, str) or is_chat(prompt)):
        raise ValueError('has a "prompt" that is neither a text nor a list of messages')
    return last_text(prompt), reply


def spelt(value: Any) -> str:
    """A field as an answer: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json_text.dumps(value).decode("utf-8")


def shortened(text: str, most: int = 80) -> str:
    """A text in quotation marks, cut for a message."""
    return repr(text if len(text) <= most else f"{text[:most]}...")
