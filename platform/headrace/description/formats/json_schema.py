"""JSON with a schema, described: JSON in a registry's wire format, and columns from a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.description.ddl import quote
from headrace.description.formats.avro_types import SchemaError
from headrace.description.formats.format import Format, narrowed
from headrace.description.formats.registry import address_of, checked_url, described_schema
from headrace.description.schema import Column, parse_ddl, refuse_reserved
from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

NESTING_MAX = 50  # of schemas: what refers to itself has no end
_FORMATS = {"date-time": "TIMESTAMP", "date": "DATE"}
_TYPES = {"string": "STRING", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}


@explained_call
@dataclass(frozen=True)
class JsonSchema(Format):
    """JSON that begins with a magic byte and the id of its schema, as Confluent's serializers write it.

    In: `schema`: a JSON Schema, as JSON text, as what that stands for, or as the `Path` of a file.
    `registry`, `subject`, `version`: without `schema` it is that of a subject (default: `<topic>-value` or `<topic>-key`) in
    a version (default: the newest), asked for when the description is loaded, unless the topic names its columns.
    Out: columns from the schema (see the guide on formats); `value=` and `key=` may narrow them, or say them without a
    schema. A value is read into its column as all JSON is; that it fulfils the schema is not checked.
    Raises: DescriptionError naming the value and the fix.
    """

    schema: str | Path | Mapping[str, Any] | None = None
    registry: str | None = None
    subject: str | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        if self.registry is not None:
            checked_url(self.registry, "JsonSchema")
        object.__setattr__(self, "schema", None if self.schema is None else _text(self.schema))
        if self.schema is not None:
            _ = self._declared_schema

    @cached_property
    def _declared_schema(self) -> Mapping[str, Any]:
        assert isinstance(self.schema, str)
        return _object(self.schema, "JsonSchema: schema")

    def columns(self, topic: str, part: str, declared: str | None) -> tuple[Column, ...]:
        """The columns of keys or values (see `Format.columns`)."""
        what = f"Topic '{topic}': {part}"
        schema = self._schema(topic, part, declared)
        if schema is None:
            return parse_ddl(declared or "", what)
        properties = _resolved(schema, schema).get("properties") or {}
        if not properties:
            raise DescriptionError(f"{what}: its JSON Schema is not that of an object with properties.")

        def column(name: str) -> str:
            refuse_reserved([name], what)
            try:
                return f"{quote(name)} {_column(properties[name], schema, 0)}"
            except SchemaError as error:
                raise DescriptionError(
                    f"{what}: property '{name}' of the JSON Schema gives no column.",
                    detail=str(error),
                    hint=f"Name the columns that you read with {part}='…', and leave the schema out.",
                ) from None

        return narrowed(declared, list(properties), column, what, "JSON Schema")

    @property
    def properties(self) -> Mapping[str, Any]:
        """The properties of the described schema."""
        return _resolved(self._declared_schema, self._declared_schema).get("properties") or {}

    def property_type(self, name: str) -> str | None:
        """The type of a property's column as DDL; None: the described schema has no such property. Raises: SchemaError."""
        return _column(self.properties[name], self._declared_schema, 0) if name in self.properties else None

    def _schema(self, topic: str, part: str, declared: str | None) -> Mapping[str, Any] | None:
        if self.schema is not None:
            return self._declared_schema
        if declared:
            return None
        if self.registry is None:
            raise DescriptionError(
                f"Topic '{topic}': {part}: JsonSchema has neither schema nor registry, and the topic names no columns.",
                hint=f"Give one of them, or {part}='…'.",
            )
        url = address_of(self.registry, "JsonSchema")
        found = described_schema(url, self.subject or f"{topic}-{part}", self.version)
        if found.kind != "JSON":
            raise DescriptionError(f"Topic '{topic}': the schema of its {part}s is {found.kind}, not JSON.")
        return _object(found.text, f"Topic '{topic}': the schema of its {part}s")


def _column(schema: Any, root: Mapping[str, Any], depth: int) -> str:
    """The type of a column. Raises: SchemaError."""
    if depth > NESTING_MAX:
        raise SchemaError(f"it is nested deeper than {NESTING_MAX}, or holds itself")
    schema = _resolved(schema, root)
    kinds = schema.get("type")
    kinds = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
    if kinds == ["array"]:
        return f"ARRAY<{_column(schema.get('items', {}), root, depth + 1)}>"
    if kinds == ["object"]:
        return _of_object(schema, root, depth)
    if sorted(map(str, kinds)) == ["integer", "number"]:
        return "DOUBLE"
    if len(kinds) == 1 and kinds[0] in _TYPES:
        return _FORMATS.get(schema.get("format", ""), "STRING") if kinds == ["string"] else _TYPES[kinds[0]]
    return "STRING"  # any JSON, as its own text


def _of_object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    properties, more = schema.get("properties"), schema.get("additionalProperties")
    if properties:
        fields = [f"{quote(name)}: {_column(each, root, depth + 1)}" for name, each in properties.items()]
        return f"STRUCT<{', '.join(fields)}>"
    return f"MAP<STRING, {_column(more, root, depth + 1)}>" if isinstance(more, Mapping) else "STRING"


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or the one to which it refers; of several of which one is null the other."""
    for _ in range(NESTING_MAX):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        choice = [each for each in schema.get("oneOf") or schema.get("anyOf") or () if not _is_null(each)]
        if isinstance(reference, str):
            schema = _referred(reference, root)
        elif len(choice) == 1:
            schema = choice[0]
        else:
            return schema
    raise SchemaError("its references lead round in a circle")


def _is_null(schema: Any) -> bool:
    """True if it takes null alone, whatever it is called: Confluent's serializers give it a title."""
    return isinstance(schema, Mapping) and schema.get("type") in ("null", ["null"])


def _referred(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for name in reference.removeprefix("#").strip("/").split("/"):
        if name and isinstance(found, Mapping):
            found = found.get(name.replace("~1", "/").replace("~0", "~"))
    if not reference.startswith("#") or found is None:
        raise SchemaError(f"it refers to {reference!r}, which is not in it")
    return found


def _object(text: str, what: str) -> Mapping[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise DescriptionError(f"{what} is no JSON Schema of an object.")
    return found


def _text(schema: object) -> str:
    """A schema as JSON text of one form, so that equal schemas are equal."""
    try:
        if isinstance(schema, Path):
            schema = schema.read_text(encoding="utf-8")
        return json.dumps(json.loads(schema) if isinstance(schema, str) else schema, separators=(",", ":"))
    except (OSError, TypeError, ValueError) as error:
        raise DescriptionError(
            f"JsonSchema: schema {a_value(schema)} is not JSON.", detail=str(error)
        ) from None
