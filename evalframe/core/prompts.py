"""
A prompt: text, or a list of chat messages. Whoever needs the other form converts here.
"""

from __future__ import annotations

from typing import TypeGuard

from evalframe.core.messages import Message, is_message, text_of

Prompt = str | list[Message]

SPEAKERS = {"system": "", "example_user": "User: ", "example_assistant": "Assistant: "}
"""How roles, and names of messages, begin a line of a prompt that is text, where that is not the role itself."""


def is_chat(prompt: object) -> TypeGuard[list[Message]]:
    """Whether `prompt` is a non-empty list of chat messages."""
    return isinstance(prompt, list) and len(prompt) > 0 and all(is_message(message) for message in prompt)


def is_prompt(value: object) -> TypeGuard[Prompt]:
    """Whether `value` can be sent to a model: text, or a non-empty list of chat messages."""
    return isinstance(value, str) or is_chat(value)


def as_messages(prompt: Prompt) -> list[Message]:
    """The prompt as chat messages; text becomes one message of the user."""
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)


def as_text(prompt: Prompt) -> str:
    """
    The prompt as one text, for models that only complete text, in the manner of openai/evals: a message alone is just its text; of several,
    each begins with who speaks ("User: "), a system message with nothing, and "Assistant:" stands at the end.
    """
    if isinstance(prompt, str):
        return prompt
    if len(prompt) == 1:
        return text_of(prompt[0].get("content"))
    lines = []
    for message in prompt:
        speaker = str(message.get("name") or message["role"])
        lines.append(f"{SPEAKERS.get(speaker, f'{speaker.capitalize()}: ')}{text_of(message.get('content'))}")
    return "\n".join([*lines, "Assistant:"]).lstrip()


def last_text(prompt: Prompt) -> str:
    """The text of the last message of the user (of the last message where no user speaks)."""
    if isinstance(prompt, str):
        return prompt
    spoken = [message for message in prompt if message.get("role") == "user"] or prompt
    return text_of(spoken[-1].get("content")) if spoken else ""
