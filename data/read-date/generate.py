"""Write samples.jsonl: dates as people write them, to be given as ISO 8601. Run: python generate.py"""

import json
import random
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

SYSTEM = "The text holds one date. Answer with that date alone, in the form YYYY-MM-DD."
EACH = 10

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = {
    "en": "January February March April May June July August September October November December".split(),
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(),
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split(),
}
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth "
    "seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth twenty-fifth twenty-sixth "
    "twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
).split()


def ordinal(day: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def month(day: date, language: str = "en") -> str:
    return MONTHS[language][day.month - 1]


FORMS: dict[str, Callable[[date], str]] = {
    "british": lambda day: f"The lease was signed on {day.day} {month(day)} {day.year}.",
    "american": lambda day: f"Please reply by {month(day)} {ordinal(day.day)}, {day.year}, at the latest.",
    "in-words": lambda day: f"They met on the {ORDINALS[day.day - 1]} of {month(day)} in the year {day.year}.",
    "with-weekday": lambda day: f"Sent: {DAYS[day.weekday()][:3]}, {day.day} {month(day)[:3]} {day.year}, second class",
    "day-first-numbers": lambda day: f"Best before (day.month.year): {day.day:02d}.{day.month:02d}.{day.year}",
    "month-first-numbers": lambda day: f"Date of issue (month/day/year): {day.month}/{day.day}/{day.year}",
    "german": lambda day: f"Die Rechnung ist bis zum {day.day}. {month(day, 'de')} {day.year} zu bezahlen.",
    "french-and-spanish": lambda day: (
        f"La réunion aura lieu le {'1er' if day.day == 1 else day.day} {month(day, 'fr')} {day.year}."
        if day.toordinal() % 2
        else f"El curso empieza el {day.day} de {month(day, 'es')} de {day.year}."
    ),
}


def rows() -> list[dict[str, object]]:
    rng = random.Random(3)
    first, last = date(1950, 1, 1), date(2039, 12, 31)
    made: dict[str, dict[str, object]] = {}
    for category, form in FORMS.items():
        wanted = len(made) + EACH
        while len(made) < wanted:
            day = first + timedelta(days=rng.randint(0, (last - first).days))
            text = form(day)
            messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
            made.setdefault(text, {"input": messages, "ideal": day.isoformat(), "category": category})
    return list(made.values())


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
