"""A sink's round trip: what our own reader reads of a row's bytes is the row, or the column or the row is refused.

Columns of all types meet described schemas of many: fields that are narrower or wider, of another kind, without null, in
another order, or missing.
"""

from __future__ import annotations

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
from tests.sinks.described_types import (
    AVRO,
    JSON,
    PROTOBUF,
    VALUES,
    avro,
    decimal,
    json_schema,
    json_text,
    protobuf,
    same,
    some_type,
)

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
RANDOMS = st.integers(0, 2**32).map(Random)
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
        texts = [json_text(row, structs.type).encode() for row in structs.to_pylist()]
        found = made.checked(structs, pa.array(texts, pa.binary()))
    contents, problems = found.flatten()
    return contents.to_pylist(), problems.to_pylist()


@pytest.mark.parametrize("name", FORMATS)
@given(random=RANDOMS)
@settings(max_examples=60 * EXAMPLES, deadline=None)
@pytest.mark.slow
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


def of_map(of_values: int) -> Any:
    """A message with a map `x` of texts."""
    pair = message("XEntry", field("key", 1, Field.TYPE_STRING), field("value", 2, of_values))
    pair.options.map_entry = True
    entries = field("x", 1, "p.M.XEntry")
    entries.label = Field.LABEL_REPEATED
    return compiled(message("M", entries, nested_type=[pair]))["p.M"]


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
ROWS: dict[str, tuple[Any, pa.DataType, list[Any], list[bool]]] = {
    "2^31 into int": (of_fields(x="int"), pa.int64(), [5, 2**31], [True, False]),
    "microseconds into milliseconds": (
        of_fields(x=MILLIS), pa.timestamp("us", "UTC"), list(VALUES[pa.timestamp("us", "UTC")][:2]), [False, True],
    ),
    "more digits than a decimal has": (
        of_fields(x=decimal(5, 2)), pa.decimal128(10, 2), [Decimal("1.50"), Decimal("99999.99")], [True, False],
    ),
    "a decimal of another scale": (
        of_fields(x=decimal(10, 1)), pa.decimal128(10, 2), [Decimal("12.50"), Decimal("12.55")], [True, False],
    ),
    "a null map next to a map that does not come back": (
        hr.Protobuf(of_map(Field.TYPE_DOUBLE)), pa.map_(pa.string(), pa.int64()),
        [None, [("a", 1)], [("a", 2**63 - 1)], []], [False, True, False, True],
    ),
    "an integer into a decimal": (of_fields(x=decimal(9, 2)), pa.int64(), [5, 2**40], [True, False]),
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
    "a nested record with a required field of its own": (
        of_fields(x={"type": "array", "items": {"type": "record", "name": "N", "fields": [
            {"name": "d", "type": "double"}, {"name": "e", "type": "double"}]}}),
        pa.list_(pa.struct([("d", pa.float64())])),
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
    with pytest.raises(
        TerminalError, match=r"column 'x' does not fit the|field 'x\[\].e' of the Avro schema has no default"
    ):
        encoder_of(of, "t", "value", pa.schema([("x", type_of)]), register=True)


def test_json_schema_without_a_registry_is_refused_because_its_reader_wants_the_id() -> None:
    with pytest.raises(
        hr.DescriptionError, match="has no registry, and its records begin with the id of a schema"
    ):
        hr.KafkaSink("t", format=hr.JsonSchema())
