"""Write samples.jsonl: who comes where, told by comparisons in mixed order. Run: python generate.py"""

import json
import random
from pathlib import Path

SYSTEM = "Think about who comes where. Answer with the name alone."
ROWS = 50

NAMES = "Amina Björn Chloe Dmitri Elena Farid Greta Hiro Ingrid Jamal Keiko Luca Maya Nadia Omar Priya Quentin Rosa Sven Tomas".split()

# More than, less than, and what is asked of the top, the second and the bottom.
RELATIONS: dict[str, tuple[str, str, tuple[str, str, str]]] = {
    "height": ("is taller than", "is shorter than", ("the tallest", "the second tallest", "the shortest")),
    "age": ("is older than", "is younger than", ("the oldest", "the second oldest", "the youngest")),
    "speed": ("runs faster than", "runs more slowly than", ("the fastest runner", "the second fastest runner", "the slowest runner")),
    "weight": ("is heavier than", "is lighter than", ("the heaviest", "the second heaviest", "the lightest")),
    "wealth": ("has more money than", "has less money than", ("the richest", "the second richest", "the poorest")),
}


def sample(rng: random.Random) -> dict[str, object]:
    category = rng.choice(list(RELATIONS))
    more, less, asked = RELATIONS[category]
    people = rng.sample(NAMES, rng.randint(3, 5))  # from the top down
    facts = []
    for upper, lower in zip(people, people[1:], strict=False):
        facts.append(f"{upper} {more} {lower}." if rng.random() < 0.5 else f"{lower} {less} {upper}.")
    rng.shuffle(facts)
    place = rng.randrange(3)
    question = f"Who is {asked[place]}? {' '.join(facts)}"
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    return {"input": messages, "ideal": people[(0, 1, -1)[place]], "category": category, "people": len(people)}


def rows() -> list[dict[str, object]]:
    rng = random.Random(8)
    made: dict[str, dict[str, object]] = {}
    while len(made) < ROWS:
        row = sample(rng)
        made.setdefault(json.dumps(row["input"]), row)
    return list(made.values())


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
