"""Arrow's types of declared types."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z0-9_]+|[<>(),:])")
_PLAIN = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}


def arrow_type(ddl: str) -> pa.DataType:
    """The Arrow type of a declared type. In: its DDL in the normal form, such as "ARRAY<STRUCT<a: INT>>"."""
    return _type(iter(_TOKEN.findall(ddl)))


def _type(tokens: Iterator[str]) -> pa.DataType:
    name = next(tokens)
    if name in _PLAIN:
        return _PLAIN[name]
    next(tokens)  # the bracket
    if name == "DECIMAL":
        precision, _, scale, _ = (next(tokens) for _ in range(4))
        return pa.decimal128(int(precision), int(scale))
    if name == "STRUCT":
        return pa.struct(list(_struct_fields(tokens)))
    first = _type(tokens)
    if name == "ARRAY":
        next(tokens)
        return pa.list_(pa.field("element", first))
    next(tokens)
    value = _type(tokens)
    next(tokens)
    return pa.map_(pa.field("key", first, nullable=False), pa.field("value", value))


def _struct_fields(tokens: Iterator[str]) -> Iterator[pa.Field]:
    """Fields up to the bracket that closes the struct."""
    mark = ","
    while mark == ",":
        name = next(tokens)
        name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        next(tokens)
        of, mark = _type(tokens), next(tokens)
        nullable = mark != "NOT"
        if not nullable:
            next(tokens)
            mark = next(tokens)
        yield pa.field(name, of, nullable)
