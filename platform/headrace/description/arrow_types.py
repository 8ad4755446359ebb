"""Arrow's types of declared types."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from headrace.expressions.types import NAMES, list_of, map_of

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z0-9_]+|[<>(),:])")
_PLAIN = {name: of for of, name in NAMES.items()}


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
        return list_of(first)
    next(tokens)
    value = _type(tokens)
    next(tokens)
    return map_of(first, value)


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
