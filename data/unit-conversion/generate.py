"""Write samples.jsonl: a quantity to be given in another unit, always with an exact result. Run: python generate.py"""

import json
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

SYSTEM = (
    "Convert the quantity. You may show your working. End with the exact result after an equals sign, as in '= 0.125 unit': "
    "the symbol of the unit as the question gives it, a point before decimals, nothing rounded, no zeros added."
)
EACH = 4

# From (name), to (name, symbol), factor, and the quantities to draw from: numerators over a denominator.
UNITS: list[tuple[str, str, str, Fraction, range, int]] = [
    ("kilometres", "metres", "m", Fraction(1000), range(11, 400), 10),
    ("centimetres", "metres", "m", Fraction(1, 100), range(105, 2000), 1),
    ("inches", "centimetres", "cm", Fraction(254, 100), range(3, 90), 1),
    ("feet", "inches", "in", Fraction(12), range(3, 60), 1),
    ("yards", "feet", "ft", Fraction(3), range(7, 120), 1),
    ("international miles", "metres", "m", Fraction(1609344, 1000), range(2, 60), 1),
    ("kilograms", "grams", "g", Fraction(1000), range(11, 300), 10),
    ("milligrams", "grams", "g", Fraction(1, 1000), range(150, 9000), 1),
    ("tonnes", "kilograms", "kg", Fraction(1000), range(11, 300), 10),
    ("litres", "millilitres", "ml", Fraction(1000), range(11, 120), 10),
    ("hours", "minutes", "min", Fraction(60), range(5, 60), 2),
    ("minutes", "seconds", "s", Fraction(60), range(4, 95), 1),
    ("days", "hours", "h", Fraction(24), range(3, 45), 1),
    ("kilometres per hour", "metres per second", "m/s", Fraction(5, 18), range(18, 325, 9), 1),
    ("metres per second", "kilometres per hour", "km/h", Fraction(18, 5), range(4, 120), 1),
    ("hectares", "square metres", "m²", Fraction(10000), range(11, 250), 10),
    ("bar", "kilopascals", "kPa", Fraction(100), range(11, 150), 10),
    ("kilowatt-hours", "megajoules", "MJ", Fraction(36, 10), range(3, 90), 1),
]


def exact(value: Fraction) -> str:
    """A decimal number without an end of zeros; the fractions here all have one."""
    number = Decimal(value.numerator) / Decimal(value.denominator)
    assert Fraction(number) == value
    return f"{number.normalize():f}"


def row(question: str, value: Fraction, symbol: str, name: str, category: str) -> dict[str, object]:
    plain = exact(value)
    whole, point, decimals = plain.partition(".")
    grouped = f"{int(whole):,}{point}{decimals}" if abs(value) >= 1000 else plain
    units = [symbol, symbol.replace("²", "^2"), name]
    ideals = list(dict.fromkeys(f"= {number} {unit}" for number in (plain, grouped) for unit in units))
    return {"input": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}], "ideal": ideals, "category": category}


def temperatures(rng: random.Random) -> list[dict[str, object]]:
    made = []
    for celsius in rng.sample(range(-40, 205, 5), EACH):
        question = f"How many degrees Fahrenheit (symbol: °F) are {celsius} degrees Celsius?"
        made.append(row(question, Fraction(celsius) * 9 / 5 + 32, "°F", "degrees Fahrenheit", "celsius-to-fahrenheit"))
    for celsius in rng.sample(range(-40, 205, 5), EACH):
        question = f"How many degrees Celsius (symbol: °C) are {celsius * 9 // 5 + 32} degrees Fahrenheit?"
        made.append(row(question, Fraction(celsius), "°C", "degrees Celsius", "fahrenheit-to-celsius"))
    return made


def rows() -> list[dict[str, object]]:
    rng = random.Random(2)
    made = []
    for source, target, symbol, factor, numerators, denominator in UNITS:
        for numerator in rng.sample(numerators, EACH):
            quantity = Fraction(numerator, denominator)
            question = f"How many {target} (symbol: {symbol}) are {exact(quantity)} {source}?"
            made.append(row(question, quantity * factor, symbol, target, f"{source}-to-{target}".replace(" ", "-")))
    return made + temperatures(rng)


if __name__ == "__main__":
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
