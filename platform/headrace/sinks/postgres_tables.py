"""The tables of the PostgreSQL sink: the target, its staging table, and what was deleted.

Law: identifiers are always quoted; the target's own types decide what it takes. A table of deleted identities is used and
dropped if Headrace has made it; a comment says so.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql
from pyspark.sql import types as T

from headrace.errors import TerminalError
from headrace.sinks.postgres import MEMORY_ENDING
from headrace.sinks.postgres_keys import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from headrace.description.sink import Delivery

SEQUENCE, PLACE = "__sequence", "__place"
OWN = ((SEQUENCE, "bigint"), (PLACE, "bytea"))
MEMORY = "Deleted identities; made and used by Headrace."
STAGED = (("__deleted", "boolean"), ("__ordinal", "integer"))  # what the staging table has beside these
_TYPES: dict[type[T.DataType], str] = {
    T.StringType: "text",
    T.BooleanType: "boolean",
    T.ByteType: "smallint",
    T.ShortType: "smallint",
    T.IntegerType: "integer",
    T.LongType: "bigint",
    T.FloatType: "real",
    T.DoubleType: "double precision",
    T.DateType: "date",
    T.TimestampType: "timestamptz",
    T.TimestampNTZType: "timestamp",
    T.BinaryType: "bytea",
    T.StructType: "jsonb",
    T.ArrayType: "jsonb",
    T.MapType: "jsonb",
}
_SAME = "({0} = {1} OR ({0} IS NULL AND {1} IS NULL))"
_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_COMMENT = "SELECT obj_description(to_regclass(%s), 'pg_class')"
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


def column_type(data_type: T.DataType) -> str:
    """The type of PostgreSQL's that holds these values.

    Raises: TerminalError when there is none.
    """
    if isinstance(data_type, T.DecimalType):
        return f"numeric({data_type.precision},{data_type.scale})"
    found = _TYPES.get(type(data_type))
    if found is None:
        raise TerminalError(f"PostgreSQL has no column type for {data_type.simpleString()}.", hint="Cast it.")
    return found


@dataclass(frozen=True)
class Target:
    """A target table with its companions.

    columns   the delivered columns by name, with the types for a table that is made; those of the identity, too
    types     of the columns of the identity in the rows
    whole     a delivery of all rows: it replaces the key of another description (see `Identity.replace`)
    """

    table: sql.Identifier
    staging: sql.Identifier
    gone: sql.Identifier
    shown: str
    node: str
    identity: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    whole: bool
    types: tuple[T.DataType, ...]

    @classmethod
    def of(cls, table: str, delivery: Delivery, schema: T.StructType) -> Target:
        """The target of a node's rows."""
        *schemas, name = table.split(".")
        digest = hashlib.sha256(f"{delivery.node}/{table}".encode()).hexdigest()[:8]
        return cls(
            sql.Identifier(*schemas, name),
            sql.Identifier(*schemas, f"__staging_{delivery.node[:40]}_{digest}"),
            sql.Identifier(*schemas, f"{name}{MEMORY_ENDING}"),
            table,
            delivery.node,
            delivery.identity,
            tuple((column, column_type(schema[column].dataType)) for column in stored_columns(delivery)),
            delivery.whole,
            tuple(schema[column].dataType for column in delivery.identity),
        )

    @property
    def names(self) -> list[str]:
        """The columns that the target has of a row."""
        return [*(name for name, _ in self.columns), SEQUENCE, PLACE]

    @property
    def copied(self) -> tuple[str, ...]:
        """The columns that the staging table gets of a row."""
        return (*self.names, *(name for name, _ in STAGED))

    @property
    def remembers(self) -> bool:
        """Whether deleted identities are remembered. An appended row is its own place: nothing older has its identity."""
        return not set(self.identity) <= {SEQUENCE, PLACE}

    @property
    def _identity_types(self) -> dict[str, T.DataType]:
        return dict(zip(self.identity, self.types, strict=True))

    @property
    def key(self) -> Identity:
        """The unique key of the target."""
        return Identity(self.table, self.identity)

    def prepare(self, connection: psycopg.Connection) -> None:
        """Make the target unless it is there, check it, and have an empty staging table like it.

        Waits while another delivery of the node uses it: rows of some days may be delivered again beside the stream.
        Raises: TerminalError naming the columns that the target lacks, a column of the identity whose type changes values,
                its lack of a key, or a table in the place of that of deleted identities.
        """
        name = self.staging.as_string(None)
        # Until the session ends.
        connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [name])
        if not columns_of(connection, self.table):
            self._create(connection)
        found = columns_of(connection, self.table)
        self._check(connection, found)
        self._prepare_memory(connection, found)
        wanted = {name: found[name] for name in self.names} | dict(STAGED) | {"__row": "bigint"}
        if columns_of(connection, self.staging) == wanted:
            connection.execute(sql.SQL("TRUNCATE {}").format(self.staging))
            return
        for statement in (
            "DROP TABLE IF EXISTS {staging}",
            "CREATE UNLOGGED TABLE {staging} AS SELECT {names} FROM {table} WITH NO DATA",
            "ALTER TABLE {staging} ADD COLUMN __deleted boolean, ADD COLUMN __ordinal integer",
            "ALTER TABLE {staging} ADD COLUMN __row bigserial",
        ):
            connection.execute(self.fill(statement))

    def fill(self, statement: str, **more: sql.Composable) -> sql.Composed:
        """A statement with the names of tables and columns, quoted."""
        parts: dict[str, sql.Composable] = {
            "table": self.table,
            "staging": self.staging,
            "gone": self.gone,
            "names": listed(self.names),
            "identity": listed(self.identity),
            "position": listed((SEQUENCE, PLACE)),
        }
        return sql.SQL(statement).format(**parts | more)

    def copy_statement(self) -> str:
        """COPY of the lines that `postgres_copy.lines_of` makes of the columns that are copied."""
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(self.staging, listed(self.copied))
        return statement.as_string(None)

    def same(self, left: str, right: str) -> sql.Composable:
        """The condition that two rows have one identity; null equals null. The key's index finds both."""
        pairs = ((sql.Identifier(left, name), sql.Identifier(right, name)) for name in self.identity)
        return sql.SQL(" AND ").join(sql.SQL(_SAME).format(*pair) for pair in pairs)

    def remember_deleted(self, connection: psycopg.Connection) -> None:
        """Make the table of deleted identities unless it is there."""
        if not columns_of(connection, self.gone):
            made = "CREATE TABLE {gone} AS SELECT {identity}, {position} FROM {table} WITH NO DATA"
            connection.execute(self.fill(made))
            connection.execute(self.fill("ALTER TABLE {gone} ADD {key}", key=self.key.definition(connection)))
            connection.execute(self._marked())

    def remembers_deleted(self, connection: psycopg.Connection) -> bool:
        """Whether an identity was ever deleted."""
        return bool(columns_of(connection, self.gone))

    def _create(self, connection: psycopg.Connection) -> None:
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))
            for name, kind in (*self.columns, *OWN)
        ]
        made = "CREATE TABLE {table} ({columns}, {key})"
        parts = {"columns": sql.SQL(", ").join(columns), "key": self.key.definition(connection)}
        connection.execute(self.fill(made, **parts))
        self.key.mark(connection)

    def _prepare_memory(self, connection: psycopg.Connection, types: dict[str, str]) -> None:
        """Give the table of deleted identities, if there is one, types that hold those of the rows, as the target has.

        That of a former description is dropped: no row has such an identity any more.
        """
        remembered = columns_of(connection, self.gone)
        if not remembered:
            return
        row = connection.execute(_COMMENT, [self.gone.as_string(None)]).fetchone()
        if row != (MEMORY,):
            if not self.remembers:
                return
            raise TerminalError(
                f"PostgreSQL's table '{self.shown}{MEMORY_ENDING}' is not made by Headrace.",
                detail=f"The sink of '{self.shown}' remembers in a table of this name what it deleted.",
                hint="Rename the table, or give the sink another one. If Headrace made it, and a restore has lost its "
                f"comment, run: {self._marked().as_string(None)}",
            )
        if not Identity(self.gone, self.identity).is_key(connection):
            connection.execute(self.fill("DROP TABLE {gone}"))
            return
        for name in inexact_columns(connection, self.gone, self._identity_types, remembered):
            parts = {"column": sql.Identifier(name), "type": sql.SQL(types[name])}
            altered = "ALTER TABLE {gone} ALTER COLUMN {column} TYPE {type} USING {column}::{type}"
            connection.execute(self.fill(altered, **parts))

    def _marked(self) -> sql.Composed:
        return self.fill("COMMENT ON TABLE {gone} IS {mark}", mark=sql.Literal(MEMORY))

    def _check(self, connection: psycopg.Connection, types: dict[str, str]) -> None:
        lacking = [f'"{name}" {kind}' for name, kind in (*self.columns, *OWN) if name not in types]
        if lacking:
            added = ", ".join("ADD COLUMN " + column for column in lacking)
            raise TerminalError(
                f"PostgreSQL's table '{self.shown}' lacks columns: {', '.join(lacking)}.",
                hint=f"ALTER TABLE {self.table.as_string(None)} {added}",
            )
        self._require_exact_identity(connection, types)
        key = self.key
        if key.is_key(connection):
            return
        made = key.is_replaceable(connection)
        if not (made and self.whole):
            identity = ", ".join(f'"{name}"' for name in self.identity)
            raise TerminalError(
                f"PostgreSQL's table '{self.shown}' has no unique key over the identity of the rows: {identity}.",
                detail="Null is a group like others, so nulls are not distinct in it (or the columns are NOT NULL).",
                hint=f"Run headrace redeliver {self.node}: it replaces the key and the rows."
                if made
                else key.statements(connection, self.names),
            )

    def _require_exact_identity(self, connection: psycopg.Connection, stored: dict[str, str]) -> None:
        types = self._identity_types
        for name, theirs in inexact_columns(connection, self.table, types, stored).items():
            of, made = types[name].simpleString().upper(), column_type(types[name])
            plain = ' COLLATE "default"' if "COLLATE" in theirs else ""
            column, table = sql.Identifier(name).as_string(None), self.table.as_string(None)
            raise TerminalError(
                f"PostgreSQL's table '{self.shown}': column \"{name}\" tells rows apart, and {theirs} does not hold each "
                f"{of} as it is, or takes different ones for equal.",
                hint=f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {made}{plain} USING {column}::{made}; then run "
                f"headrace redeliver {self.node}. A generated column next to it may have another type.",
            )


def stored_columns(delivery: Delivery) -> tuple[str, ...]:
    """The columns of a delivery that a table has beside its own two: a session's identity holds its partition."""
    own = (name for name in delivery.identity if name not in (*delivery.columns, SEQUENCE, PLACE))
    return (*delivery.columns, *own)


def columns_of(connection: psycopg.Connection, table: sql.Identifier) -> dict[str, str]:
    """The columns of a table with their types; none when there is no table."""
    return dict(connection.execute(_COLUMNS, [table.as_string(None)]).fetchall())


def listed(names: list[str] | tuple[str, ...], of: str | None = None) -> sql.Composable:
    """Quoted names, with commas between them; of a table's alias when one is given."""
    aliased = [sql.Identifier(name) if of is None else sql.Identifier(of, name) for name in names]
    return sql.SQL(", ").join(aliased)


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
