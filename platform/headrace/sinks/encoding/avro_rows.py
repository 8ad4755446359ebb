"""Rows as Avro: the schema of some columns, what must fit between a schema and columns, and the bytes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.description.arrow_types import arrow_type
from headrace.description.formats import Avro
from headrace.description.formats.avro import field_type
from headrace.description.formats.avro_types import AvroType, SchemaError, parse_schema
from headrace.description.schema import parse_type
from headrace.errors import TerminalError
from headrace.sequence.encodings import AvroBytes, KnownSchemas
from headrace.sinks.encoding.round_trip import RoundTrip, require_fit

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOGICAL = {"type": "long"}
_PRIMITIVES: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int64, "long"),
    (pa.types.is_integer, "int"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_date, {"type": "int", "logicalType": "date"}),
)


@dataclass(frozen=True)
class AvroRows:
    """Encodes rows with a schema. In: schema  as JSON text."""

    schema: str

    def function(self) -> Callable[[Any], bytes]:
        """See `RowEncoder`."""
        from fastavro import parse_schema as parsed
        from fastavro import schemaless_writer

        schema = parsed(json.loads(self.schema))

        def encode(row: Any) -> bytes:
            out = io.BytesIO()
            schemaless_writer(out, schema, row, strict_allow_default=True)
            return out.getvalue()

        return encode


def avro_schema(of: Avro, topic: str, part: str, columns: pa.Schema, what: str) -> str:
    """The schema with which rows are written: the described one, or that of their columns.

    Raises: TerminalError when a column has no field or another type there; RegistryAwayError
    """
    if of.schema is None and of.version is None:
        name = re.sub(r"[^A-Za-z0-9_]", "_", f"{topic}_{part}")
        name = name if _NAME.fullmatch(name) else f"_{name}"
        return json.dumps(_record(pa.struct(list(columns)), name, what, set()))
    reader = of.reader(topic, part, None)
    assert reader is not None
    _require_columns(reader, columns, what)
    from headrace.sequence.avro.plans import plain

    return str(of.schema) if of.schema is not None else json.dumps(plain(reader))


def _require_columns(reader: AvroType, columns: pa.Schema, what: str) -> None:
    if reader.kind != "record":
        raise TerminalError(f"{what}: its Avro schema is {reader.kind}, and rows are records.")
    fields = {field.name: field for field in reader.fields}
    for column in columns:
        if column.name not in fields:
            raise TerminalError(
                f"{what}: column '{column.name}' has no field in the Avro schema; its fields are {', '.join(fields)}.",
                hint="Add the field to the schema, or leave the column out with a select.",
            )
    if lacking := _lacking(reader, pa.struct(list(columns)), ""):
        raise TerminalError(
            f"{what}: field '{lacking}' of the Avro schema has no default, and there is no such column.",
            hint="Give it a default in the schema, or make the column in a step.",
        )


def _lacking(of: AvroType, column: pa.DataType, path: str) -> str:
    """The path of a field without a default that a column lacks, at any depth; empty: there is none."""
    branches = of.branches
    if len(branches) != 1:
        return ""
    (known,) = branches
    if known.kind == "record" and pa.types.is_struct(column):
        types = {field.name: field.type for field in column}
        for field in known.fields:
            inner = f"{path}.{field.name}".lstrip(".")
            if field.name not in types and field.default is None:
                return inner
            if field.name in types and (found := _lacking(field.type, types[field.name], inner)):
                return found
    if known.kind == "array" and pa.types.is_list(column):
        return _lacking(known.inner[0], column.value_type, f"{path}[]")
    if known.kind == "map" and pa.types.is_map(column):
        return _lacking(known.inner[0], column.item_type, f"{path}{{}}")
    return ""


def avro_trip(schema: str, columns: pa.Schema, what: str) -> RoundTrip:
    """The way back of rows that are written with a schema.

    Raises: TerminalError when the values of a column cannot come back
    """
    reader = parse_schema(schema)

    def read(name: str) -> pa.DataType:
        try:
            return arrow_type(parse_type(field_type(reader, name).column(name), what))
        except SchemaError as error:
            raise TerminalError(f"{what}: field '{name}' cannot be written: {error}.") from None

    return RoundTrip(AvroBytes(reader, None, KnownSchemas()), require_fit(columns, read, "Avro schema", what))


def _record(of: pa.StructType, name: str, what: str, taken: set[str]) -> dict[str, Any]:
    """In: taken  the names of other records, one after the other; one that is among them gets a number."""
    names = (name, *(f"{name}_{number}" for number in range(2, len(taken) + 3)))
    name = next(each for each in names if each not in taken)
    taken.add(name)
    for field in of:
        if not _NAME.fullmatch(field.name):
            raise TerminalError(
                f"{what}: column '{field.name}' cannot be a field of Avro.",
                hint="Avro takes letters, digits and _; rename it in a select.",
            )
    fields = [
        {
            "name": field.name,
            "type": ["null", _type(field.type, f"{name}_{field.name}", what, taken)],
            "default": None,
        }
        for field in of
    ]
    return {"type": "record", "name": name, "fields": fields}


def _type(of: pa.DataType, name: str, what: str, taken: set[str]) -> Any:
    """The Avro type of a column. In: name  for a record that it needs; taken: those of other records."""
    for test, found in _PRIMITIVES:
        if test(of):
            return found
    if pa.types.is_timestamp(of):
        return _LOGICAL | {"logicalType": "timestamp-micros" if of.tz else "local-timestamp-micros"}
    if pa.types.is_decimal(of):
        return {"type": "bytes", "logicalType": "decimal", "precision": of.precision, "scale": of.scale}
    if pa.types.is_struct(of):
        return _record(of, name, what, taken)
    if pa.types.is_list(of):
        return {"type": "array", "items": ["null", _type(of.value_type, name, what, taken)]}
    if pa.types.is_map(of) and pa.types.is_string(of.key_type):
        return {"type": "map", "values": ["null", _type(of.item_type, name, what, taken)]}
    raise TerminalError(f"{what}: a column of type {of} cannot be Avro.")
