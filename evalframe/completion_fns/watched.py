"""
A completion function of somebody else, held to the limits of a sample: it need not have heard of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalframe.core.completion import CompletionFn, CompletionResult, texts_of
from evalframe.core.prompts import Prompt
from evalframe.core.recorder import record_sampling_if_in_scope
from evalframe.core.scope import before_call, current_scope
from evalframe.core.steps import Steps, asked, on_thread


class WatchedCompletionFn:
    """
    Wraps a completion function; all that it is asked for beside answers is the wrapped one's.

    A call that a limit has no room for is not made. An answer that the function has not recorded itself is recorded, and its tokens are
    counted, if its result tells them.

    Args:
        inner: Who is asked.
    """

    def __init__(self, inner: CompletionFn) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "inner":
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return getattr(self.inner, name)

    def __call__(self, prompt: Prompt, **options: Any) -> CompletionResult:
        """
        Ask the wrapped function.

        Raises:
            LimitReached: If the sample in scope may not ask, or the answer took it past a limit.
        """
        return on_thread(self.answer_in_steps(prompt, options))

    def answer_in_steps(self, prompt: Prompt, options: Mapping[str, Any]) -> Steps[CompletionResult]:
        """The same in steps: see `core/steps.py`."""
        before_call(prompt)
        scope = current_scope()
        before = scope.root.turns if scope is not None else 0
        result = yield from asked(self.inner, prompt, **options)
        if scope is not None and scope.root.turns == before:
            usage = getattr(result, "usage", None)
            model = getattr(result, "model", None) or getattr(self.inner, "model", None)
            answers = texts_of(result)
            told = {"usage": usage.to_dict() if hasattr(usage, "to_dict") else usage} if usage is not None else {}
            record_sampling_if_in_scope(prompt, answers[0] if len(answers) == 1 else answers, model=model, **told)
        return result
