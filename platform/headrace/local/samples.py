"""Sample records of a topic, from its schema alone: the traffic of `headrace dev` where a project has no file for it.

Law: a record is a function of the topic's schema, the seed and the time.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from headrace.description.schema import fields_of_struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.description import Topic

KEYS = 8  # so many different texts, so that groups have several records
WORDS = ("north", "south", "east", "west", "red", "green", "blue", "white")
BOUNDS = {"TINYINT": 100, "SMALLINT": 1_000, "INT": 1_000, "BIGINT": 1_000}


def sample_records(topic: Topic, seed: int, now_ms: int, number: int = 3) -> Iterator[dict[str, Any]]:
    """Values of all columns of the topic, key columns among them, as JSON has them.

    In: now_ms  the value of the column that `timestamp=` names, if it is a BIGINT
    """
    drawn = random.Random(f"{topic.name} {seed}")
    columns = {column.name: column.type for column in (*topic.key_columns, *topic.value_columns)}
    for _ in range(number):
        row = {name: _value(of, drawn) for name, of in columns.items()}
        if topic.timestamp in row and columns[topic.timestamp] == "BIGINT":
            row[topic.timestamp] = now_ms
        yield row


def _value(of: str, drawn: random.Random) -> Any:
    if of.startswith("STRUCT<"):
        return {field.name: _value(field.type, drawn) for field in fields_of_struct(of, "sample")}
    if of.startswith("ARRAY<"):
        return [_value(of.removeprefix("ARRAY<").removesuffix(">"), drawn) for _ in range(drawn.randrange(3))]
    if of.startswith("MAP<"):
        return {}
    if of in BOUNDS:
        return drawn.randrange(BOUNDS[of])
    if of in ("FLOAT", "DOUBLE") or of.startswith("DECIMAL("):
        return drawn.randrange(1_000) / 10 if not of.startswith("DECIMAL(") else drawn.randrange(9)
    if of == "BOOLEAN":
        return drawn.random() < 0.5
    if of == "DATE":
        return f"2026-01-{drawn.randrange(1, 29):02d}"
    if of.startswith("TIMESTAMP"):
        return f"2026-01-{drawn.randrange(1, 29):02d}T12:00:00Z"
    return drawn.choice(WORDS[:KEYS])
