"""Avro schemas: read from JSON, checked, and their types as columns.

Law: a schema that this module takes can be decoded without recursion, and each encoded item has a byte at least, so no
record makes the decoder nest without bound or loop without reading.
Source: Apache Avro 1.12, Specification; Spark 4.1, connector/avro SchemaConverters.scala for the types of columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.description.ddl import quote

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
TYPES_MAX = (
    10_000  # in one schema, each use of a named type counted: what refers to itself often enough has no end
)
DIGITS_MAX = 38
NESTING_MAX = 50  # of types: what can be read must not depend on how much of the stack is left
# By type and logical type the column's type; others are as if they had no logical type.
_LOGICAL = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}
_COLUMNS = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
    "fixed": "BINARY",
    "enum": "STRING",
}
_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


class SchemaError(ValueError):
    """A text is no schema that can be decoded; the message says where and why."""


@dataclass(frozen=True)
class AvroField:
    """A field of a record. In: default  as JSON text; None: it has none."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True)
class AvroType:
    """One type of a schema.

    kind      of `PRIMITIVES`, or record, enum, fixed, array, map, union
    name      of a named type, with its namespace
    inner     types of the branches of a union; of an array or a map the one type of its items
    scale     of a decimal with so many digits; `precision` None: it is none
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    inner: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    logical: str | None = None
    precision: int | None = None
    scale: int = 0

    @cached_property
    def count(self) -> int:
        """How many types it is made of, itself included."""
        return 1 + sum(each.count for each in (*self.inner, *(field.type for field in self.fields)))

    @cached_property
    def depth(self) -> int:
        """How deep types are nested in it."""
        inner = (*self.inner, *(field.type for field in self.fields))
        return 1 + max((each.depth for each in inner), default=0)

    @cached_property
    def bytes_min(self) -> int:
        """The fewest bytes of a value."""
        if self.kind == "record":
            return sum(field.type.bytes_min for field in self.fields)
        return {"null": 0, "float": 4, "double": 8, "fixed": self.size}.get(self.kind, 1)

    @property
    def branches(self) -> tuple[AvroType, ...]:
        """The branches of a union that are not null; for another type, the type itself."""
        if self.kind != "union":
            return (self,)
        return tuple(each for each in self.inner if each.kind != "null")

    @property
    def widest(self) -> str | None:
        """The kind that holds all branches of a union of numbers which share a column type."""
        return _WIDER.get(frozenset(each.kind for each in self.branches))

    def column(self, path: str = "") -> str:
        """The type of its column as DDL.

        Raises: SchemaError for a type that no column can have
        """
        where = path or "the schema"
        if self.kind == "record":
            if not self.fields:
                raise SchemaError(f"{where}: the record {self.name} has no fields")
            inner = [f"{quote(f.name)}: {f.type.column(f'{path}.{f.name}'.lstrip('.'))}" for f in self.fields]
            return f"STRUCT<{', '.join(inner)}>"
        if self.kind == "array":
            return f"ARRAY<{self.inner[0].column(f'{path}[]')}>"
        if self.kind == "map":
            return f"MAP<STRING, {self.inner[0].column(f'{path}{{}}')}>"
        if self.kind == "union":
            return self._union_column(path, where)
        if self.kind == "null":
            raise SchemaError(f"{where}: null alone has no column type")
        if self.precision is not None:
            return f"DECIMAL({self.precision},{self.scale})"
        return _LOGICAL.get((self.kind, self.logical or ""), _COLUMNS[self.kind])

    def _union_column(self, path: str, where: str) -> str:
        branches = self.branches
        if not branches:
            raise SchemaError(f"{where}: null alone has no column type")
        if len(branches) == 1:
            return branches[0].column(path)
        if self.widest is not None:
            return _COLUMNS[self.widest]
        kinds = {each.kind for each in branches}
        for pair in _WIDER:
            if pair <= kinds:
                raise SchemaError(
                    f"{where}: a union of {' and '.join(sorted(pair))} and other types has no column"
                )
        members = [f"member{n}: {each.column(f'{path}.member{n}')}" for n, each in enumerate(branches)]
        return f"STRUCT<{', '.join(members)}>"


def parse_schema(schema: str | Mapping[str, Any] | Sequence[Any], references: Sequence[str] = ()) -> AvroType:
    """A schema as a tree, each use of a named type replaced by what it stands for.

    In:     schema      as JSON text, or what JSON text stands for
            references  texts of schemas whose names it uses, each after those that it uses itself
    Raises: SchemaError
    """
    reader = _Reader()
    try:
        for text in references:
            reader.read(_loaded(text), "")
        found = reader.read(_loaded(schema), "")
        count = found.count
    except RecursionError:
        raise SchemaError(f"the schema is nested deeper than {NESTING_MAX}") from None
    if count > TYPES_MAX:
        raise SchemaError(f"the schema is made of {count:,} types; {TYPES_MAX:,} are the most")
    if found.depth > NESTING_MAX:
        raise SchemaError(f"the schema is nested deeper than {NESTING_MAX}")
    return found


def _loaded(schema: Any) -> Any:
    if not isinstance(schema, str) or schema in PRIMITIVES:
        return schema
    try:
        return json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None


class _Reader:
    """Knows the named types that were read so far; None: one that is being read."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType | None] = {}

    def read(self, schema: Any, namespace: str) -> AvroType:
        if isinstance(schema, str):
            return AvroType(schema) if schema in PRIMITIVES else self._used(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if not isinstance(schema, dict) or "type" not in schema:
            raise SchemaError(f"{json.dumps(schema, default=str)[:80]} is no Avro type")
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(schema, "record" if kind == "error" else kind, namespace)
        if kind == "array":
            items = self.read(schema.get("items"), namespace)
            if not items.bytes_min:
                raise SchemaError("an array has items that take no bytes, so a record of it has no end")
            return AvroType("array", inner=(items,))
        if kind == "map":
            return AvroType("map", inner=(self.read(schema.get("values"), namespace),))
        if isinstance(kind, str) and kind in PRIMITIVES:
            return AvroType(kind, **_logical(schema, kind, 0))
        return self.read(kind, namespace)

    def _used(self, name: str, namespace: str) -> AvroType:
        full = _full_name(name, namespace)
        full = full if full in self._named else name
        if full not in self._named:
            raise SchemaError(f"type {name!r} is not defined")
        found = self._named[full]
        if found is None:
            raise SchemaError(f"type {full!r} holds itself: recursive types have no column type")
        return found

    def _union(self, branches: list[Any], namespace: str) -> AvroType:
        found = tuple(self.read(each, namespace) for each in branches)
        names = [each.name or each.kind for each in found]
        if not found or len(set(names)) < len(names) or "union" in names:
            raise SchemaError(f"a union of {', '.join(names) or 'nothing'} is none of Avro's")
        return AvroType("union", inner=found)

    def _define(self, schema: Mapping[str, Any], kind: str, namespace: str) -> AvroType:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"a type of kind {kind} has no name")
        full = _full_name(name, schema.get("namespace") or namespace)
        inside = full.rpartition(".")[0]
        if full in self._named:
            raise SchemaError(f"type {full!r} is defined twice")
        self._named[full] = None
        aliases = tuple(_full_name(alias, inside) for alias in schema.get("aliases") or ())
        if kind == "record":
            found = AvroType("record", full, aliases, fields=tuple(self._fields(schema, full, inside)))
        elif kind == "enum":
            default = schema.get("default")
            if not isinstance(default, str | None):
                raise SchemaError(f"enum {full!r}: default {default!r} is not one of its symbols")
            found = AvroType("enum", full, aliases, symbols=_symbols(schema, full), default=default)
        else:
            size = schema.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise SchemaError(f"type {full!r}: size {size!r} is not a whole number")
            found = AvroType("fixed", full, aliases, size=size, **_logical(schema, "fixed", size))
        self._named[full] = found
        return found

    def _fields(self, schema: Mapping[str, Any], full: str, namespace: str) -> Iterator[AvroField]:
        fields, seen = schema.get("fields"), set[str]()
        if not isinstance(fields, list):
            raise SchemaError(f"record {full!r} has no list of fields")
        for field in fields:
            name = field.get("name") if isinstance(field, dict) else None
            if not isinstance(name, str) or not name or name in seen or "type" not in field:
                raise SchemaError(
                    f"record {full!r}: {json.dumps(field, default=str)[:80]} is no field, or one twice"
                )
            seen.add(name)
            of, aliases = self.read(field["type"], namespace), tuple(field.get("aliases") or ())
            default = json.dumps(field["default"]) if "default" in field else None
            yield AvroField(name, of, aliases, default)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _symbols(schema: Mapping[str, Any], full: str) -> tuple[str, ...]:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not symbols or not all(isinstance(each, str) for each in symbols):
        raise SchemaError(f"enum {full!r} has no list of symbols")
    return tuple(symbols)


def _logical(schema: Mapping[str, Any], kind: str, size: int) -> dict[str, Any]:
    """The logical type; one that is not valid does not count, as Avro has it."""
    logical = schema.get("logicalType")
    if logical != "decimal":
        known = isinstance(logical, str) and (kind, logical) in _LOGICAL
        return {"logical": logical} if known else {}
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if kind not in ("bytes", "fixed") or not isinstance(precision, int) or not isinstance(scale, int):
        return {}
    if not (1 <= precision <= DIGITS_MAX and 0 <= scale <= precision):
        return {}
    return {"logical": "decimal", "precision": precision, "scale": scale}
