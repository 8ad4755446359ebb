"""Rows of sinks as Avro and Protobuf: a topic of the same format reads back exactly the same values."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description.arrow_types import arrow_type
from headrace.errors import TerminalError
from headrace.sequence.decode import Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sinks.encoding import encoder_of
from headrace.sinks.encoding.avro_rows import AvroRows, avro_schema
from tests.laws.kernel.protobuf_values import Field, compiled, field, message, some_message

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
RANDOMS = st.integers(0, 2**32).map(Random)
DERIVED = hr.Avro(registry="http://nowhere:1")  # it has no schema, so rows have that of their columns
NOON = dt.datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
SCALARS: tuple[tuple[pa.DataType, tuple[Any, ...]], ...] = (
    (pa.bool_(), (True, False)),
    (pa.int32(), (0, -(2**31))),
    (pa.int64(), (0, 2**63 - 1)),
    (pa.float32(), (0.25, float("inf"))),
    (pa.float64(), (0.1, float("-inf"))),
    (pa.string(), ("", "é漢\U0001f600")),
    (pa.binary(), (b"", b"\xff\0")),
    (pa.date32(), (dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    (pa.timestamp("us", "UTC"), (NOON, dt.datetime(1969, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC))),
    (pa.timestamp("us"), (NOON.replace(tzinfo=None),)),
    (pa.decimal128(20, 3), (Decimal("12345678901234567.890"), Decimal("-0.001"))),
)


def some_type(random: Random, depth: int = 0) -> tuple[pa.DataType, Any]:
    """A type, and a function that makes values of it."""
    kind = random.choice(["scalar"] * 4 + (["struct", "list", "map"] if depth < 2 else []))
    if kind == "scalar":
        of, values = random.choice(SCALARS)
        return of, lambda: random.choice([None, *values])
    if kind == "struct":
        inner = [some_type(random, depth + 1) for _ in range(random.randrange(1, 3))]
        fields = [(f"f{n}", of) for n, (of, _) in enumerate(inner)]
        return pa.struct(fields), lambda: {f"f{n}": make() for n, (_, make) in enumerate(inner)}
    of, make = some_type(random, depth + 1)
    if kind == "list":
        return pa.list_(of), lambda: [make() for _ in range(random.randrange(3))]
    return pa.map_(pa.string(), of), lambda: [(f"k{n}", make()) for n in range(random.randrange(3))]


def read_back(topic: hr.Topic, contents: pa.Array) -> list[Any]:
    times = pa.array([1_000] * len(contents), pa.int64())
    decoded = Decoder(RecordFormat.of(topic)).decode(
        pa.nulls(len(contents), pa.binary()), contents, times, 2_000
    )
    assert decoded.reasons.as_column().null_count == len(contents), decoded.reasons.as_column()
    found: list[Any] = decoded.values.to_pylist()
    return found


@given(RANDOMS)
@settings(max_examples=20 * EXAMPLES, deadline=None)
def test_rows_as_avro_are_read_back_as_they_were(random: Random) -> None:
    types = [some_type(random) for _ in range(random.randrange(1, 5))]
    columns = pa.schema([(f"c{n}", of) for n, (of, _) in enumerate(types)])
    rows = [{f"c{n}": make() for n, (_, make) in enumerate(types)} for _ in range(3)]
    structs = pa.array([*rows, None], pa.struct(list(columns)))
    avro = hr.Avro(schema=avro_schema(DERIVED, "t", "value", columns, "w"))
    contents, problems = encoder_of(avro, "t", "value", columns, register=True).encoded(structs).flatten()
    assert problems.null_count == len(structs)
    assert contents[-1].as_py() is None
    assert read_back(hr.Topic("t", format=avro), contents) == structs.to_pylist()


@given(RANDOMS)
@settings(max_examples=20 * EXAMPLES, deadline=None)
def test_rows_as_protobuf_are_read_back_as_they_were(random: Random) -> None:
    described, pairs = some_message(random)
    made = compiled(described)[f"p.{described.name}"]
    topic = hr.Topic("t", format=hr.Protobuf(made))
    columns = pa.schema([(column.name, arrow_type(column.type)) for column in topic.value_columns])
    structs = pa.array([held for _, held in pairs], pa.struct(list(columns)))
    contents, problems = (
        encoder_of(hr.Protobuf(made), "t", "value", columns, register=True).encoded(structs).flatten()
    )
    assert problems.null_count == len(structs)
    assert read_back(topic, contents) == structs.to_pylist()


def test_messages_within_messages_are_read_back_as_they_were() -> None:
    inner = message(
        "In",
        field("n", 1, Field.TYPE_INT32, proto3_optional=True),
        field("at", 2, "google.protobuf.Timestamp"),
    )
    entry = message("MEntry", field("key", 1, Field.TYPE_STRING), field("value", 2, "p.In"))
    entry.options.map_entry = True
    many = field("m", 4, "p.Out.MEntry")
    several = field("s", 5, "p.In")
    many.label = several.label = Field.LABEL_REPEATED
    outer = message(
        "Out", field("i", 1, "p.In"), field("w", 2, "google.protobuf.UInt64Value"), field("d", 3, "google.protobuf.Duration"),
        many, several, field("j", 6, "google.protobuf.Struct"), nested_type=[entry],
    )  # fmt: skip
    made = compiled(inner, outer)["p.Out"]
    topic = hr.Topic("t", format=hr.Protobuf(made))
    columns = pa.schema([(column.name, arrow_type(column.type)) for column in topic.value_columns])
    part = {"n": 0, "at": NOON}
    rows = [
        {"i": part, "w": Decimal(2**64 - 1), "d": -1_500_001, "m": [("k", part)], "s": [part, {"n": None, "at": None}], "j": '{"a": [1.5]}'},
        {"i": None, "w": None, "d": None, "m": [], "s": [], "j": None},
        {"i": {"n": None, "at": None}, "w": Decimal(0), "d": 0, "m": [], "s": [], "j": "{}"},
    ]  # fmt: skip
    structs = pa.array(rows, pa.struct(list(columns)))
    contents, problems = (
        encoder_of(hr.Protobuf(made), "t", "value", columns, register=True).encoded(structs).flatten()
    )
    assert problems.to_pylist() == [None] * 3
    assert read_back(topic, contents) == structs.to_pylist()
    assert timestamp_pb2.Timestamp.DESCRIPTOR.full_name in str(topic.format.schema)  # type: ignore[union-attr]


STRICT = {"type": "record", "name": "r", "fields": [
    {"name": "id", "type": "string"},
    {"name": "n", "type": "int"},
    {"name": "more", "type": "string", "default": "?"},
]}  # fmt: skip
IDS = pa.schema([("id", pa.string()), ("n", pa.int32())])


def test_a_row_that_its_schema_cannot_hold_is_refused_alone() -> None:
    encoder = encoder_of(hr.Avro(schema=STRICT), "t", "value", IDS, register=True)
    rows = pa.array([{"id": "a", "n": 1}, {"id": None, "n": 2}, None], pa.struct(list(IDS)))
    contents, problems = (column.to_pylist() for column in encoder.encoded(rows).flatten())
    assert read_back(hr.Topic("t", format=hr.Avro(schema=STRICT)), pa.array(contents[:1], pa.binary())) == [
        {"id": "a", "n": 1, "more": "?"}
    ]
    assert contents[1:] == [None, None]
    assert problems[0] is None
    assert problems[1].startswith("it does not fit its schema: ")
    assert problems[2] is None


@pytest.mark.parametrize("nested", [False, True])
def test_a_time_that_python_does_not_have_is_refused_alone(nested: bool) -> None:
    at = pa.array([1_000_000, 10**18, None], pa.int64()).cast(pa.timestamp("us", "UTC"))
    part = pa.StructArray.from_arrays([at], names=["at"])
    rows = pa.StructArray.from_arrays([part], names=["part"]) if nested else part
    columns = pa.schema(list(rows.type))
    avro = hr.Avro(schema=avro_schema(DERIVED, "t", "value", columns, "w"))
    encoder = encoder_of(avro, "t", "value", columns, register=True)
    contents, problems = (column.to_pylist() for column in encoder.encoded(rows).flatten())
    assert [content is None for content in contents] == [False, True, False]
    assert problems[1].startswith("it does not fit its schema: ")
    assert problems[::2] == [None, None]


ENUM = compiled(message("M", field("id", 1, Field.TYPE_STRING), field("n", 2, Field.TYPE_INT32)))["p.M"]
MISFITS: dict[str, tuple[hr.Avro | hr.Protobuf | hr.JsonSchema, pa.Schema, str]] = {
    "a column without a field": (hr.Avro(schema=STRICT), pa.schema([*IDS, ("x", pa.int32())]), "column 'x' has no field in the Avro schema"),
    "a wider column": (hr.Avro(schema=STRICT), pa.schema([IDS.field(0), ("n", pa.string())]), "column 'n' does not fit the Avro schema"),
    "a field without a column": (hr.Avro(schema=STRICT), pa.schema([IDS.field(0)]), "field 'n' of the Avro schema has no default"),
    "no record": (hr.Avro(schema="string"), IDS, "its Avro schema is string"),
    "a name that Avro does not take": (DERIVED, pa.schema([("a b", pa.int32())]), "column 'a b' cannot be a field of Avro"),
    "a map by numbers": (DERIVED, pa.schema([("m", pa.map_(pa.int32(), pa.int32()))]), "cannot be Avro"),
    "a column that is no field": (hr.Protobuf(ENUM), pa.schema([("x", pa.int32())]), "'x' is no field of message p.M"),
    "a field of another type": (hr.Protobuf(ENUM), pa.schema([("n", pa.float64())]), "column 'n' does not fit the message p.M: n is double, and would be read as int32"),
    "no registry for what is registered": (hr.Protobuf(ENUM, registered=True), IDS, "needs the registry"),
    "a column that is no property": (hr.JsonSchema(schema={"properties": {"id": {}}}), IDS, "column 'n' is no property"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_columns_that_do_not_fit_are_named_before_the_first_row(name: str) -> None:
    of, columns, says = MISFITS[name]
    with pytest.raises(TerminalError) as refused:
        encoder_of(of, "t", "value", columns, register=True)
    assert says in str(refused.value)
    assert str(refused.value).startswith("KafkaSink 't': value")


ONE = pa.schema([("n", pa.int64())])


def test_plain_values_are_written_as_kafkas_serializers_write_them() -> None:
    """As the fixtures of tests/laws/kernel/test_sequence_plain_values.py have them."""
    rows = pa.array([{"n": 1234}, {"n": None}, {"n": 2**31}, None], pa.struct(list(ONE)))
    content, problem = (
        encoder_of(hr.Number("int64"), "t", "value", ONE, register=True).encoded(rows).flatten()
    )
    assert content.to_pylist() == [
        bytes.fromhex("00000000000004d2"),
        None,
        bytes.fromhex("0000000080000000"),
        None,
    ]
    assert [None if why is None else why[:50] for why in problem.to_pylist()] == [
        None, "it does not fit its schema: ValueError: n is null,", None, None
    ]  # fmt: skip
    content, problem = encoder_of(hr.Number("int32"), "t", "key", ONE, register=True).encoded(rows).flatten()
    assert content.to_pylist() == [bytes.fromhex("000004d2"), None, None, None]
    assert [why is None for why in problem.to_pylist()] == [True, True, False, True]  # a key may be null
    texts = pa.array([{"s": "é"}, {"s": ""}], pa.struct([("s", pa.string())]))
    encoder = encoder_of(hr.Text(), "t", "value", pa.schema(list(texts.type)), register=True)
    assert encoder.encoded(texts).flatten()[0].to_pylist() == ["é".encode(), b""]


READINGS = hr.Topic("readings", key="id STRING", value="v DOUBLE, s STRING")
COUNTS = READINGS.group_by("s").aggregate(n=hr.count()).named("counts")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": hr.Number("int32"), "key_format": hr.Number("int64")}, "key: column 's' is STRING, and int64 is BIGINT"),
        ({"format": hr.Text()}, "value: column 'n' is BIGINT, and text is STRING"),
    ],
)  # fmt: skip
def test_a_column_that_is_no_such_plain_value_is_refused_when_described(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(hr.DescriptionError) as refused:
        COUNTS.to(hr.KafkaSink("t", **options))
    assert says in str(refused.value)


def test_a_plain_value_is_the_one_column_that_is_not_in_the_key() -> None:
    COUNTS.to(hr.KafkaSink("t", format=hr.Number("int64"), key_format=hr.Text()))
    windows = READINGS.group_by("s").window(hr.tumbling("1 minute"), grace=0).aggregate(n=hr.count())
    with pytest.raises(hr.DescriptionError, match="int64 is one column, and there are window_end, n"):
        windows.named("w").to(hr.KafkaSink("t", format=hr.Number("int64")))


def test_a_sink_takes_formats_for_writing_alone() -> None:
    with pytest.raises(hr.DescriptionError, match="no format for writing"):
        hr.KafkaSink("t", format=hr.Json())
    with pytest.raises(hr.DescriptionError, match="no format for writing"):
        hr.KafkaSink("t", key_format="avro")
    assert (
        json.loads(avro_schema(DERIVED, "a-topic", "key", pa.schema([("id", pa.string())]), "w"))["name"]
        == "a_topic_key"
    )


def test_records_within_rows_have_names_of_their_own() -> None:
    """Before, the second of two such columns was refused by the writer: `w_a_b` was a name twice."""
    x = pa.struct([("x", pa.int32())])
    columns = pa.schema([("a", pa.struct([("b", x)])), ("a_b", pa.struct([("b", x)])), ("a_b_2", x)])
    text = avro_schema(DERIVED, "t", "value", columns, "w")
    assert re.findall(r'"name": "(t_value\w*)"', text) == [
        "t_value",
        *("t_value_a", "t_value_a_b"),
        *("t_value_a_b_2", "t_value_a_b_2_b"),
        "t_value_a_b_2_2",
    ]
    row = {"a": {"b": {"x": 1}}, "a_b": {"b": {"x": 2}}, "a_b_2": {"x": 3}}
    assert AvroRows(text).function()(row) == b"\x02\x02\x02\x02\x02\x02\x02\x04\x02\x02\x06"
