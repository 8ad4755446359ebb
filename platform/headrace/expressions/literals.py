"""Literals and the names of types, as Spark reads them from a text."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from headrace.expressions.term import Term, literal
from headrace.expressions.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DIGITS_MAX,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    is_integral,
    list_of,
    map_of,
)

INT_MAX, BIGINT_MAX = (1 << 31) - 1, (1 << 63) - 1
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?", re.ASCII)  # Python reads more forms than Spark
_TYPES = {
    "BOOLEAN": BOOLEAN, "TINYINT": TINYINT, "SMALLINT": SMALLINT, "INT": INT, "BIGINT": BIGINT, "FLOAT": FLOAT,
    "DOUBLE": DOUBLE, "TEXT": STRING, "BINARY": BINARY, "DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP, "TIMESTAMPNTZ": TIMESTAMP_NTZ,
}  # fmt: skip


def number(text: str) -> Term | None:
    """A number without a sign; None: it has more digits than a DECIMAL."""
    if text.isdigit() and int(text) <= BIGINT_MAX:
        return literal(int(text), INT if int(text) <= INT_MAX else BIGINT)
    if "e" in text.lower():
        return literal(float(text), DOUBLE)
    value = Decimal(text).as_tuple()
    scale = max(-int(value.exponent), 0)
    precision = max(len(value.digits), scale)
    return literal(Decimal(text), pa.decimal128(precision, scale)) if precision <= DIGITS_MAX else None


def least_integer(digits: str) -> Term | None:
    """The least INT or BIGINT: Spark reads its sign with the number. In: digits  without the sign."""
    of = {str(INT_MAX + 1): INT, str(BIGINT_MAX + 1): BIGINT}.get(digits)
    return None if of is None else literal(-int(digits), of)


def suffixed(value: Term, to: pa.DataType) -> Term | None:
    """A number with a suffix, such as 1L; None: it does not fit its type, or becomes a type that Spark makes."""
    if is_integral(to) and is_integral(value.type) and abs(value.constant) < 1 << (to.bit_width - 1):
        return literal(value.constant, to)
    return literal(float(value.constant), DOUBLE) if to == DOUBLE else None


def moment(text: str, to: pa.DataType) -> Term | None:
    """A literal such as DATE '2026-11-28', in the forms that leave nothing open; None: it has another form."""
    form = _MOMENT.fullmatch(text)
    if form is None or (to == DATE and form[1]):
        return None
    try:
        return literal(
            date.fromisoformat(text) if to == DATE else datetime.fromisoformat(text).replace(tzinfo=UTC), to
        )
    except ValueError:
        return None


def type_named(of: exp.Expr) -> pa.DataType | None:
    """The type that a cast names; None: descriptions have no such type."""
    if not isinstance(of, exp.DataType):
        return None
    name, inner = str(of.this.value), of.expressions
    if name in _TYPES:
        return None if inner else _TYPES[name]
    if name == "DECIMAL":
        digits = [int(each.name) for each in inner] + ([] if inner else [10])
        return (
            pa.decimal128(digits[0], digits[1] if len(digits) > 1 else 0) if digits[0] <= DIGITS_MAX else None
        )
    if name == "STRUCT":
        fields = [
            (each.this.name, type_named(each.args["kind"]))
            for each in inner
            if isinstance(each, exp.ColumnDef)
        ]
        known = [pa.field(field, type) for field, type in fields if type is not None]
        return pa.struct(known) if len(known) == len(inner) else None
    parts = [part for each in inner if (part := type_named(each)) is not None]
    if name == "ARRAY" and len(parts) == 1:
        return list_of(parts[0])
    if name == "MAP" and len(parts) == 2:
        return map_of(*parts)
    return None
