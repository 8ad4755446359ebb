"""Random Avro schemas with values, and what the columns of a value hold, worked out in plain Python."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from random import Random
from typing import Any

import fastavro

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LEAVES: tuple[Any, ...] = (
    "boolean", "int", "long", "float", "double", "bytes", "string",
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
)  # fmt: skip


class Schemas:
    """Makes schemas; each named type has a name of its own."""

    def __init__(self, random: Random) -> None:
        self._random, self._names = random, 0

    def record(self, depth: int = 0) -> dict[str, Any]:
        fields = [
            {"name": f"f{n}", "type": self.type(depth + 1)} for n in range(self._random.randrange(1, 4))
        ]
        return {"type": "record", "name": self._name(), "fields": fields}

    def type(self, depth: int) -> Any:
        kinds = ["leaf"] * 5 + ["null"] * 2 + ["enum", "fixed"]
        kinds += ["record", "array", "map", "choice"] if depth < 3 else []
        match self._random.choice(kinds):
            case "leaf":
                return self._random.choice(LEAVES)
            case "null":
                inner = self.type(depth + 1)
                return inner if isinstance(inner, list) else self._shuffled(["null", inner])
            case "enum":
                return {"type": "enum", "name": self._name(), "symbols": ["A", "B", "C"]}
            case "fixed":
                return {"type": "fixed", "name": self._name(), "size": self._random.randrange(1, 5)}
            case "record":
                return self.record(depth)
            case "array":
                return {"type": "array", "items": self.type(depth + 1)}
            case "map":
                return {"type": "map", "values": self.type(depth + 1)}
            case _:
                return self._shuffled(["null", "string", "long", self.record(depth)])

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def _shuffled(self, branches: list[Any]) -> list[Any]:
        self._random.shuffle(branches)
        return branches


def encoded(schema: Any, value: Any) -> bytes:
    """A value as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def value_of(schema: Any, random: Random) -> tuple[Any, Any]:
    """A random value as fastavro's writer takes it, and as its column holds it."""
    if isinstance(schema, list):
        return _of_union(schema, random)
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "record":
            pairs = {field["name"]: value_of(field["type"], random) for field in schema["fields"]}
            return {n: pair[0] for n, pair in pairs.items()}, {n: pair[1] for n, pair in pairs.items()}
        case "array":
            items = [value_of(schema["items"], random) for _ in range(random.randrange(3))]
            return [item[0] for item in items], [item[1] for item in items]
        case "map":
            named = {f"k{n}": value_of(schema["values"], random) for n in range(random.randrange(3))}
            return {n: pair[0] for n, pair in named.items()}, [(n, pair[1]) for n, pair in named.items()]
        case "enum":
            return (symbol := random.choice(schema["symbols"])), symbol
        case "fixed":
            return (content := random.randbytes(schema["size"])), content
        case _:
            return _leaf(kind, None if isinstance(schema, str) else schema.get("logicalType"), random)


def _of_union(branches: list[Any], random: Random) -> tuple[Any, Any]:
    chosen = random.choice(branches)
    if chosen == "null":
        return None, None
    value, held = value_of(chosen, random)
    real = [each for each in branches if each != "null"]
    if len(real) == 1:
        return value, held
    members = {f"member{n}": held if each is chosen else None for n, each in enumerate(real)}
    return (value if isinstance(chosen, str) else (chosen["name"], value)), members


def _leaf(kind: str, logical: str | None, random: Random) -> tuple[Any, Any]:
    match kind, logical:
        case _, "date":
            day = dt.date(random.randrange(1, 10_000), random.randrange(1, 13), random.randrange(1, 29))
            return (day - EPOCH.date()).days, day
        case _, "timestamp-millis" | "timestamp-micros" | "local-timestamp-millis" | "local-timestamp-micros":
            unit = 1000 if str(logical).endswith("millis") else 1
            number = random.randrange(-(10**12), 10**13) * 1000 // unit
            moment = EPOCH + dt.timedelta(microseconds=number * unit)
            return number, moment.replace(tzinfo=None) if str(logical).startswith("local") else moment
        case _, "decimal":
            number = random.randrange(-(10**20) + 1, 10**20)
            return Decimal(number).scaleb(-3), Decimal(number).scaleb(-3)
        case "boolean", _:
            return (truth := random.random() < 0.5), truth
        case "int", _:
            return (number := random.choice([0, -1, 2**31 - 1, -(2**31), random.randrange(99)])), number
        case "long", _:
            return (number := random.choice([0, -1, 2**63 - 1, -(2**63), random.randrange(10**12)])), number
        case "float" | "double", _:
            return (real := random.choice([0.0, -1.5, 1024.25, float("inf")])), real
        case "bytes", _:
            return (content := random.randbytes(random.randrange(4))), content
        case _:
            return (text := random.choice(["", "a", "é漢\U0001f600"])), text
