"""
A completion function that always says the same: for trying out an eval, its data and its log without a model.
"""

from __future__ import annotations

from typing import Any

from evalframe.core.completion import Completion, Usage
from evalframe.core.prompts import Prompt
from evalframe.core.recorder import record_sampling_if_in_scope
from evalframe.core.scope import before_call


class DummyCompletionFn:
    """
    Answers every prompt with the same text.

    Args:
        reply: The text.
    """

    model = "dummy"

    def __init__(self, reply: str = "This is a dummy response.") -> None:
        self.reply = str(reply)  # a command line gives numbers as numbers

    def __call__(self, prompt: Prompt, **options: Any) -> Completion:
        """Answer `prompt`; options are logged and otherwise without effect."""
        before_call(prompt)
        return without_model(prompt, self.reply, name=self.model, options=options)


def without_model(prompt: Prompt, reply: str, *, name: str, options: dict[str, Any]) -> Completion:
    """
    The completion of a function behind which no model stands, recorded for the sample in scope.

    Args:
        prompt: What was asked.
        reply: The answer.
        name: What stands in the log in place of the model's name.
        options: What was asked for; logged if there is anything.
    """
    asked = {"options": options} if options else {}
    record_sampling_if_in_scope(prompt=prompt, sampled=reply, model=name, **asked)
    return Completion([reply], Usage(), model=name)
