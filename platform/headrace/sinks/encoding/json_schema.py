"""The JSON Schema of rows that are written as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.description.arrow_types import arrow_type
from headrace.description.formats import JsonSchema
from headrace.description.formats.avro_types import SchemaError
from headrace.description.schema import parse_type
from headrace.errors import TerminalError
from headrace.sequence.encodings import JsonBytes
from headrace.sinks.encoding.round_trip import RoundTrip, require_fit

DRAFT = "http://json-schema.org/draft-07/schema#"
_TYPES: tuple[tuple[Callable[[pa.DataType], bool], dict[str, Any]], ...] = (
    (pa.types.is_boolean, {"type": ["null", "boolean"]}),
    (pa.types.is_integer, {"type": ["null", "integer"]}),
    (pa.types.is_floating, {"type": ["null", "number", "string"]}),  # NaN and infinities are texts
    (pa.types.is_decimal, {"type": ["null", "number"]}),
    (pa.types.is_date, {"type": ["null", "string"], "format": "date"}),
    (pa.types.is_timestamp, {"type": ["null", "string"], "format": "date-time"}),
)


def json_schema(of: JsonSchema, topic: str, part: str, columns: pa.Schema) -> str:
    """The schema that is registered: the described one, or that of the columns."""
    if of.schema is None:
        properties = {column.name: _type(column.type) for column in columns}
        return json.dumps(
            {"$schema": DRAFT, "title": f"{topic}-{part}", "type": "object", "properties": properties}
        )
    return str(of.schema)


def json_trip(of: JsonSchema, columns: pa.Schema, what: str) -> RoundTrip:
    """The way back of rows that are JSON.

    Raises: TerminalError when a column is no property of the described schema, or its values cannot come back
    """
    if of.schema is None:
        return RoundTrip(JsonBytes(), columns)

    def read(name: str) -> pa.DataType:
        try:
            found = of.property_type(name)
        except SchemaError as error:
            raise TerminalError(f"{what}: property '{name}' cannot be written: {error}.") from None
        if found is None:
            raise TerminalError(
                f"{what}: column '{name}' is no property of the JSON Schema; these are {', '.join(of.properties)}.",
                hint="Add it to the schema, or leave the column out with a select.",
            )
        return arrow_type(parse_type(found, what))

    return RoundTrip(JsonBytes(), require_fit(columns, read, "JSON Schema", what))


def _type(of: pa.DataType) -> dict[str, Any]:
    for test, found in _TYPES:
        if test(of):
            return found
    if pa.types.is_struct(of):
        return {"type": ["null", "object"], "properties": {field.name: _type(field.type) for field in of}}
    if pa.types.is_list(of):
        return {"type": ["null", "array"], "items": _type(of.value_type)}
    if pa.types.is_map(of):
        return {"type": ["null", "object"], "additionalProperties": _type(of.item_type)}
    return {"type": ["null", "string"]}
