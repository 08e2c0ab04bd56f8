"""
Show worked examples before the question.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from random import Random
from typing import Literal

from evalframe.core.errors import BadSample
from evalframe.core.messages import Message
from evalframe.core.prompts import Prompt, is_chat
from evalframe.core.sample import Sample


@dataclass(frozen=True)
class FewShot:
    """
    Put worked examples before the last message of a chat prompt.

    Args:
        examples: Each is a list of messages, such as a question and its answer.
        num: How many are shown.
        sampling: "first" shows the same first ones to every sample; "random" draws them anew for each, by the sample's own randomness.
    """

    examples: tuple[list[Message], ...]
    num: int
    sampling: Literal["first", "random"] = "first"

    def __call__(self, prompt: Prompt, sample: Sample, rng: Random) -> Prompt:
        """
        The prompt with the examples in it.

        Raises:
            BadSample: If the prompt is text.
        """
        if not is_chat(prompt):
            raise BadSample("worked examples go into chat prompts, but this sample's input is text.", do="Give it a list of messages.")
        chosen = rng.sample(self.examples, self.num) if self.sampling == "random" else self.examples[: self.num]
        shown = [copy.deepcopy(message) for example in chosen for message in example]
        return [*prompt[:-1], *shown, prompt[-1]]
