"""Write samples.jsonl: calculations whose results are exact. Run: python generate.py"""

import json
import random
from decimal import Decimal
from pathlib import Path

SYSTEM = "Calculate. Answer with the result alone, as a number, without a unit, a word or an equals sign."
EACH = 15


def addition(rng: random.Random) -> tuple[str, object]:
    a, b = rng.randint(10, 99), rng.randint(10, 99)
    return f"{a} + {b}", a + b


def long_addition(rng: random.Random) -> tuple[str, object]:
    numbers = [rng.randint(100, 9999) for _ in range(3)]
    return " + ".join(map(str, numbers)), sum(numbers)


def subtraction(rng: random.Random) -> tuple[str, object]:
    a, b = rng.randint(10, 999), rng.randint(10, 999)
    return f"{a} - {b}", a - b


def multiplication(rng: random.Random) -> tuple[str, object]:
    a, b = rng.randint(3, 99), rng.randint(3, 25)
    return f"{a} * {b}", a * b


def division(rng: random.Random) -> tuple[str, object]:
    divisor, quotient = rng.randint(3, 25), rng.randint(4, 60)
    return f"{divisor * quotient} / {divisor}", quotient


def brackets(rng: random.Random) -> tuple[str, object]:
    a, b, c, d = (rng.randint(2, 20) for _ in range(4))
    return f"({a} + {b}) * {c} - {d}", (a + b) * c - d


def decimals(rng: random.Random) -> tuple[str, object]:
    a, b = Decimal(rng.randint(11, 999)) / 10, Decimal(rng.randint(101, 999)) / 100
    return f"{a} + {b}", a + b


def percentage(rng: random.Random) -> tuple[str, object]:
    percent, whole = rng.choice([5, 10, 15, 20, 25, 30, 40, 60, 75, 80]), rng.randint(2, 45) * 20
    return f"{percent} % of {whole}", percent * whole // 100


KINDS = [addition, long_addition, subtraction, multiplication, division, brackets, decimals, percentage]


def ideals(value: object) -> list[str]:
    """The number as it may be written: without trailing zeros, and with commas between thousands."""
    plain = f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)
    grouped = f"{int(plain):,}" if plain.lstrip("-").isdigit() else plain
    return list(dict.fromkeys([plain, grouped]))


def rows() -> list[dict[str, object]]:
    rng = random.Random(1)
    made: dict[str, dict[str, object]] = {}
    for kind in KINDS:
        wanted = len(made) + EACH
        while len(made) < wanted:
            question, value = kind(rng)
            messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
            made.setdefault(question, {"input": messages, "ideal": ideals(value), "category": kind.__name__.replace("_", "-")})
    return list(made.values())


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
