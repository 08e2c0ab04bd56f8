"""Write samples.jsonl: questions about the letters of a word. Run: python generate.py"""

import json
import random
from pathlib import Path

COUNT = "Answer with the number alone, in digits."
LETTER = "Answer with the letter alone."
EACH = 20

WORDS = (
    "abbreviation accommodation anniversary assassination banana bookkeeper broccoli cappuccino committee cooperation dandelion "
    "embarrassment engineering excellent floccinaucinihilipilification grasshopper happiness hippopotamus initiative intelligence "
    "mathematics millennium mississippi necessary nevertheless occurrence onomatopoeia parallel pineapple possession "
    "questionnaire raspberry referee rhododendron statistics strawberry successful tattoo tennessee tomorrow "
    "understanding vacuum voluntary whispering xylophone"
).split()
NUMBERS = "zero one two three four five six seven eight nine".split()
ORDINALS = "first second third fourth fifth sixth seventh eighth".split()


def occurrences(rng: random.Random) -> tuple[str, str, list[str]]:
    word = rng.choice(WORDS)
    letter = rng.choice(word) if rng.random() < 0.85 else rng.choice("bdgkquvwz")
    count = word.count(letter)
    question = f'How many times does the letter "{letter}" occur in the word "{word}"?'
    return COUNT, question, [str(count), NUMBERS[count], NUMBERS[count].capitalize()]


def length(rng: random.Random) -> tuple[str, str, list[str]]:
    word = rng.choice(WORDS)
    return COUNT, f'How many letters has the word "{word}"?', [str(len(word))]


def position(rng: random.Random) -> tuple[str, str, list[str]]:
    word = rng.choice(WORDS)
    place = rng.randrange(min(len(word), len(ORDINALS)))
    return LETTER, f'What is the {ORDINALS[place]} letter of the word "{word}"?', [word[place], word[place].upper()]


KINDS = [occurrences, length, position]


def rows() -> list[dict[str, object]]:
    rng = random.Random(7)
    made: dict[str, dict[str, object]] = {}
    for kind in KINDS:
        wanted = len(made) + EACH
        while len(made) < wanted:
            system, question, ideals = kind(rng)
            messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
            made.setdefault(question, {"input": messages, "ideal": ideals, "category": kind.__name__})
    return list(made.values())


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
