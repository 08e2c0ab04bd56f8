"""Write samples.jsonl and few_shot.jsonl: words whose first and last letters change places, a rule told by examples only. Run: python generate.py"""

import json
import random
from pathlib import Path

SYSTEM = "Each word is turned into another by one rule. Find the rule from the examples and answer with the turned word alone."
SHOTS = 8
ROWS = 60

WORDS = (
    "basket bottle branch bridge candle carpet castle cherry coffee copper corner cotton desert doctor dragon falcon family "
    "farmer finger flower forest friend garden guitar hammer harbor helmet hunter island jacket jungle kettle ladder lemon letter "
    "magnet marble market meadow mirror monkey muffin napkin needle number orange oyster palace parrot pebble pencil pepper "
    "pigeon planet pocket potato puzzle rabbit ribbon rocket saddle salmon school shadow silver spider spring stable summer "
    "table temple ticket timber turtle valley velvet violin walnut window winter yellow"
).split()


def turned(word: str) -> str:
    """First and last letter change places."""
    return word[-1] + word[1:-1] + word[0]


def files() -> dict[str, list[dict[str, object]]]:
    rng = random.Random(9)
    words = rng.sample([word for word in WORDS if word[0] != word[-1]], SHOTS + ROWS)
    shots: list[dict[str, object]] = []
    for word in words[:SHOTS]:
        shots.append({"sample": [{"role": "user", "content": word}, {"role": "assistant", "content": turned(word)}]})
    samples: list[dict[str, object]] = []
    for word in words[SHOTS:]:
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": word}]
        samples.append({"input": messages, "ideal": turned(word)})
    return {"few_shot.jsonl": shots, "samples.jsonl": samples}


if __name__ == "__main__":
    for name, rows in files().items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        Path(__file__).with_name(name).write_bytes(text.encode("utf-8"))
