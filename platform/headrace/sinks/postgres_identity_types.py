"""The types that a column of an identity may have in a table of PostgreSQL.

Law: the table holds each value of an identity as it was delivered, and two values are equal there if they are equal here.
So a row that is held has the identity of the row that was delivered, and no two rows become one. Other types change values
(`uuid`, `char`, `timestamp(3)`), cannot hold them all (`integer` for BIGINT), or take different values for equal (`citext`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import types as T

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg
    from psycopg import sql

_INTEGERS = ("smallint", "integer", "bigint")
_EXACT: dict[type[T.DataType], tuple[str, ...]] = {
    T.StringType: ("text", "character varying"),
    T.BooleanType: ("boolean",),
    T.ByteType: _INTEGERS,
    T.ShortType: _INTEGERS,
    T.IntegerType: _INTEGERS[1:],
    T.LongType: _INTEGERS[2:],
    T.FloatType: ("real",),
    T.DoubleType: ("double precision",),
    T.DateType: ("date",),
    T.TimestampType: ("timestamp with time zone", "timestamp(6) with time zone"),
    T.TimestampNTZType: ("timestamp without time zone", "timestamp(6) without time zone"),
    T.BinaryType: ("bytea",),
    T.StructType: ("jsonb",),
    T.ArrayType: ("jsonb",),
}
# Servers before PostgreSQL 12 have only collations that are deterministic.
_COLLATIONS = """
SELECT attname::text, collname::text FROM pg_attribute JOIN pg_collation AS c ON c.oid = attcollation
WHERE attrelid = to_regclass(%s) AND to_jsonb(c) ->> 'collisdeterministic' = 'false'"""


def is_exact(of: T.DataType, postgres: str) -> bool:
    """True if a type of PostgreSQL's holds all values of a type as they are. In: postgres  as `format_type` writes it."""
    if isinstance(of, T.DecimalType):
        digits = re.fullmatch(r"numeric\((\d+),(\d+)\)", postgres)
        if digits is None:
            return postgres == "numeric"
        precision, scale = int(digits[1]), int(digits[2])
        return scale >= of.scale and precision - scale >= of.precision - of.scale
    return postgres in _EXACT.get(type(of), ())


def inexact_columns(
    connection: psycopg.Connection,
    table: sql.Identifier,
    identity: Mapping[str, T.DataType],
    types: Mapping[str, str],
) -> dict[str, str]:
    """The columns of an identity that a table may hold in another form, or confuse.

    In:     identity  the columns with their types in the rows
            types     the columns of the table with their types there
    Out:    for each the type that it has, with its collation if that is the trouble
    """
    found = {name: types[name] for name, of in identity.items() if not is_exact(of, types[name])}
    for name, collation in connection.execute(_COLLATIONS, [table.as_string(None)]).fetchall():
        if name in identity:
            found.setdefault(name, f'{types[name]} COLLATE "{collation}"')
    return found
