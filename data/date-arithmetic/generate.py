"""Write samples.jsonl: questions about days, weeks and months of the Gregorian calendar. Run: python generate.py"""

import calendar
import json
import random
from datetime import date, timedelta
from pathlib import Path

SYSTEM = "Answer with the {} alone. Dates are of the Gregorian calendar."
EACH = 10

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = "January February March April May June July August September October November December".split()

Question = tuple[str, str, list[str]]
"""What is to be answered with, the question, the ideals."""


def any_day(rng: random.Random) -> date:
    return date(1990, 1, 1) + timedelta(days=rng.randint(0, 365 * 45))


def days_later(rng: random.Random) -> Question:
    day, days = any_day(rng), rng.randint(5, 75)
    return "date, in the form YYYY-MM-DD,", f"Which date is {days} days after {day}?", [str(day + timedelta(days=days))]


def days_earlier(rng: random.Random) -> Question:
    day, days = any_day(rng), rng.randint(5, 75)
    return "date, in the form YYYY-MM-DD,", f"Which date is {days} days before {day}?", [str(day - timedelta(days=days))]


def days_between(rng: random.Random) -> Question:
    day, days = any_day(rng), rng.randint(8, 120)
    return "number, in digits,", f"How many days after {day} is {day + timedelta(days=days)}?", [str(days)]


def weekday_later(rng: random.Random) -> Question:
    start, days = rng.randrange(7), rng.randint(8, 100)
    return "name of the day", f"Today is a {DAYS[start]}. Which day of the week will it be in {days} days?", [DAYS[(start + days) % 7]]


def weekday_of_date(rng: random.Random) -> Question:
    day = any_day(rng)
    other = day + timedelta(days=rng.randint(3, 28))
    question = f"{day} is a {DAYS[day.weekday()]}. Which day of the week is {other}?"
    return "name of the day", question, [DAYS[other.weekday()]]


def length_of_month(rng: random.Random) -> Question:
    year, month = rng.randint(1896, 2104), rng.choice([1, 2, 2, 2, 4, 6, 8, 9, 11, 12])
    return "number, in digits,", f"How many days has {MONTHS[month - 1]} {year}?", [str(calendar.monthrange(year, month)[1])]


def leap_year(rng: random.Random) -> Question:
    year = rng.choice([1600, 1700, 1800, 1900, 2000, 2100, 2200, 2400, *range(1904, 2060, 4), *range(1905, 2060, 6)])
    verdict = "yes" if calendar.isleap(year) else "no"
    return "word yes or no", f"Is {year} a leap year?", [verdict, verdict.capitalize()]


def months_later(rng: random.Random) -> Question:
    day, months = any_day(rng).replace(day=rng.randint(1, 28)), rng.randint(2, 30)
    years, month = divmod(day.month - 1 + months, 12)
    ideal = day.replace(year=day.year + years, month=month + 1)
    question = f"Which date has the same day of the month as {day}, {months} months later?"
    return "date, in the form YYYY-MM-DD,", question, [str(ideal)]


KINDS = [days_later, days_earlier, days_between, weekday_later, weekday_of_date, length_of_month, leap_year, months_later]


def rows() -> list[dict[str, object]]:
    rng = random.Random(4)
    made: dict[str, dict[str, object]] = {}
    for kind in KINDS:
        wanted = len(made) + EACH
        while len(made) < wanted:
            form, question, ideals = kind(rng)
            messages = [{"role": "system", "content": SYSTEM.format(form)}, {"role": "user", "content": question}]
            made.setdefault(question, {"input": messages, "ideal": ideals, "category": kind.__name__.replace("_", "-")})
    return list(made.values())


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
