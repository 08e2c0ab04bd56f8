"""Write samples.jsonl: short lists of words and numbers to be put in order. Run: python generate.py"""

import json
import random
from pathlib import Path

SYSTEM = "Put the items in the order that is asked for. Answer with the list alone, on one line, with a comma and a space between items."
EACH = 15

WORDS = (
    "anchor apple bamboo basket beacon bottle branch bridge butter candle canvas carpet castle cellar cherry cinder copper "
    "corner cotton dancer desert dragon engine falcon feather fiddle forest fossil garden garlic ginger guitar hammer harbour "
    "helmet island jacket jungle kettle ladder lantern lemon magnet marble meadow mirror mountain needle nutmeg oyster paddle "
    "pebble pepper pigeon pillow pocket puzzle rabbit ribbon river saddle salmon shadow silver spider spring stable summer "
    "temple thunder ticket timber tunnel turtle valley velvet violin wagon walnut window winter yellow zebra"
).split()


def alphabetical(rng: random.Random) -> tuple[str, list[str], list[str]]:
    words = rng.sample(WORDS, rng.randint(4, 7))
    return "In alphabetical order", words, sorted(words)


def reverse_alphabetical(rng: random.Random) -> tuple[str, list[str], list[str]]:
    words = rng.sample(WORDS, rng.randint(4, 6))
    return "In reverse alphabetical order, from Z to A", words, sorted(words, reverse=True)


def ascending(rng: random.Random) -> tuple[str, list[str], list[str]]:
    numbers = rng.sample(range(-50, 1200), rng.randint(5, 8))
    return "From the smallest number to the largest", [*map(str, numbers)], [*map(str, sorted(numbers))]


def descending(rng: random.Random) -> tuple[str, list[str], list[str]]:
    tenths = [number for number in rng.sample(range(1, 200), 12) if number % 10][: rng.randint(4, 6)]
    spelt = [f"{number / 10:.1f}" for number in tenths]
    return "From the largest number to the smallest", spelt, sorted(spelt, key=float, reverse=True)


KINDS = [alphabetical, reverse_alphabetical, ascending, descending]


def rows() -> list[dict[str, object]]:
    rng = random.Random(6)
    made: dict[str, dict[str, object]] = {}
    for kind in KINDS:
        wanted = len(made) + EACH
        while len(made) < wanted:
            order, items, right = kind(rng)
            if items == right:  # nothing to sort
                continue
            question = f"{order}: {', '.join(items)}"
            messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
            made.setdefault(question, {"input": messages, "ideal": ", ".join(right), "category": kind.__name__.replace("_", "-")})
    return list(made.values())


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
