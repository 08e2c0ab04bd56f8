"""Write samples.jsonl: short texts whose facts are to be given as JSON. Run: python generate.py"""

import json
import random
from pathlib import Path

SYSTEM = "Read the text and answer with one JSON object and nothing else: no code fence, no comment. Use exactly these keys: {}."
EACH = 10

NAMES = ["Ada Brandt", "Boris Novak", "Clara Weiss", "Daniel Okafor", "Emi Sato", "Farah Aziz", "Gustavo Reyes", "Hanna Lind", "Igor Petrov",
         "Julia Costa", "Kwame Mensah", "Léa Moreau", "Marek Zielinski", "Nora Haddad", "Oscar Nyström", "Paula Ferreira"]  # fmt: skip
CITIES = ["Bergen", "Bologna", "Cork", "Dresden", "Eindhoven", "Fukuoka", "Ghent", "Halifax", "Innsbruck", "Kraków", "Leeds", "Porto"]
JOBS = ["baker", "carpenter", "dentist", "electrician", "gardener", "librarian", "nurse", "pilot", "plumber", "translator"]
GOODS = ["desk lamps", "garden chairs", "wool blankets", "coffee mugs", "notebooks", "bicycle tyres", "paint brushes", "wall clocks"]
COLOURS = ["black", "blue", "green", "grey", "red", "white", "yellow"]
ROOMS = ["Amber", "Birch", "Cedar", "Delta", "Ember", "Fjord"]
LANGUAGES = ["Arabic", "Dutch", "English", "French", "German", "Hindi", "Italian", "Japanese", "Polish", "Spanish"]

Case = tuple[str, str, object]
"""The keys, the text, the object."""


def person(rng: random.Random) -> Case:
    name, age, city, job = rng.choice(NAMES), rng.randint(19, 78), rng.choice(CITIES), rng.choice(JOBS)
    text = f"{name}, who turned {age} last week, has worked as a {job} in {city} for many years."
    return "name (text), age (number), job (text), city (text)", text, {"name": name, "age": age, "job": job, "city": city}


def order(rng: random.Random) -> Case:
    number, goods, count, cents = rng.randint(10000, 99999), rng.choice(GOODS), rng.randint(2, 40), rng.randint(250, 9900)
    price = f"{cents / 100:.2f}"
    text = f"Order no. {number}: please send us {count} {goods} at {price} euros each as soon as you can."
    return (
        "order (number), item (text, as written), quantity (number), price (number)",
        text,
        {"order": number, "item": goods, "quantity": count, "price": float(price)},
    )


def meeting(rng: random.Random) -> Case:
    day, hour, minute, room = rng.randint(1, 28), rng.randint(8, 17), rng.choice([0, 15, 30, 45]), rng.choice(ROOMS)
    month, year = rng.randint(1, 12), rng.randint(2024, 2028)
    people = rng.sample([name.split()[0] for name in NAMES], rng.randint(2, 4))
    text = (
        f"Reminder for {', '.join(people[:-1])} and {people[-1]}: we meet on {year}-{month:02d}-{day:02d} at {hour:02d}:{minute:02d} "
        f"in room {room}."
    )
    keys = "date (YYYY-MM-DD), time (HH:MM), room (name alone), people (list of first names, in the order of the text)"
    return keys, text, {"date": f"{year}-{month:02d}-{day:02d}", "time": f"{hour:02d}:{minute:02d}", "room": room, "people": people}


def address(rng: random.Random) -> Case:
    name, city = rng.choice(NAMES), rng.choice(CITIES)
    street = rng.choice(["Mill Lane", "Station Road", "High Street", "Park Avenue"])
    number, code = rng.randint(1, 220), rng.randint(10000, 99999)
    text = f"The parcel goes to {name}. The house is number {number} in {street}; the postcode is {code} and the town {city}."
    keys = "name (text), address (object with street (text), number (number), postcode (text) and city (text))"
    place = {"street": street, "number": number, "postcode": str(code), "city": city}
    return keys, text, {"name": name, "address": place}


def stock(rng: random.Random) -> Case:
    colours = rng.sample(COLOURS, 3)
    counts = [rng.randint(2, 90) for _ in colours]
    parts = [f"{count} {colour}" for count, colour in zip(counts, colours, strict=True)]
    text = f"This morning we counted {parts[0]} ones, {parts[1]} ones and {parts[2]} ones on the shelf."
    return f"{', '.join(colours)} (each a number)", text, dict(zip(colours, counts, strict=True))


def flags(rng: random.Random) -> Case:
    name, breakfast, parking, nights = rng.choice(NAMES), rng.random() < 0.5, rng.random() < 0.5, rng.randint(1, 14)
    text = (
        f"{name} has booked {nights} night{'s' if nights > 1 else ''}, {'with' if breakfast else 'without'} breakfast, and "
        f"{'needs' if parking else 'does not need'} a parking space."
    )
    keys = "guest (text), nights (number), breakfast (true or false), parking (true or false)"
    return keys, text, {"guest": name, "nights": nights, "breakfast": breakfast, "parking": parking}


def speakers(rng: random.Random) -> Case:
    people = rng.sample(NAMES, 2)
    known = [rng.sample(LANGUAGES, rng.randint(1, 3)) for _ in people]
    text = " ".join(f"{name} speaks {' and '.join(languages)}." for name, languages in zip(people, known, strict=True))
    keys = "speakers (list of objects with name (text) and languages (list of texts), in the order of the text)"
    return keys, text, {"speakers": [{"name": name, "languages": languages} for name, languages in zip(people, known, strict=True)]}


KINDS = [person, order, meeting, address, stock, flags, speakers]


def rows() -> list[dict[str, object]]:
    rng = random.Random(10)
    made: dict[str, dict[str, object]] = {}
    for kind in KINDS:
        wanted = len(made) + EACH
        while len(made) < wanted:
            keys, text, value = kind(rng)
            messages = [{"role": "system", "content": SYSTEM.format(keys)}, {"role": "user", "content": text}]
            made.setdefault(text, {"input": messages, "ideal": json.dumps(value, ensure_ascii=False), "category": kind.__name__})
    return list(made.values())


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
