"""
A completion function that says back what it was asked: the graders' verdicts on it can be told beforehand.
"""

from __future__ import annotations

from typing import Any

from evalframe.completion_fns.dummy import without_model
from evalframe.core.completion import Completion
from evalframe.core.prompts import Prompt, last_text
from evalframe.core.scope import before_call


class EchoCompletionFn:
    """Answers with the text of the user's last message."""

    model = "echo"

    def __call__(self, prompt: Prompt, **options: Any) -> Completion:
        """Answer `prompt`; options are logged and otherwise without effect."""
        before_call(prompt)
        return without_model(prompt, last_text(prompt), name=self.model, options=options)
