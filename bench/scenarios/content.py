"""What the scenarios' tools return: made from a seed, in the sizes that the documents tell.

Listings, records, pages and logs with identifiers of the kind that later calls quote.
The same seed and size always give the same text.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

from windlass.messages import Picture
from windlass.text.pictures import picture

_AREAS: Final = ("sales", "billing", "support", "logistics", "people", "listing", "finance")
_THINGS: Final = (
    "order", "invoice", "customer", "shipment", "property", "agent", "offer", "contract",
    "payment", "region", "visit", "ticket", "warehouse", "valuation", "owner", "inspection",
)  # fmt: skip
_FIELDS: Final = (
    "id", "created_at", "updated_at", "status", "amount", "currency", "city", "postcode",
    "floor_area_m2", "bedrooms", "asking_price", "sold_price", "listed_on", "sold_on",
    "channel", "source_system", "owner_id", "agent_id", "region_code", "energy_class",
)  # fmt: skip
_TYPES: Final = ("bigint", "timestamptz", "text", "numeric(12,2)", "date", "varchar(64)", "boolean")
_WORDS: Final = (
    "the", "of", "and", "to", "in", "is", "for", "that", "with", "as", "are", "by", "from",
    "this", "which", "on", "value", "median", "per", "region", "listed", "sold", "price",
    "change", "between", "quarter", "source", "table", "column", "used", "since", "reported",
    "missing", "customers", "average", "share", "higher", "lower", "than", "season",
    "because", "data", "model", "estimate", "compared", "against", "records", "updated",
    "nightly", "only", "where", "available", "regional", "office", "market", "supply",
    "measured", "area", "rooms", "energy", "rating", "buyers", "sellers", "days", "until",
    "contract", "signed",
)  # fmt: skip
_CITIES: Final = ("Aarhus", "Bergen", "Cork", "Delft", "Espoo", "Faro", "Ghent", "Halle")


def _sentence(chance: random.Random, words: int) -> str:
    said = " ".join(chance.choice(_WORDS) for _ in range(words))
    return said[0].upper() + said[1:] + "."


def _prose(chance: random.Random, characters: int) -> str:
    text = ""
    while len(text) < characters:
        text += _sentence(chance, chance.randint(8, 18)) + " "
    return text[: max(0, characters - 1)].rstrip().ljust(characters - 1, ".") + "\n"


def _records(characters: int, record: Callable[[int], dict[str, Any]], filler: str) -> str:
    """JSON of so many characters: a list of records, the last one's `filler` key made to fit."""
    rows: list[dict[str, Any]] = []
    size = 2
    while True:
        row = record(len(rows))
        added = len(json.dumps(row, indent=1)) + 2 + 1 + len(row)
        if rows and size + added > characters:
            break
        rows.append(row)
        size += added
    missing = characters - len(json.dumps(rows, indent=1))
    while missing < 0:
        rows.pop()
        missing = characters - len(json.dumps(rows, indent=1))
    chance = random.Random(characters)
    rows[-1][filler] += (" " + _prose(chance, missing + 1).replace("\n", " "))[:missing]
    return json.dumps(rows, indent=1)


def schema(characters: int, seed: int = 1) -> str:
    """A listing of tables and their columns, as a catalogue search prints it."""
    chance = random.Random(seed)
    lines: list[str] = []
    size = 0
    for number in range(100, 1_000):
        table = f"{chance.choice(_AREAS)}.{chance.choice(_THINGS)}_{number}"
        columns = chance.sample(_FIELDS, 9)
        block = [f"TABLE {table}  -- about {chance.randint(1, 900)} thousand rows"]
        block += [
            f"    {name:<16} {chance.choice(_TYPES):<14} -- {_sentence(chance, 7)}"
            for name in columns
        ]
        block.append("")
        for line in block:
            lines.append(line)
            size += len(line) + 1
            if size >= characters:
                return "\n".join(lines)[:characters]
    raise ValueError(f"no schema of {characters} characters")


def tables_of(text: str) -> list[str]:
    """The names of the tables in a `schema`."""
    return [line.split()[1] for line in text.splitlines() if line.startswith("TABLE ")]


def properties(characters: int, seed: int = 2) -> str:
    """Records about the properties of columns, as JSON."""
    chance = random.Random(seed)

    def record(number: int) -> dict[str, Any]:
        table = f"{chance.choice(_AREAS)}.{chance.choice(_THINGS)}_{chance.randint(100, 999)}"
        return {
            "property_id": f"prop_{number:05d}",
            "table": table,
            "column": chance.choice(_FIELDS),
            "type": chance.choice(_TYPES),
            "nullable": chance.random() < 0.3,
            "distinct": chance.randint(2, 90_000),
            "sample": chance.choice(_CITIES),
            "description": _sentence(chance, chance.randint(8, 16)),
        }

    return _records(characters, record, "description")


def rows(characters: int, seed: int = 3) -> str:
    """The result of a query, as JSON."""
    chance = random.Random(seed)

    def record(number: int) -> dict[str, Any]:
        return {
            "city": chance.choice(_CITIES),
            "quarter": f"2025-Q{number % 4 + 1}",
            "median_price": chance.randint(150_000, 900_000),
            "offers": chance.randint(10, 999),
            "note": _sentence(chance, 6),
        }

    return _records(characters, record, "note")


def found(characters: int, seed: int) -> str:
    """The results of a search, as JSON: title, address, snippet."""
    chance = random.Random(seed)

    def record(number: int) -> dict[str, Any]:
        words = "-".join(chance.sample(_WORDS, 3))
        return {
            "title": _sentence(chance, 6),
            "url": f"https://notes.example.org/{seed:02d}/{words}-{chance.randint(1000, 9999)}",
            "rank": number + 1,
            "snippet": _sentence(chance, 28),
        }

    return _records(characters, record, "snippet")


def page(characters: int, seed: int) -> str:
    """A page of prose that names studies by number and figures."""
    chance = random.Random(seed)
    text = f"Report RPT-{seed:04d}\n"
    while len(text) < characters:
        text += (
            f"Study ST-{chance.randint(10_000, 99_999)}: {_prose(chance, 320).strip()}"
            f" Effect {chance.uniform(0.1, 9.9):.3f} at n={chance.randint(40, 4_000)}.\n\n"
        )
    return text[:characters]


def log(characters: int, run: int, runs: int) -> str:
    """One of several runs of the same tests: at each a few more pass, and no line tells a time."""
    chance = random.Random(characters)
    suite: list[str] = []
    while sum(len(line) + 8 for line in suite) < characters:
        suite.append(
            f"tests/test_{chance.choice(_THINGS)}.py::test_{chance.choice(_FIELDS)}"
            f"_{chance.randint(1, 99)}"
        )
    places = {
        number: f"src/{chance.choice(_AREAS)}/{chance.choice(_THINGS)}.py:{chance.randint(10, 400)}"
        for number in chance.sample(range(len(suite)), runs + 3)
    }
    failing = dict(list(places.items())[run - 1 :])
    chance = random.Random(run)
    lines = [f"run {run:03d} of the suite"]
    for number, test in enumerate(suite):
        if number in failing:
            told = f"expected {chance.randint(100, 999)}, got {chance.randint(100, 999)}"
            lines.append(f"{test} FAILED {failing[number]}: AssertionError: {told}")
        else:
            lines.append(f"{test} PASSED")
    return "\n".join(lines)


def prose(characters: int, seed: int) -> str:
    """Plain sentences, as a model writes them."""
    return _prose(random.Random(seed), characters).strip()


def chart(size: int, seed: int, name: str) -> Picture:
    """A PNG of 1200 x 800 pixels in about `size` bytes."""
    width, height = 1_200, 800
    noisy = max(0, size - 3_600) // width
    chance = random.Random(seed)
    lines = b"".join(
        b"\0" + (chance.randbytes(width) if line < noisy else bytes([200]) * width)
        for line in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    file += chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return picture(file, name=name)
