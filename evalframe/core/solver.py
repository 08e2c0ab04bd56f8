"""
A solver step: something done to the prompt before the model sees it, such as showing worked examples.
"""

from __future__ import annotations

from random import Random
from typing import Protocol, runtime_checkable

from evalframe.core.prompts import Prompt
from evalframe.core.sample import Sample


@runtime_checkable
class PromptStep(Protocol):
    """Rewrite a prompt. A step keeps nothing between samples and never changes what it is given."""

    def __call__(self, prompt: Prompt, sample: Sample, rng: Random) -> Prompt:
        """The prompt to ask instead of `prompt`, for `sample`."""
        ...
