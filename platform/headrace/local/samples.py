"""Sample records of topics, from their schemas alone: the traffic of `headrace dev`.

Law: a record is a function of the topic's schema, the seed and the time. Its event time is that time. Texts, and whole
numbers that identify something, are few, so groups have several records and lookups match.
"""

from __future__ import annotations

import base64
import csv
import datetime as dt
import io
import json
import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.description import is_of_kafka
from headrace.description.event_time import UNITS, Arithmetic, Call, Field, Number, of_headers
from headrace.description.formats import Avro, Csv, Debezium, Json, JsonSchema, PlainValue, Protobuf
from headrace.description.formats.plain_values import BYTES
from headrace.description.schema import fields_of_struct
from headrace.nodes.descriptions.topics import topics_of
from headrace.settings import load_pipeline
from headrace.sinks.encoding.records import ENCODED, encode_of, is_encodable

if TYPE_CHECKING:
    from headrace.description import Topic
    from headrace.description.event_time import EventTime
    from headrace.description.formats import Format

Record = tuple[str, Any, Any, int]  # topic, key, value, timestamp in ms
EACH_SECOND = 5
WORDS = ("north", "south", "east", "west", "red", "green", "blue", "white")
BOUNDS = {"TINYINT": 100, "SMALLINT": 1_000, "INT": 1_000, "BIGINT": 1_000}
WRITTEN = (Csv, Json, PlainValue)  # as values and as keys; Debezium in JSON, too


def sample_traffic(pipeline: str, now_ms: int, number: int = EACH_SECOND) -> Iterator[Record]:
    """Records of all topics that the nodes of a module read; topics without samples have none (see `has_samples`)."""
    for topic in _topics(pipeline):
        yield from topic_traffic(topic, now_ms, number)


def topic_traffic(topic: Topic, now_ms: int, number: int = EACH_SECOND) -> Iterator[Record]:
    """Records of a topic. Values and keys in plain JSON are dictionaries, others are as they are sent."""
    if not has_samples(topic):
        return
    for row in sample_records(topic, now_ms // 1000, now_ms, number):
        key = {column.name: row[column.name] for column in topic.key_columns}
        value = {column.name: row[column.name] for column in topic.value_columns}
        yield topic.name, _key(topic, key), _written(topic, "value", value, now_ms), now_ms


def has_samples(topic: Topic) -> bool:
    """Whether samples of a topic's keys and values can be written: of captured tables in JSON alone (see `is_encodable`).

    They have no headers, so a topic whose event time is in one has none.
    """
    if topic.event_time is not None and of_headers(topic.event_time):
        return False
    return all(_is_writable(topic, part) for part in ("value", *(["key"] if topic.key_columns else [])))


def sample_records(topic: Topic, seed: int, now_ms: int, number: int = 3) -> Iterator[dict[str, Any]]:
    """Values of all columns of the topic, key columns among them, as JSON has them. In: now_ms  their event time."""
    drawn = random.Random(f"{topic.name} {seed}")
    for _ in range(number):
        row = {name: _value(name, column.type, drawn, now_ms) for name, column in topic.types.items()}
        if topic.event_time is not None:
            _date(row, topic.event_time, now_ms)
        yield row


@cache
def _topics(pipeline: str) -> tuple[Topic, ...]:
    return tuple(topic for topic in topics_of(load_pipeline(pipeline)).values() if is_of_kafka(topic))


def _value(name: str, of: str, drawn: random.Random, now_ms: int) -> Any:
    if of.startswith("STRUCT<"):
        fields = fields_of_struct(of, "sample")
        return {field.name: _value(field.name, field.type, drawn, now_ms) for field in fields}
    if of.startswith("ARRAY<"):
        inner = of.removeprefix("ARRAY<").removesuffix(">")
        return [_value(name, inner, drawn, now_ms) for _ in range(drawn.randrange(1, 4))]
    if of.startswith("MAP<"):
        return {}
    if of in BOUNDS:
        return drawn.randrange(len(WORDS) if name.lower().endswith("id") else BOUNDS[of])
    if of.startswith("DECIMAL("):
        return drawn.randrange(9)
    if of in ("FLOAT", "DOUBLE"):
        return drawn.randrange(1_000) / 10
    if of == "BOOLEAN":
        return drawn.random() < 0.5
    if of == "DATE":
        return _moment(now_ms).date().isoformat()
    if of.startswith("TIMESTAMP"):
        return _iso(now_ms) if of == "TIMESTAMP" else _iso(now_ms).removesuffix("Z")
    word = drawn.choice(WORDS)
    return base64.b64encode(word.encode()).decode() if of == "BINARY" else word


def _date(row: dict[str, Any], event_time: EventTime, result: int) -> None:
    """Put the event time where a topic's `timestamp` finds it. In: result  of the expression, in its unit; ms at first."""
    match event_time:
        case Field(path, of):
            *outer, last = path
            for name in outer:
                row = row[name]
            row[last] = result if of in BOUNDS else _iso(result)
        case Call(function, arguments):
            unit = UNITS.get(function, 1)
            for each in arguments:
                _date(row, each, result // unit if unit > 0 else result * -unit)
        case Arithmetic(operator, left, Number(number)):
            back = {"+": result - number, "-": result + number, "DIV": result * number}
            _date(row, left, back[operator] if operator in back else result // (number or 1))
        case Arithmetic(operator, Number(number), right):
            back = {"+": result - number, "-": number - result}
            _date(row, right, back[operator] if operator in back else result // (number or 1))
        case Arithmetic(operator, left, _):  # the other value is drawn already, and too small to matter
            _date(row, left, result)


def _moment(now_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(now_ms / 1_000, dt.UTC)


def _iso(now_ms: int) -> str:
    return _moment(now_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_writable(topic: Topic, part: str) -> bool:
    of = topic.key_format if part == "key" else topic.format
    if isinstance(of, ENCODED):
        return is_encodable(topic, part)
    return of == "json" or isinstance(of, WRITTEN) or (isinstance(of, Debezium) and of.format == "json")


def _key(topic: Topic, columns: Mapping[str, Any]) -> Any:
    """A key as a record has it; None: the topic's records have none."""
    if not columns:
        return None
    is_captured = isinstance(topic.key_format, Debezium)
    written = dict(columns) if is_captured else _written(topic, "key", columns, 0)
    return written.encode() if isinstance(written, str) else written


def _written(topic: Topic, part: str, row: Mapping[str, Any], now_ms: int) -> Any:
    """A row as a record of a topic with samples has it. In: part  "key" or "value"."""
    of: str | Format = topic.key_format if part == "key" else topic.format
    match of:
        case Avro() | Protobuf() | JsonSchema():
            return encode_of(topic, part)(row)  # it has a schema: see `has_samples`
        case PlainValue(kind=kind):
            (value,) = row.values()
            return base64.b64decode(value) if kind == BYTES else value
        case Csv():
            line = io.StringIO()
            fields = (str(each).lower() if isinstance(each, bool) else each for each in row.values())
            csv.writer(line, delimiter=of.separator, lineterminator="").writerow(fields)
            return line.getvalue()
        case Json():
            return _json(of, row)
        case Debezium():
            return _envelope(of, row, now_ms)
    return dict(row)


def _json(of: Json, row: Mapping[str, Any]) -> Any:
    if of.lines:
        return "\n".join(map(json.dumps, next(iter(row.values()))))
    value: Any = {name: each for name, each in row.items() if name != of.unknown}
    for name in reversed(of.value_path.split(".") if of.value_path else ()):
        value = {name: value}
    return value


def _envelope(of: Debezium, row: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    more = {column.name for column in of.more}
    after = {name: each for name, each in row.items() if name not in more}
    return {
        "op": "u",
        "before": None,
        "after": after,
        "source": {"ts_ms": now_ms},
        "transaction": {"id": "sample"},
    }
