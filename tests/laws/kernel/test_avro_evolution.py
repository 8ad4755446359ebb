"""The matrix of evolutions: each change of a type is read, or is a dead letter, as Avro's specification says of the two schemas."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description.formats.avro_types import parse_schema
from headrace.description.formats.evolution.avro_resolution import unresolvable
from headrace.sequence.avro.plans import Plan, plan_of
from tests.laws.kernel.avro_values import encoded
from tests.laws.kernel.test_sequence_avro import decoded, field, found, framed, known, record

pytestmark = pytest.mark.fast

INNER = record(field("a", "int"), name="inner")
# A type, and a value of it.
TYPES: dict[str, tuple[Any, Any]] = {
    "boolean": ("boolean", True),
    "int": ("int", 7),
    "long": ("long", 2**40),
    "float": ("float", 0.5),
    "double": ("double", 0.1),
    "bytes": ("bytes", b"ab"),
    "string": ("string", "ab"),
    "fixed": ({"type": "fixed", "name": "f", "size": 2}, b"ab"),
    "longer fixed": ({"type": "fixed", "name": "f", "size": 3}, b"abc"),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B"),
    "smaller enum": ({"type": "enum", "name": "e", "symbols": ["A"]}, "A"),
    "enum with a default": ({"type": "enum", "name": "e", "symbols": ["A"], "default": "A"}, "A"),
    "other enum": ({"type": "enum", "name": "g", "symbols": ["A", "B"]}, "B"),
    "array": ({"type": "array", "items": "int"}, [1]),
    "array of longs": ({"type": "array", "items": "long"}, [2**40]),
    "map": ({"type": "map", "values": "int"}, {"k": 1}),
    "map of texts": ({"type": "map", "values": "string"}, {"k": "v"}),
    "record": (INNER, {"a": 1}),
    "record with a default": (record(field("a", "int"), field("b", "int", default=3), name="inner"), {"a": 1, "b": 2}),
    "record with a new field": (record(field("a", "int"), field("b", "int"), name="inner"), {"a": 1, "b": 2}),
    "null or int": (["null", "int"], 7),
    "null or string": (["null", "string"], "ab"),
}  # fmt: skip
# Pairs that differ within values that are written rarely: the specification refuses some records alone.
READ_ANYWAY = {
    ("null or int", "int"), ("null or int", "long"), ("null or int", "float"), ("null or int", "double"),
    ("null or string", "string"), ("null or string", "bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("wrote", "reads"), [*product(TYPES, TYPES)])
def test_a_type_that_became_another_is_read_as_the_specification_says(wrote: str, reads: str) -> None:
    (writer, value), (reader, _) = TYPES[wrote], TYPES[reads]
    old, new = record(field("x", writer)), record(field("x", reader))
    why = unresolvable(parse_schema(json.dumps(old)), parse_schema(json.dumps(new)))
    topic = hr.Topic("t", format=hr.Avro(schema=new, registry="http://registry:8081"))
    read = found(topic, framed(7, encoded(old, {"x": value})), known(_7=old))
    if why is None or (wrote, reads) in READ_ANYWAY:
        assert isinstance(read, dict), (read, why)
    else:
        assert isinstance(read, str), (read, why)
        assert read.startswith("malformed value: schema 7: ")
        assert "field 'x" in why


@pytest.mark.parametrize("renamed", [{"namespace": "b"}, {"name": "point", "aliases": ["place"]}])
def test_a_branch_under_another_name_is_decided_about_as_if_it_had_come_alone(renamed: Any) -> None:
    place = record(field("x", "int"), name="place")
    old, new = (
        record(field("u", ["null", branch, "string"]), **more)
        for branch, more in ((place, {"namespace": "a"}), (place | renamed, {"namespace": "a"}))
    )
    topic = hr.Topic("t", format=hr.Avro(schema=new, registry="http://registry:8081"))
    values = [framed(7, encoded(old, {"u": each})) for each in ({"x": 1}, "here", {"x": 2}, None)]
    read = decoded(topic, [*values], known(_7=old))
    reasons = read.reasons.as_column().to_pylist()
    together = [why or value for why, value in zip(reasons, read.values.to_pylist(), strict=True)]
    assert together == [found(topic, value, known(_7=old)) for value in values]
    assert together[1:4:2] == [{"u": {"member0": None, "member1": "here"}}, {"u": None}]


def test_a_value_that_cannot_be_shaped_is_a_dead_letter_beside_others() -> None:
    schema = parse_schema(json.dumps(record(field("a", "int"))))
    plan = plan_of(schema, schema, (pa.field("a", pa.int32()),))
    assert isinstance(plan, Plan)
    plan = replace(plan)  # others keep the one that is remembered

    def shape(value: Any) -> Any:
        if value["a"] == 2:
            raise ValueError("a value is of no branch of its union")
        return value

    vars(plan)["_shape"] = shape
    structs, why = plan.decode([encoded(record(field("a", "int")), {"a": n}) for n in (1, 2, 3)], 0)
    assert structs.to_pylist()[::2] == [{"a": 1}, {"a": 3}]
    assert why == {1: "ValueError: a value is of no branch of its union"}


FIELDS: dict[str, tuple[Any, Any, str | None]] = {
    # name: the writer's and the reader's record, and why some records cannot be read
    "added with a default": (record(field("a", "int")), record(field("a", "int"), field("b", "int", default=1)), None),
    "added without one": (record(field("a", "int")), record(field("a", "int"), field("b", "int")), "field 'b' is not written, and has no default"),
    "removed": (record(field("a", "int"), field("b", "int")), record(field("a", "int")), None),
    "renamed with an alias": (record(field("a", "int")), record(field("b", "int", aliases=["a"])), None),
    "renamed without one": (record(field("a", "int")), record(field("b", "int")), "field 'b' is not written, and has no default"),
    "changed within": (record(field("r", INNER)), record(field("r", record(field("a", "string"), name="inner"))), "field 'r.a' is written as int, and read as string"),
    "changed in a list": (record(field("r", {"type": "array", "items": "int"})), record(field("r", {"type": "array", "items": "string"})), "field 'r' is written as int, and read as string"),
    "made optional": (record(field("a", "int")), record(field("a", ["null", "int"])), None),
    "made required": (record(field("a", ["null", "int"])), record(field("a", "int")), "field 'a' is written as null, and read as int"),
    "one branch less": (record(field("a", ["int", "string"])), record(field("a", ["int", "null"])), "field 'a' is written as string, and read as int or null"),
    "a symbol less": (record(field("a", TYPES["enum"][0])), record(field("a", TYPES["smaller enum"][0])), "field 'a' may be written as B, which its reader's enum does not have"),
    "a record of another name": (record(field("a", "int"), name="p"), record(field("a", "int"), name="q"), "the schema is written as record p, and read as q"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_the_field_that_is_incompatible_is_named(name: str) -> None:
    old, new, why = FIELDS[name]
    assert unresolvable(parse_schema(json.dumps(old)), parse_schema(json.dumps(new))) == why
