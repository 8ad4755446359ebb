"""Protobuf and JSON with a schema in the sequencer: what protobuf writes is read; any other bytes are a dead letter."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description.formats.protobuf_types import descriptors_of
from headrace.sequence.decode import Decoded, Decoder
from headrace.sequence.formats import RecordFormat
from tests.description.refusal import refused
from tests.laws.kernel.protobuf_values import SCALARS, Field, compiled, field, message, some_message

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
NOW_MS = 1_800_000_000_000
GOOGLE = "google.protobuf."


def decoded(topic: hr.Topic, values: list[bytes | None]) -> Decoded:
    times = pa.array([1_000] * len(values), pa.int64())
    keys = pa.nulls(len(values), pa.binary())
    return Decoder(RecordFormat.of(topic)).decode(keys, pa.array(values, pa.binary()), times, NOW_MS)


def found(topic: hr.Topic, value: bytes) -> Any:
    """The value of one record, or its reason."""
    read = decoded(topic, [value])
    (reason,) = read.reasons.as_column().to_pylist()
    return reason if reason is not None else read.values.to_pylist()[0]


@given(st.integers(0, 2**32).map(Random))
@settings(max_examples=20 * EXAMPLES, deadline=None)
def test_what_is_written_is_read(random: Random) -> None:
    described, pairs = some_message(random)
    made = compiled(described)["p.M"]
    values = [made(**given).SerializeToString() for given, _ in pairs]
    topic = hr.Topic("t", format=hr.Protobuf(made))
    read = decoded(topic, [*values, None])
    assert read.reasons.as_column().to_pylist() == [None] * (len(values) + 1)
    assert read.values.to_pylist() == [*(held for _, held in pairs), None]
    framed = hr.Topic("t", format=hr.Protobuf(made, registered=True))
    again = decoded(framed, [*(b"\0\0\0\0\x07\0" + value for value in values), None])
    assert again.values.equals(read.values)


@given(st.integers(0, 2**32).map(Random))
@settings(max_examples=10 * EXAMPLES, deadline=None)
def test_a_record_is_read_alike_whatever_stands_beside_it(random: Random) -> None:
    described, pairs = some_message(random)
    made = compiled(described)["p.M"]
    values: list[bytes | None] = [None, random.randbytes(9)]
    for fields, _ in pairs:
        value = made(**fields).SerializeToString()
        at = random.randrange(len(value) + 1)
        values += [value, value[:at], value[:at] + random.randbytes(2) + value[at:]]
    random.shuffle(values)
    topic = hr.Topic("t", format=hr.Protobuf(made))
    together, alone = decoded(topic, values), [decoded(topic, [value]) for value in values]
    assert together.reasons.as_column().to_pylist() == [each.reasons.as_column()[0].as_py() for each in alone]
    assert str(together.values) == str(pa.concat_arrays([each.values for each in alone]))


def test_each_scalar_has_a_column() -> None:
    fields = [field(f"f{n}", n + 1, of) for n, (of, _, _) in enumerate(SCALARS)]
    topic = hr.Topic("t", format=hr.Protobuf(compiled(message("M", *fields))["p.M"]))
    assert [column.type for column in topic.value_columns] == [column for _, column, _ in SCALARS]


INNER = message("Inner", field("n", 1, Field.TYPE_INT32))
NOTHING = message("Nothing")
ENTRY = message(
    "NamedEntry",
    field("key", 1, Field.TYPE_STRING),
    field("value", 2, "p.Inner", type=Field.TYPE_MESSAGE),
    options=descriptor_pb2.MessageOptions(map_entry=True),
)
STATE = descriptor_pb2.EnumDescriptorProto(
    name="State",
    value=[descriptor_pb2.EnumValueDescriptorProto(name=n, number=i) for i, n in enumerate(("OFF", "ON"))],
)
ORDER = message(
    "Order",
    field("inner", 1, "p.Inner", type=Field.TYPE_MESSAGE),
    Field(name="many", number=2, label=Field.LABEL_REPEATED, type=Field.TYPE_MESSAGE, type_name=".p.Inner"),
    Field(
        name="named",
        number=3,
        label=Field.LABEL_REPEATED,
        type=Field.TYPE_MESSAGE,
        type_name=".p.Order.NamedEntry",
    ),
    field("state", 4, "p.State", type=Field.TYPE_ENUM),
    field("a", 5, Field.TYPE_STRING, oneof_index=0),
    field("b", 6, Field.TYPE_INT32, oneof_index=0),
    field("nothing", 7, "p.Nothing", type=Field.TYPE_MESSAGE),
    field("at", 8, f"{GOOGLE}Timestamp", type=Field.TYPE_MESSAGE),
    field("took", 9, f"{GOOGLE}Duration", type=Field.TYPE_MESSAGE),
    field("count", 10, f"{GOOGLE}Int64Value", type=Field.TYPE_MESSAGE),
    field("more", 11, f"{GOOGLE}Struct", type=Field.TYPE_MESSAGE),
    field("any", 12, f"{GOOGLE}Any", type=Field.TYPE_MESSAGE),
    nested_type=[ENTRY],
    oneof_decl=[descriptor_pb2.OneofDescriptorProto(name="choice")],
)
ENVELOPE = message("Envelope", field("n", 1, Field.TYPE_INT64))
CLASSES = compiled(INNER, NOTHING, ENVELOPE, ORDER, enum_type=[STATE])
TOPIC = hr.Topic("orders", format=hr.Protobuf(CLASSES["p.Order"]))


def test_messages_maps_enums_and_well_known_types_have_columns() -> None:
    assert {column.name: column.type for column in TOPIC.value_columns} == {
        "inner": "STRUCT<n: INT>",
        "many": "ARRAY<STRUCT<n: INT>>",
        "named": "MAP<STRING, STRUCT<n: INT>>",
        "state": "STRING",
        "a": "STRING",
        "b": "INT",
        "nothing": "BOOLEAN",
        "at": "TIMESTAMP",
        "took": "BIGINT",
        "count": "BIGINT",
        "more": "STRING",
        "any": "STRUCT<type_url: STRING, value: BINARY>",
    }


def test_what_a_message_holds_stands_in_its_columns() -> None:
    order = CLASSES["p.Order"]()
    empty = dict.fromkeys(TOPIC.columns) | {"many": [], "named": [], "state": "OFF"}
    assert found(TOPIC, order.SerializeToString()) == empty
    order.inner.SetInParent()
    order.many.add(n=1)
    order.named["k"].n = 2
    order.state = 7
    order.b = 0
    order.nothing.SetInParent()
    order.at.seconds, order.at.nanos = -1, 999_999_999
    order.took.seconds, order.took.nanos = -1, -500_000_999
    order.count.SetInParent()
    order.more.update({"b": [1, None], "a": "é"})
    order.any.type_url, order.any.value = "x/y", b"\xff"
    assert found(TOPIC, order.SerializeToString()) == {
        "inner": {"n": 0},
        "many": [{"n": 1}],
        "named": [("k", {"n": 2})],
        "state": "7",
        "a": None,
        "b": 0,
        "nothing": True,
        "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
        "took": -1_500_000,
        "count": 0,
        "more": '{"a": "é", "b": [1.0, null]}',
        "any": {"type_url": "x/y", "value": b"\xff"},
    }


def test_versions_of_a_message_are_read_side_by_side() -> None:
    """Numbers of fields tell what bytes mean: a field that is new here is absent, one that is unknown is passed over."""
    older = compiled(message("M", field("n", 1, Field.TYPE_INT32)))["p.M"]
    newer = compiled(
        message("M", field("n", 1, Field.TYPE_INT64), field("s", 2, Field.TYPE_STRING, proto3_optional=True))
    )["p.M"]
    topic = hr.Topic("t", format=hr.Protobuf(newer))
    assert found(topic, older(n=-5).SerializeToString()) == {"n": -5, "s": None}
    topic = hr.Topic("t", format=hr.Protobuf(older))
    assert found(topic, newer(n=3, s="x").SerializeToString()) == {"n": 3}


BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it is too short for a magic byte, the id of a schema and the indexes of a message"),
    "JSON": (b'{"id": "a"}', "its first byte is 123, not the magic byte 0"),
    "another message of the file": (b"\0\0\0\0\x07\x02\x04", "it is message [2] of its schema, and p.Order is [3]"),
    "the first message of the file": (b"\0\0\0\0\x07\0", "it is message [0] of its schema, and p.Order is [3]"),
    "indexes cut short": (b"\0\0\0\0\x07\x06\x80", "the indexes of its message are cut short"),
    "very many indexes": (b"\0\0\0\0\x07\xfe\xff\xff\xff\x0f\0\0", "the indexes of its message are cut short"),
    "fewer indexes than none": (b"\0\0\0\0\x07\x01", "it has -1 indexes of its message"),
    "cut short": (b"\0\0\0\0\x07\x02\x06\x2a\x05ab", "its bytes are no p.Order"),
    "a text that is not UTF-8": (b"\0\0\0\0\x07\x02\x06\x2a\x01\xff", "its bytes are no p.Order"),
    "a time beyond the year 9999": (b"\0\0\0\0\x07\x02\x06\x42\x0a\x08" + b"\xff" * 8 + b"\x7f", "a time lies beyond the years 1 to 9999"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_dead_letter_with_its_reason(name: str) -> None:
    value, expected = BAD[name]
    topic = hr.Topic("t", format=hr.Protobuf(CLASSES["p.Order"], registered=True))
    assert found(topic, value) == f"malformed value: {expected}"


def test_a_message_that_is_nested_without_end_is_a_dead_letter() -> None:
    node = message(
        "Node", field("next", 1, "p.Node", type=Field.TYPE_MESSAGE), field("n", 2, Field.TYPE_INT32)
    )
    made = compiled(node)["p.Node"]
    topic = hr.Topic("t", value="n INT", format=hr.Protobuf(made))
    value = b""
    for _ in range(200):
        value = b"\x0a" + _length(len(value)) + value
    assert found(topic, value) == "malformed value: its bytes are no p.Node"
    assert found(topic, made(n=3).SerializeToString()) == {"n": 3}
    with refused("field 'next' of p.Node gives no column", "message p.Node holds itself", "value='…'"):
        hr.Topic("t", format=hr.Protobuf(made))


def _length(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7])


def test_a_message_may_be_named_in_a_file_of_descriptors(tmp_path: Path) -> None:
    file = tmp_path / "orders.desc"
    file.write_bytes(descriptors_of(CLASSES["p.Order"].DESCRIPTOR))
    assert hr.Topic("orders", format=hr.Protobuf("Order", schema=file)) == TOPIC
    assert hr.Topic("orders", value="b INT", format=hr.Protobuf("p.Order", schema=file)).columns == ("b",)
    with refused("message 'Ordr' is not among its messages", "p.Order"):
        hr.Protobuf("Ordr", schema=file)
    with refused("is no set of descriptors"):
        hr.Protobuf("Order", schema=b"\xff\xff")
    with refused("no class that protoc generated"):
        hr.Protobuf("Order")
    with refused("cannot be read"):
        hr.Protobuf("Order", schema=tmp_path / "none")
    with refused("column 'c' is not in the message p.Order"):
        hr.Topic("orders", value="c INT", format=hr.Protobuf("Order", schema=file))
    with refused("has no fields"):
        hr.Topic("orders", format=hr.Protobuf(CLASSES["p.Nothing"]))


JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "n": {"type": ["null", "integer"]},
        "x": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "boolean"}},
        "place": {"$ref": "#/definitions/place"},
        "named": {"type": "object", "additionalProperties": {"type": "integer"}},
        "anything": {},
    },
    "definitions": {"place": {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}}},
}


def test_json_with_a_schema_has_columns_and_is_read_as_all_json_is() -> None:
    topic = hr.Topic("t", format=hr.JsonSchema(schema=JSON_SCHEMA))
    assert {column.name: column.type for column in topic.value_columns} == {
        "id": "STRING", "n": "BIGINT", "x": "DOUBLE", "at": "TIMESTAMP", "tags": "ARRAY<BOOLEAN>", "place": "STRUCT<day: DATE>",
        "named": "MAP<STRING, BIGINT>", "anything": "STRING",
    }  # fmt: skip
    value = b'{"id": "a", "n": 5, "place": {"day": "2024-05-01"}, "anything": [1]}'
    read = found(topic, b"\0\0\0\0\x07" + value)
    assert (read["id"], read["n"], read["place"], read["anything"]) == (
        "a",
        5,
        {"day": dt.date(2024, 5, 1)},
        "[1]",
    )
    assert found(topic, value) == "malformed value: its first byte is 123, not the magic byte 0"
    assert found(topic, b"\0\0\0\0\x07").startswith("malformed value: not a JSON object")
    assert "(n is not BIGINT)" in found(topic, b'\0\0\0\0\x07{"n": "x"}')
    named = hr.Topic("t", value="n BIGINT NOT NULL", format=hr.JsonSchema())
    assert found(named, b'\0\0\0\0\x07{"n": 1}') == {"n": 1}
    assert found(named, b"{}") == "malformed value: it is too short for a magic byte and the id of a schema"
    with refused("neither schema nor registry"):
        hr.Topic("t", format=hr.JsonSchema())
    with refused("refers to '#/definitions/none'"):
        hr.Topic("t", format=hr.JsonSchema(schema={"properties": {"a": {"$ref": "#/definitions/none"}}}))
    with refused("nested deeper", "property 'a'"):
        loop = {"type": "object", "properties": {"a": {"$ref": "#"}}}
        hr.Topic("t", format=hr.JsonSchema(schema=loop))
