"""
Where a word or a number begins and ends: what keeps "4" out of "42", "no" out of "know" and "3" out of "3.14".
"""

from __future__ import annotations

import unicodedata

UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "BOPOMOFO", "TIBETAN")
"""Scripts whose words are not parted by spaces, as the Unicode names of their characters begin."""

SIGNS = ("+", "-", "\u2212")
ENDS = frozenset("._!?)]}\"'\u2019\u201d\u00bb")
"""Characters that a sentence may end in: a point after one of them, or after a letter or a digit, opens no number such as .5."""


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script whose words stand side by side."""
    return ord(character) > 0x0E00 and unicodedata.name(character, "").startswith(UNSPACED)


def is_word(character: str) -> bool:
    """Whether a character is part of a word that spaces would part from the next: a letter, a digit, a combining mark, an underscore."""
    return (character.isalnum() or character == "_" or unicodedata.category(character) in ("Mn", "Mc")) and not is_unspaced(character)


def is_boundary(text: str, position: int) -> bool:
    """
    Whether a word or number may end, and another begin, before `text[position]`.

    It may not between two word characters; nor inside a number such as 3.14, 1,000, .5 or -5, where the point, the comma or the sign
    belongs to the digit after it.
    """
    if position <= 0 or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if is_word(before) and is_word(after):
        return False
    if before.isdigit() and after in ".,":
        return not text[position + 1 : position + 2].isdigit()
    if after.isdigit() and before in ".,":
        return not (text[max(position - 2, 0) : position - 1].isdigit() or opens_number(text, position - 1))
    if before in SIGNS and (after.isdigit() or opens_number(text, position)):
        return is_sign_of_something_else(text, position - 1)
    return True


def opens_number(text: str, position: int) -> bool:
    """Whether the character at `position` is the point of a number without a digit before it, such as .5."""
    before = text[position - 1] if position else ""
    return text[position] == "." and text[position + 1 : position + 2].isdigit() and not before.isalnum() and before not in ENDS


def is_sign_of_something_else(text: str, position: int) -> bool:
    """Whether the sign at `position` is a dash or an operation (A-4, 7-5), and not the sign of the number that follows (x = -5)."""
    before = position - 1
    if before >= 0 and (text[before].isalnum() or text[before] in SIGNS):
        return True
    while before >= 0 and text[before].isspace():  # step by step: a copy of all that stands before would take too long in long answers
        before -= 1
    return before >= 0 and text[before] in ")]"


def found_whole(needle: str, text: str, start: int = 0) -> int:
    """Where `needle` stands in `text` from `start` on with a boundary on either side; -1 where it does not."""
    at = text.find(needle, start)
    while at >= 0:
        if is_boundary(text, at) and is_boundary(text, at + len(needle)):
            return at
        at = text.find(needle, at + 1)
    return -1
