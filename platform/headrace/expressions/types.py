"""Spark's types and how they come together, in terms of Arrow's types.

Source: Spark 4.1, `TypeCoercion.findTightestCommonType`, `findWiderTypeForTwo`, `DecimalType` (ANSI mode off).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pyarrow as pa

NULL, BOOLEAN, STRING, BINARY = pa.null(), pa.bool_(), pa.string(), pa.binary()
TINYINT, SMALLINT, INT, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
DATE, TIMESTAMP, TIMESTAMP_NTZ = pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")
NUMBERS = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE)  # from the narrowest to the widest
DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}  # of the DECIMAL that holds an integer
DIGITS_MAX = 38
NAMES = {
    NULL: "VOID", BOOLEAN: "BOOLEAN", STRING: "STRING", BINARY: "BINARY", TINYINT: "TINYINT", SMALLINT: "SMALLINT",
    INT: "INT", BIGINT: "BIGINT", FLOAT: "FLOAT", DOUBLE: "DOUBLE", DATE: "DATE", TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
}  # fmt: skip


def is_integral(of: pa.DataType) -> bool:
    """True of TINYINT to BIGINT."""
    return of in DIGITS


def is_floating(of: pa.DataType) -> bool:
    """True of FLOAT and DOUBLE."""
    return of in (FLOAT, DOUBLE)


def is_decimal(of: pa.DataType) -> bool:
    """True of a DECIMAL."""
    return bool(pa.types.is_decimal(of))


def is_numeric(of: pa.DataType) -> bool:
    """True of every type of numbers."""
    return of in NUMBERS or is_decimal(of)


def is_temporal(of: pa.DataType) -> bool:
    """True of DATE and both types of TIMESTAMP."""
    return of in (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def is_atomic(of: pa.DataType) -> bool:
    """True of types without parts."""
    return of in NAMES or is_decimal(of)


def decimal_of(of: pa.DataType) -> pa.Decimal128Type | None:
    """The DECIMAL that holds every number of an integral type; a DECIMAL itself; None for other types."""
    if is_decimal(of):
        return of
    return pa.decimal128(DIGITS[of], 0) if of in DIGITS else None


def adjusted(precision: int, scale: int) -> pa.Decimal128Type:
    """The DECIMAL of a product or a quotient: digits behind the point go first, but six stay."""
    if precision <= DIGITS_MAX:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(DIGITS_MAX, max(DIGITS_MAX - whole, min(scale, 6)))


def wider_decimal(left: pa.Decimal128Type, right: pa.Decimal128Type) -> pa.Decimal128Type:
    """The DECIMAL that holds both; if there is none, digits behind the point go first."""
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    surplus = max(precision - DIGITS_MAX, 0)
    return pa.decimal128(precision - surplus, max(scale - surplus, 0))


def tightest(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that both are turned into without loss; None: there is none."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if left in NUMBERS and right in NUMBERS:
        return NUMBERS[max(NUMBERS.index(left), NUMBERS.index(right))]
    if is_temporal(left) and is_temporal(right):
        return TIMESTAMP if TIMESTAMP in (left, right) else TIMESTAMP_NTZ
    return None


def wider(left: pa.DataType, right: pa.DataType, *, texts: bool = True) -> pa.DataType | None:
    """The type of an expression that may be either, as a CASE; None: Spark refuses it, or this is not known.

    In: texts  whether a STRING makes a STRING of the other, too
    """
    common = tightest(left, right)
    if common is not None:
        return common
    decimals = decimal_of(left), decimal_of(right)
    if is_decimal(left) or is_decimal(right):
        if is_floating(left) or is_floating(right):
            return DOUBLE
        if decimals[0] is not None and decimals[1] is not None:
            return wider_decimal(decimals[0], decimals[1])
    if texts and STRING in (left, right):
        other = right if left == STRING else left
        if is_numeric(other) or is_temporal(other) or other == BOOLEAN:
            return STRING
    return None


def widest(types: Iterable[pa.DataType], *, texts: bool = True) -> pa.DataType | None:
    """The type of an expression that may be any of these; None: not known."""
    ordered = sorted(types, key=lambda of: of != STRING) if texts else [*types]
    common: pa.DataType | None = NULL
    for of in ordered:
        common = wider(common, of, texts=texts) if common is not None else None
    return common


def list_of(element: pa.DataType) -> pa.ListType:
    """An ARRAY."""
    return pa.list_(pa.field("element", element))


def map_of(key: pa.DataType, value: pa.DataType) -> pa.MapType:
    """A MAP."""
    return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))


def ddl_of(of: pa.DataType) -> str:
    """A type as Spark's DDL in the normal form of descriptions."""
    if of in NAMES:
        return NAMES[of]
    if is_decimal(of):
        return f"DECIMAL({of.precision},{of.scale})"
    if pa.types.is_list(of):
        return f"ARRAY<{ddl_of(of.value_type)}>"
    if pa.types.is_map(of):
        return f"MAP<{ddl_of(of.key_type)}, {ddl_of(of.item_type)}>"
    assert pa.types.is_struct(of), of
    return f"STRUCT<{', '.join(_fields(of))}>"


def _fields(of: pa.StructType) -> Sequence[str]:
    return [f"{bare_or_quoted(field.name)}: {ddl_of(field.type)}" for field in of]


def bare_or_quoted(name: str) -> str:
    """A name as Spark reads it: in backquotes, if it needs them."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"
