"""Avro in the sequencer: what fastavro writes is read, whatever the schema and the chunk; any other bytes are a dead letter."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description.formats.registry import RegisteredSchema
from headrace.sequence.decode import Decoded, Decoder
from headrace.sequence.encodings import KnownSchemas
from headrace.sequence.formats import RecordFormat
from tests.laws.kernel.avro_values import EPOCH, Schemas, encoded, value_of

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
NOW_MS = 1_800_000_000_000
URL = "http://registry:8081"
DAMAGED = "it is cut short, or names a branch or a symbol that is not there"


def record(*fields: Any, name: str = "r", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, of: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": of, **more}


def nested(depth: int) -> Any:
    """A schema of one type more than so many."""
    return record(field("id", nested(depth - 1)), name=f"n{depth}") if depth else "int"


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def known(*unknown: int, **schemas: Any) -> KnownSchemas:
    """Schemas by id, as `_7=…`."""
    found = {
        (URL, int(name[1:])): schema
        if isinstance(schema, RegisteredSchema)
        else RegisteredSchema("AVRO", json.dumps(schema))
        for name, schema in schemas.items()
    }
    return KnownSchemas(found, frozenset((URL, each) for each in unknown))


def decoded(topic: hr.Topic, values: list[bytes | None], schemas: KnownSchemas | None = None) -> Decoded:
    raw = pa.array(values, pa.binary())
    times = pa.array([1_000] * len(values), pa.int64())
    return Decoder(RecordFormat.of(topic, schemas)).decode(
        pa.nulls(len(values), pa.binary()), raw, times, NOW_MS
    )


def found(topic: hr.Topic, value: bytes, schemas: KnownSchemas | None = None) -> Any:
    """The value of one record, or its reason."""
    read = decoded(topic, [value], schemas)
    (reason,) = read.reasons.as_column().to_pylist()
    return reason if reason is not None else read.values.to_pylist()[0]


@given(st.integers(0, 2**32).map(Random))
@settings(max_examples=20 * EXAMPLES, deadline=None)
def test_what_is_written_is_read(random: Random) -> None:
    schema = Schemas(random).record()
    pairs = [value_of(schema, random) for _ in range(random.randrange(1, 6))]
    values = [encoded(schema, value) for value, _ in pairs]
    plain = hr.Topic("t", format=hr.Avro(schema=schema))
    read = decoded(plain, [*values, None])
    assert read.reasons.as_column().to_pylist() == [None] * (len(values) + 1)
    assert read.values.to_pylist() == [*(held for _, held in pairs), None]
    registered = hr.Topic("t", format=hr.Avro(schema=schema, registry=URL))
    again = decoded(registered, [*(framed(7, value) for value in values), None], known(_7=schema))
    assert again.values.equals(read.values)


@given(st.integers(0, 2**32).map(Random))
@settings(max_examples=10 * EXAMPLES, deadline=None)
def test_a_record_is_read_alike_whatever_stands_beside_it(random: Random) -> None:
    """Several schemas and damaged records in a chunk: each record is what it is alone."""
    schemas = Schemas(random)
    inner = schemas.record()
    first = record(field("a", inner), field("b", "int"))
    second = record(field("b", "int"), field("a", inner), field("c", "string"))
    values: list[bytes | None] = []
    for _ in range(random.randrange(1, 20)):
        number = random.choice([1, 2, 3, 9])
        schema = second if number == 2 else first
        value = framed(number, encoded(schema, value_of(schema, random)[0]))
        if random.random() < 0.4:
            at = random.randrange(len(value))
            value = random.choice(
                [value[:at], value + b"\0", value[:at] + random.randbytes(1) + value[at + 1 :]]
            )
        values.append(random.choice([value, value, value, None]))
    ids = known(9, _1=first, _2=second, _3=record(field("b", "string")))
    topic = hr.Topic("t", format=hr.Avro(schema=first, registry=URL))
    together, alone = decoded(topic, values, ids), [decoded(topic, [value], ids) for value in values]
    reasons = [each.reasons.as_column()[0].as_py() for each in alone]
    assert together.reasons.as_column().to_pylist() == reasons
    held = zip(together.values.to_pylist(), alone, reasons, strict=True)
    # As texts: a damaged float may be NaN.
    assert all(
        str(value) == str(each.values.to_pylist()[0]) for value, each, reason in held if reason is None
    )
    assert together.asked == frozenset().union(*(each.asked for each in alone))


COLUMNS: dict[str, tuple[Any, str]] = {
    "boolean": ("boolean", "BOOLEAN"),
    "int": ("int", "INT"),
    "long": ("long", "BIGINT"),
    "float": ("float", "FLOAT"),
    "double": ("double", "DOUBLE"),
    "bytes": ("bytes", "BINARY"),
    "string": ("string", "STRING"),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A"]}, "STRING"),
    "fixed": ({"type": "fixed", "name": "x", "size": 2}, "BINARY"),
    "array": ({"type": "array", "items": ["null", "int"]}, "ARRAY<INT>"),
    "map": ({"type": "map", "values": "double"}, "MAP<STRING, DOUBLE>"),
    "record": (record(field("a b", "int"), name="q"), "STRUCT<`a b`: INT>"),
    "null or a type": (["null", "long"], "BIGINT"),
    "int or long": (["int", "null", "long"], "BIGINT"),
    "float or double": (["float", "double"], "DOUBLE"),
    "string or long": (["null", "string", "long"], "STRUCT<member0: STRING, member1: BIGINT>"),
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "DECIMAL(9,2)"),
    "decimal of too many digits": ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "BINARY"),
    "date": ({"type": "int", "logicalType": "date"}, "DATE"),
    "time-millis": ({"type": "int", "logicalType": "time-millis"}, "INT"),
    "timestamp-millis": ({"type": "long", "logicalType": "timestamp-millis"}, "TIMESTAMP"),
    "timestamp-nanos": ({"type": "long", "logicalType": "timestamp-nanos"}, "BIGINT"),
    "local-timestamp-micros": ({"type": "long", "logicalType": "local-timestamp-micros"}, "TIMESTAMP_NTZ"),
    "uuid": ({"type": "string", "logicalType": "uuid"}, "STRING"),
    "uuid in 16 bytes": ({"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}, "BINARY"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_each_type_has_a_column(name: str) -> None:
    schema, column = COLUMNS[name]
    topic = hr.Topic("t", format=hr.Avro(schema=record(field("f", schema))))
    assert [each.type for each in topic.value_columns] == [column]


OLD = record(field("id", "string"), field("n", "int"))
EVOLVED: dict[str, tuple[Any, Any, Any]] = {
    # name: the writer's schema, a value, and what the reader's columns hold or why there is none
    "a field was added with a default": (record(field("id", "string")), {"id": "a"}, {"id": "a", "n": 3, "k": b"\xff"}),
    "a field was removed": (
        record(field("old", {"type": "array", "items": "long"}), field("n", "int"), field("id", "string")),
        {"old": [1, 2], "n": 1, "id": "a"},
        {"id": "a", "n": 1, "k": b"\xff"},
    ),
    "a field was renamed": (record(field("key", "string"), field("n", "int")), {"key": "a", "n": 1}, {"id": "a", "n": 1, "k": b"\xff"}),
    "a number became wider": (record(field("id", "bytes"), field("n", "int")), {"id": b"a", "n": 9}, {"id": "a", "n": 9, "k": b"\xff"}),
    "the record has another name, and no alias": (record(field("id", "string"), name="s"), {"id": "a"}, "SchemaResolutionError"),
    "a type changed": (record(field("id", "string"), field("n", "string")), {"id": "a", "n": "b"}, "schema 7: SchemaResolutionError"),
    "a field without a default is missing": (record(field("n", "int")), {"n": 1}, "No default value for field id"),
}  # fmt: skip


@pytest.mark.parametrize("name", EVOLVED)
def test_records_are_resolved_to_the_readers_schema(name: str) -> None:
    writer, value, expected = EVOLVED[name]
    reader = record(
        field("id", "string", aliases=["key"]),
        field("n", "long", default=3),
        field("k", "bytes", default="ÿ"),
    )
    topic = hr.Topic("t", format=hr.Avro(schema=reader, registry=URL))
    got = found(topic, framed(7, encoded(writer, value)), known(_7=writer))
    assert got == expected if isinstance(expected, dict) else expected in got


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
MEANINGS: dict[str, tuple[Any, Any, Any, Any]] = {
    # name: the type of the writer, that of the reader, what is written, and what it is or why it is not
    "a time in another unit": (
        MILLIS,
        MICROS,
        5,
        "f is timestamp-millis, and timestamp-micros by the reader's schema",
    ),
    "a decimal of another scale": (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        ["null", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}],
        Decimal("1.25"),
        "f is decimal(4,2), and decimal(4,1) by the reader's schema",
    ),
    "a decimal of more digits": (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        Decimal("1.25"),
        Decimal("1.25"),
    ),
    "a logical type that was added": ("long", MILLIS, 5, EPOCH + dt.timedelta(milliseconds=5)),
    "a logical type that went": (MILLIS, "long", 5, 5),
    "within an array": (
        {"type": "array", "items": MILLIS},
        {"type": "array", "items": MICROS},
        [5],
        "f[] is timestamp-millis",
    ),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_what_is_encoded_is_never_read_as_something_else(name: str) -> None:
    wrote, read, value, expected = MEANINGS[name]
    writer, reader = record(field("f", wrote)), record(field("f", read))
    topic = hr.Topic("t", format=hr.Avro(schema=reader, registry=URL))
    got = found(topic, framed(7, encoded(writer, {"f": value})), known(_7=writer))
    if isinstance(expected, str):
        assert expected in got
    else:
        assert got == {"f": expected}


def test_columns_may_be_fewer_than_the_schema_has() -> None:
    odd = record(field("x", ["int", "long", "string"]), name="o")  # no column can hold it, and none has to
    schema = record(field("odd", odd), field("n", "int"), field("id", "string"))
    topic = hr.Topic("t", value="id STRING NOT NULL", format=hr.Avro(schema=schema))
    value = {"odd": {"x": "y"}, "n": 1, "id": "a"}
    assert topic.columns == ("id",)
    assert found(topic, encoded(schema, value)) == {"id": "a"}


def test_without_a_readers_schema_columns_are_found_by_name() -> None:
    topic = hr.Topic(
        "t", value="id STRING, n BIGINT, d DECIMAL(12,4), new DATE", format=hr.Avro(registry=URL)
    )
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    first = record(field("n", "int"), field("id", ["null", "string"]), field("gone", "double"))
    second = record(field("d", decimal), field("id", {"type": "enum", "name": "e", "symbols": ["A", "B"]}))
    third = record(field("n", "string"))
    ids = known(_1=first, _2=second, _3=third)
    one = framed(1, encoded(first, {"n": 1, "id": "a", "gone": 0.5}))
    assert found(topic, one, ids) == {"id": "a", "n": 1, "d": None, "new": None}
    two = framed(2, encoded(second, {"d": Decimal("-1.25"), "id": "B"}))
    assert found(topic, two, ids) == {"id": "B", "n": None, "d": Decimal("-1.2500"), "new": None}
    reason = "malformed value: schema 3: n is string, and its column is int64"
    assert found(topic, framed(3, encoded(third, {"n": "1"})), ids) == reason


WHOLE = record(
    field("id", "string"), field("t", ["null", {"type": "long", "logicalType": "timestamp-millis"}])
)
MANY = record(field("many", {"type": "array", "items": "int"}))
SMALL = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 0}
BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it is too short for a magic byte and the id of a schema"),
    "JSON": (b'{"id": "a"}', "its first byte is 123, not the magic byte 0"),
    "the id in a header": (b"\x01" + b"\0" * 20, "its first byte is 1, not the magic byte 0"),
    "an id that the registry does not have": (framed(404, b"\x02a\0"), "schema 404 is not in the registry"),
    "cut short in a text": (framed(1, b"\x10abc"), f"schema 1: {DAMAGED}"),
    "cut short in a number": (framed(1, b"\x02a\x02\x80"), f"schema 1: {DAMAGED}"),
    "no payload": (framed(1, b""), f"schema 1: {DAMAGED}"),
    "bytes left over": (framed(1, b"\x02a\0\0"), "schema 1: bytes are left over"),
    "a branch that is not there": (framed(1, b"\x02a\x08"), f"schema 1: {DAMAGED}"),
    "a length below 0": (framed(1, b"\x01a\0"), f"schema 1: {DAMAGED}"),
    "a text that is not UTF-8": (framed(1, b"\x04\xff\xfe\0"), "schema 1: a text is not UTF-8"),
    "a time beyond the year 9999": (framed(1, b"\x02a\x02" + b"\xfe" * 9 + b"\x01"), "beyond its column's range"),
    "an int of 64 bits": (framed(2, b"\x02" + b"\xfe" * 9 + b"\x01\0"), "schema 2: a value does not fit"),
    "a decimal of too many digits": (framed(3, b"\x04\x03\xe8"), "beyond its column's range"),
    "a schema of another kind": (framed(4, b"\0"), "schema 4: it is PROTOBUF, not AVRO"),
    "a schema that holds itself": (framed(5, b"\0"), "schema 5: type 'r' holds itself: recursive types have no column type"),
    "items that take no bytes": (framed(6, b"\xfe" * 9 + b"\x01"), "schema 6: an array has items that take no bytes"),
    "a schema that is none": (framed(8, b"\0"), "schema 8: type 'nothing' is not defined"),
    "an id beyond those of registries": (b"\0\xff\xff\xff\xff\0", "schema 4294967295 is not in the registry"),
    "types nested too deeply": (framed(9, b"\0"), "schema 9: the schema is nested deeper than 50"),
    "a default that is no symbol": (framed(10, b"\0"), "schema 10: enum 'e': default ['A'] is not one of its symbols"),
}  # fmt: skip
IDS = {
    "_1": WHOLE,
    "_2": MANY,
    "_3": record(field("d", SMALL)),
    "_4": RegisteredSchema("PROTOBUF", "message A {}"),
    "_5": record(field("next", ["null", "r"])),
    "_6": record(field("id", {"type": "array", "items": "null"})),
    "_8": "nothing",
    "_9": nested(50),
    "_10": record(field("id", {"type": "enum", "name": "e", "symbols": ["A"], "default": ["A"]})),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_dead_letter_with_its_reason(name: str) -> None:
    value, expected = BAD[name]
    columns = "id STRING, t TIMESTAMP, many ARRAY<INT>, d DECIMAL(3,0)"
    topic = hr.Topic("t", value=columns, format=hr.Avro(registry=URL))
    got = found(topic, value, known(404, **IDS))
    assert got.startswith("malformed value: ")
    assert expected in got


def test_a_record_of_ten_megabytes_is_a_record() -> None:
    topic = hr.Topic("t", format=hr.Avro(schema=record(field("id", "string"))))
    assert found(topic, encoded(record(field("id", "string")), {"id": "x" * 10_000_000})) == {
        "id": "x" * 10_000_000
    }


def test_only_schemas_that_are_not_known_are_asked_for() -> None:
    topic = hr.Topic("t", format=hr.Avro(schema=WHOLE, registry=URL))
    values: list[bytes | None] = [framed(number, b"\x02a\0") for number in (1, 2, 404, 2)]
    assert decoded(topic, values, known(404, _1=WHOLE)).asked == {(URL, 2)}
    assert decoded(topic, [None, b"x", framed(1, b"\x02a\0")], known(_1=WHOLE)).asked == frozenset()
    beyond = framed(
        2**31, b"\x02a\0"
    )  # a registry takes the question for a wrong address, not for an id it lacks
    assert decoded(topic, [beyond], known(_1=WHOLE)).asked == frozenset()


def test_keys_have_a_format_of_their_own() -> None:
    key = record(field("id", "string"), name="k")
    topic = hr.Topic("t", key_format=hr.Avro(schema=key), value="id STRING, n INT")
    texts = hr.Topic("t", key="id STRING", key_format=hr.Avro(schema="string"), value="n INT")
    unnamed = hr.Topic("t", key_format=hr.Avro(schema='["null", "long"]'), value="n INT")
    assert (topic.columns, texts.columns, unnamed.columns) == (("id", "n"), ("id", "n"), ("key", "n"))
    raw = pa.array([encoded(key, {"id": "a"}), b"\x08a", None], pa.binary())
    read = Decoder(RecordFormat.of(topic)).decode(
        raw, pa.array([b'{"id": "b"}', b"{}", b"{}"]), pa.array([1, 1, 1]), NOW_MS
    )
    assert read.reasons.as_column().to_pylist() == [
        "disagreement: id differs between key and value",
        f"malformed key: its schema: {DAMAGED}",
        None,
    ]
    keys = Decoder(RecordFormat.of(texts)).read_keys(pa.array([encoded("string", "x"), b"\x01"]))
    assert keys.to_pylist() == [{"id": "x"}, None]
    keys = Decoder(RecordFormat.of(unnamed)).read_keys(pa.array([encoded(["null", "long"], 5), b"\0", None]))
    assert keys.to_pylist() == [{"key": 5}, {"key": None}, None]
