"""The JSON Schema of rows that are written as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.description.formats import JsonSchema
from headrace.errors import TerminalError

DRAFT = "http://json-schema.org/draft-07/schema#"
_TYPES: tuple[tuple[Callable[[pa.DataType], bool], dict[str, Any]], ...] = (
    (pa.types.is_boolean, {"type": ["null", "boolean"]}),
    (pa.types.is_integer, {"type": ["null", "integer"]}),
    (pa.types.is_floating, {"type": ["null", "number", "string"]}),  # NaN and infinities are texts
    (pa.types.is_decimal, {"type": ["null", "number"]}),
    (pa.types.is_date, {"type": ["null", "string"], "format": "date"}),
    (pa.types.is_timestamp, {"type": ["null", "string"], "format": "date-time"}),
)


def json_schema(of: JsonSchema, topic: str, part: str, columns: pa.Schema, what: str) -> str:
    """The schema that is registered: the described one, or that of the columns.

    Raises: TerminalError when a column is no property of it
    """
    if of.schema is None:
        properties = {column.name: _type(column.type) for column in columns}
        return json.dumps(
            {"$schema": DRAFT, "title": f"{topic}-{part}", "type": "object", "properties": properties}
        )
    given = json.loads(str(of.schema))
    unknown = [name for name in columns.names if name not in (given.get("properties") or {})]
    if unknown and "properties" in given:
        raise TerminalError(
            f"{what}: column '{unknown[0]}' is no property of the JSON Schema; these are {', '.join(given['properties'])}.",
            hint="Add it to the schema, or leave the column out with a select.",
        )
    return str(of.schema)


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
