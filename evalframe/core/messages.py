"""
A chat message, as every provider and every log spells it: {"role": ..., "content": ..., "name"?: ...}.

Content is text, or a list of parts such as {"type": "text", "text": ...} and {"type": "image_url", ...}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

Message = dict[str, Any]


def is_message(value: object) -> TypeGuard[Message]:
    """Whether `value` has the shape of a chat message."""
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def text_of(content: object) -> str:
    """The text in a message's content: itself, or its text parts joined by newlines; "" where there is none."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""
