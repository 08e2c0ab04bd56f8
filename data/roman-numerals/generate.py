"""Write samples.jsonl: Roman numerals to numbers, and back. Run: python generate.py"""

import json
import random
from pathlib import Path

TO_NUMBER = "Answer with the value of the Roman numeral alone, in digits."
TO_NUMERAL = "Answer with the number as a Roman numeral alone, in capital letters and standard form (4 is IV)."

SIGNS = [
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"),
    (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
]  # fmt: skip


def roman(number: int) -> str:
    """In standard form, from 1 to 3999."""
    text = ""
    for value, sign in SIGNS:
        count, number = divmod(number, value)
        text += sign * count
    return text


def rows() -> list[dict[str, object]]:
    rng = random.Random(5)
    numbers = [*rng.sample(range(4, 100), 20), *rng.sample(range(100, 1000), 20), *rng.sample(range(1000, 4000), 20)]
    made = []
    for index, number in enumerate(numbers):
        if index % 2:
            system, question, category = TO_NUMERAL, str(number), "to-numeral"
            ideals = [roman(number)]
        else:
            system, question, category = TO_NUMBER, roman(number), "to-number"
            ideals = list(dict.fromkeys([str(number), f"{number:,}"]))
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        made.append({"input": messages, "ideal": ideals, "category": category})
    return made


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
