"""A sink's round trip: what our own reader reads of a row's bytes is the row, or the column or the row is refused.

Columns of all types meet described schemas of many: fields that are narrower or wider, of another kind, without null, in
another order, or missing.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import TerminalError
from headrace.sequence.decode import Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sinks.encoding import encoder, encoder_of
from headrace.sinks.encoding.subjects import SubjectSchema
from tests.laws.kernel.protobuf_values import Field, compiled, field, message

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
RANDOMS = st.integers(0, 2**32).map(Random)
UTC = dt.UTC
VALUES: dict[pa.DataType, tuple[Any, ...]] = {
    pa.bool_(): (True, False),
    pa.int8(): (0, -128),
    pa.int32(): (0, 5, -(2**31)),
    pa.int64(): (0, 5, 2**31, 2**53 + 1, -(2**63)),
    pa.float32(): (0.0, 0.25, math.inf),
    pa.float64(): (0.0, 2.0, 2.5, 0.1, 1e300, math.nan),
    pa.string(): ("", "a", "12"),
    pa.binary(): (b"", b"\xff\0"),
    pa.date32(): (dt.date(2024, 5, 1), dt.date(1, 1, 1)),
    pa.timestamp("us", "UTC"): (
        dt.datetime(2024, 5, 1, 12, 0, 0, 1, UTC),
        dt.datetime(2024, 5, 1, tzinfo=UTC),
    ),
    pa.timestamp("us"): (dt.datetime(2024, 5, 1, 12, 0, 0, 1), dt.datetime(2024, 5, 1)),
    pa.decimal128(10, 2): (Decimal("0.00"), Decimal("12.50"), Decimal("-99999999.99")),
}
AVRO: dict[pa.DataType, tuple[Any, ...]] = {
    pa.bool_(): ("boolean",),
    pa.int8(): ("int", "long"),
    pa.int32(): ("int", "long", "double"),
    pa.int64(): ("long", "int", "double"),
    pa.float32(): ("float", "double"),
    pa.float64(): ("double", "float", "int", "long"),
    pa.string(): ("string", "bytes", {"type": "enum", "name": "E", "symbols": ["a"]}),
    pa.binary(): ("bytes", {"type": "fixed", "name": "F", "size": 2}),
    pa.date32(): ({"type": "int", "logicalType": "date"}, "int"),
    pa.timestamp("us", "UTC"): tuple(
        {"type": "long", "logicalType": f"{each}timestamp-{unit}"} for each in ("", "local-") for unit in ("micros", "millis")
    ),
    pa.timestamp("us"): tuple({"type": "long", "logicalType": f"local-timestamp-{unit}"} for unit in ("micros", "millis")),
    pa.decimal128(10, 2): tuple(
        {"type": "bytes", "logicalType": "decimal", "precision": p, "scale": s} for p, s in ((10, 2), (12, 3), (10, 1), (5, 2))
    ),
}  # fmt: skip
PROTOBUF: dict[pa.DataType, tuple[int | str, ...]] = {
    pa.bool_(): (Field.TYPE_BOOL,),
    pa.int8(): (Field.TYPE_INT32,),
    pa.int32(): (Field.TYPE_INT32, Field.TYPE_SINT64, Field.TYPE_UINT32),
    pa.int64(): (Field.TYPE_INT64, Field.TYPE_INT32, Field.TYPE_UINT64, Field.TYPE_DOUBLE),
    pa.float32(): (Field.TYPE_FLOAT, Field.TYPE_DOUBLE),
    pa.float64(): (Field.TYPE_DOUBLE, Field.TYPE_FLOAT, Field.TYPE_INT32),
    pa.string(): (Field.TYPE_STRING, Field.TYPE_BYTES),
    pa.binary(): (Field.TYPE_BYTES,),
    pa.date32(): (Field.TYPE_INT32,),
    pa.timestamp("us", "UTC"): ("google.protobuf.Timestamp",),
    pa.timestamp("us"): ("google.protobuf.Timestamp",),
    pa.decimal128(10, 2): (Field.TYPE_DOUBLE, Field.TYPE_STRING),
}
JSON: dict[pa.DataType, tuple[Any, ...]] = {
    pa.bool_(): ({"type": "boolean"},),
    pa.int8(): ({"type": "integer"},),
    pa.int32(): ({"type": "integer"}, {"type": "number"}, {"type": "string"}),
    pa.int64(): ({"type": "integer"}, {"type": ["null", "number"]}),
    pa.float32(): ({"type": "number"}, {"type": "integer"}),
    pa.float64(): ({"type": "number"}, {"type": "integer"}, {"type": "string"}),
    pa.string(): ({"type": "string"}, {"type": "integer"}, {"type": "string", "format": "date"}),
}


def some_type(
    random: Random, leaves: dict[pa.DataType, Any], depth: int = 0
) -> tuple[pa.DataType, Callable[[], Any]]:
    """A type, and a function that makes values of it."""
    kind = random.choice(["leaf"] * 4 + (["struct", "list"] if depth < 2 else []))
    if kind == "leaf":
        of = random.choice([*leaves])
        return of, lambda: random.choice([None, *VALUES[of]])
    if kind == "list":
        inner, make = some_type(random, leaves, depth + 1)
        return pa.list_(inner), lambda: random.choice([None, [make() for _ in range(random.randrange(3))]])
    parts = {f"f{n}": some_type(random, leaves, depth + 1) for n in range(random.randrange(1, 4))}
    of = pa.struct([(name, part) for name, (part, _) in parts.items()])
    return of, lambda: random.choice([None, {name: make() for name, (_, make) in parts.items()}])


def shuffled(random: Random, of: pa.DataType) -> list[pa.Field]:
    """The fields of a struct as a schema may have them: in another order, sometimes not all."""
    fields = [each for each in of if random.random() < 0.9]
    return random.sample(fields, len(fields))


def avro_of(random: Random, of: pa.DataType, name: str) -> Any:
    if pa.types.is_struct(of):
        made: Any = {"type": "record", "name": name, "fields": [
            {"name": each.name, "type": avro_of(random, each.type, f"{name}_{each.name}")} for each in shuffled(random, of)
        ]}  # fmt: skip
    elif pa.types.is_list(of):
        made = {"type": "array", "items": avro_of(random, of.value_type, f"{name}_i")}
    else:
        made = random.choice(AVRO[of])
        made = made | {"name": name} if isinstance(made, dict) and "name" in made else made
    return made if "_" in name and random.random() < 0.3 else ["null", made]


def avro(random: Random, columns: pa.Schema) -> hr.Avro:
    (schema,) = [avro_of(random, pa.struct(list(columns)), "R")][0][1:]
    names = {each["name"] for each in schema["fields"]}
    missing = [
        {"name": n, "type": ["null", avro_of(random, columns.field(n).type, f"R_x{n}")]}
        for n in columns.names
        if n not in names
    ]
    for each in missing:  # a column without a field is refused; here all have one
        inner = each["type"][1]
        each["type"] = inner if isinstance(inner, list) else each["type"]
    return hr.Avro(schema=schema | {"fields": [*schema["fields"], *missing]})


def protobuf(random: Random, columns: pa.Schema) -> hr.Protobuf:
    messages: list[Any] = []

    def made(of: pa.DataType, name: str, number: int, path: str) -> Any:
        repeated = pa.types.is_list(of)
        inner = of.value_type if repeated else of
        while pa.types.is_list(inner):
            inner = inner.value_type  # a list of lists has no field, so the column is refused
        if pa.types.is_struct(inner):
            kind: Any = f"p.{described(inner, path)}"
        else:
            kind = random.choice(PROTOBUF[inner])
        optional = (
            {"proto3_optional": True}
            if not repeated and isinstance(kind, int) and random.random() < 0.7
            else {}
        )
        found = field(name, number, kind, **optional)
        if repeated:
            found.label = Field.LABEL_REPEATED
        return found

    def described(of: pa.DataType, name: str, *, whole: bool = False) -> str:
        fields = [*of] if whole else shuffled(random, of)
        own = [
            made(each.type, each.name, n, f"{name}{each.name.upper()}") for n, each in enumerate(fields, 1)
        ]
        messages.append(message(name, *own))
        return name

    described(pa.struct(list(columns)), "M", whole=True)
    return hr.Protobuf(compiled(*messages)["p.M"])


def json_of(random: Random, of: pa.DataType, *, whole: bool = False) -> Any:
    if pa.types.is_struct(of):
        fields = [*of] if whole else shuffled(random, of)
        return {"type": "object", "properties": {each.name: json_of(random, each.type) for each in fields}}
    if pa.types.is_list(of):
        return {"type": "array", "items": json_of(random, of.value_type)}
    return random.choice(JSON[of])


def json_schema(random: Random, columns: pa.Schema) -> hr.JsonSchema:
    schema = json_of(random, pa.struct(list(columns)), whole=True)
    return hr.JsonSchema(schema=schema, registry="http://nowhere:1")


def json_text(value: Any) -> Any:
    """A value as Spark writes it: numbers that JSON lacks are texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: json_text(each) for name, each in value.items()}
    return [*map(json_text, value)] if isinstance(value, list) else value


def same(one: Any, other: Any) -> bool:
    """True if a value that was read is the one that was written; fields that were not written do not matter."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(name in other and same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, float) != isinstance(other, float) and not {type(one), type(other)} <= {
        int,
        float,
        Decimal,
    }:
        return False
    return bool(one == other)


FORMATS: dict[str, tuple[Callable[[Random, pa.Schema], Any], dict[pa.DataType, Any]]] = {
    "avro": (avro, AVRO),
    "protobuf": (protobuf, PROTOBUF),
    "json_schema": (json_schema, JSON),
}
OUTCOMES = Counter[tuple[str, str]]()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that takes every schema."""
    monkeypatch.setattr(encoder, "subject_schema", lambda *args, **more: SubjectSchema(7))


def read_back(of: Any, contents: pa.Array) -> list[Any]:
    """The values that a topic of this format reads."""
    topic = hr.Topic("t", format=of if not isinstance(of, hr.JsonSchema) else hr.JsonSchema(schema=of.schema))
    decoder, times = Decoder(RecordFormat.of(topic)), pa.array([1] * len(contents), pa.int64())
    decoded = decoder.decode(pa.nulls(len(contents), pa.binary()), contents, times, 2)
    assert decoded.reasons.as_column().null_count == len(contents), decoded.reasons.as_column()
    found: list[Any] = decoded.values.to_pylist()
    return found


def outcome(of: Any, structs: pa.StructArray) -> tuple[list[bytes | None], list[str | None]]:
    made = encoder_of(of, "t", "value", pa.schema(list(structs.type)), register=True)
    if made.rows is not None:
        found = made.encoded(structs)
    else:
        texts = [json.dumps(json_text(row)).encode() for row in structs.to_pylist()]
        found = made.checked(structs, pa.array(texts, pa.binary()))
    contents, problems = found.flatten()
    return contents.to_pylist(), problems.to_pylist()


@pytest.mark.parametrize("name", FORMATS)
@given(random=RANDOMS)
@settings(max_examples=60 * EXAMPLES, deadline=None)
def test_what_is_read_of_the_bytes_is_the_row_or_it_is_refused(name: str, random: Random) -> None:
    describe, leaves = FORMATS[name]
    types = [some_type(random, leaves) for _ in range(random.randrange(1, 4))]
    columns = pa.schema([(f"c{n}", of) for n, (of, _) in enumerate(types)])
    rows = [{f"c{n}": make() for n, (_, make) in enumerate(types)} for _ in range(4)]
    structs = pa.array(rows, pa.struct(list(columns)))
    try:
        of = describe(random, columns)
        contents, problems = outcome(of, structs)
    except (TerminalError, hr.DescriptionError):
        OUTCOMES[name, "column refused"] += 1
        return
    passed = [row for row, content in enumerate(contents) if content is not None]
    assert [why is None for why in problems] == [content is not None for content in contents]
    OUTCOMES[name, "row refused"] += len(rows) - len(passed)
    OUTCOMES[name, "row passed"] += len(passed)
    read = read_back(of, pa.array([contents[row] for row in passed], pa.binary()))
    for row, back in zip(passed, read, strict=True):
        assert same(structs[row].as_py(), back), (structs[row].as_py(), back, of)


def test_the_random_schemas_have_each_outcome() -> None:
    """Run after the law above: without rows that pass, or are refused, it would show nothing."""
    wanted = {(name, what) for name in FORMATS for what in ("column refused", "row refused", "row passed")}
    assert wanted - OUTCOMES.keys() - {("json_schema", "row refused")} == set() or not OUTCOMES


def of_fields(**types: Any) -> hr.Avro:
    fields = [{"name": name, "type": of} for name, of in types.items()]
    return hr.Avro(schema={"type": "record", "name": "R", "fields": fields})


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
ROWS: dict[str, tuple[Any, pa.DataType, list[Any], list[bool]]] = {
    "2^31 into int": (of_fields(x="int"), pa.int64(), [5, 2**31], [True, False]),
    "microseconds into milliseconds": (
        of_fields(x=MILLIS), pa.timestamp("us", "UTC"), list(VALUES[pa.timestamp("us", "UTC")]), [False, True],
    ),
    "more digits than a decimal has": (
        of_fields(x={"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}),
        pa.decimal128(10, 2), [Decimal("1.50"), Decimal("99999.99")], [True, False],
    ),
    "a null where a field has no presence": (
        hr.Protobuf(compiled(message("M", field("x", 1, Field.TYPE_INT32)))["p.M"]), pa.int32(), [7, None], [True, False],
    ),
}  # fmt: skip
COLUMNS: dict[str, tuple[Any, pa.DataType]] = {
    "DOUBLE into int": (of_fields(x="int"), pa.float64()),
    "DOUBLE into float": (of_fields(x="float"), pa.float64()),
    "a nested DOUBLE into a float of Protobuf": (
        hr.Protobuf(
            compiled(message("In", field("d", 1, Field.TYPE_FLOAT)), message("M", field("x", 1, "p.In")))["p.M"]
        ),
        pa.struct([("d", pa.float64())]),
    ),
    "a field of a nested STRUCT that the message lacks": (
        hr.Protobuf(
            compiled(message("In", field("d", 1, Field.TYPE_DOUBLE)), message("M", field("x", 1, "p.In")))["p.M"]
        ),
        pa.struct([("d", pa.float64()), ("e", pa.float64())]),
    ),
    "a text into a number of JSON": (
        hr.JsonSchema(schema={"properties": {"x": {"type": "integer"}}}, registry="http://nowhere:1"), pa.string(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_value_that_does_not_come_back_refuses_its_row_alone(name: str) -> None:
    of, type_of, values, passes = ROWS[name]
    structs = pa.array([{"x": value} for value in values], pa.struct([("x", type_of)]))
    contents, problems = outcome(of, structs)
    assert [content is not None for content in contents] == passes
    assert [why is None for why in problems] == passes


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_that_cannot_come_back_is_refused_before_any_row(name: str) -> None:
    of, type_of = COLUMNS[name]
    with pytest.raises(TerminalError, match="column 'x' does not fit the"):
        encoder_of(of, "t", "value", pa.schema([("x", type_of)]), register=True)


def test_json_schema_without_a_registry_is_refused_because_its_reader_wants_the_id() -> None:
    with pytest.raises(
        hr.DescriptionError, match="has no registry, and its records begin with the id of a schema"
    ):
        hr.KafkaSink("t", format=hr.JsonSchema())
