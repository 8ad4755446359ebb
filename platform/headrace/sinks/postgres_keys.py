"""The unique keys of a PostgreSQL table, and the replacement of the key over the identity of the rows when that changes.

Law: Headrace replaces a key that it has made, and no other. A comment on the constraint says who made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

NULLS_NOT_DISTINCT_SINCE = 15_00_00
MARK = "The identity of the rows; made and replaced by Headrace."
_NEVER_NULL = {"__sequence", "__place"}
# After its key an index may include other columns, since PostgreSQL 11.
_KEYS = """
SELECT array_agg(attname::text ORDER BY attnum), conname, indexrelid::regclass::text, indisprimary, indimmediate,
       coalesce(obj_description(pg_constraint.oid, 'pg_constraint') = %s, false),
       coalesce(array_agg(attname::text) FILTER (
           WHERE NOT attnotnull AND to_jsonb(pg_index) ->> 'indnullsnotdistinct' IS DISTINCT FROM 'true'), '{}')
FROM pg_index
JOIN pg_attribute ON attrelid = indrelid
    AND attnum = ANY ((indkey::int2[])[0:coalesce((to_jsonb(pg_index) ->> 'indnkeyatts')::int, indnatts) - 1])
LEFT JOIN pg_constraint ON conindid = indexrelid AND conrelid = indrelid
WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL
GROUP BY indexrelid, pg_constraint.oid, conname, indisprimary, indimmediate ORDER BY indexrelid"""
_AGES = """
SELECT ctid, row_number() OVER (
    PARTITION BY {identity} ORDER BY __sequence DESC NULLS LAST, __place DESC NULLS LAST, ctid) AS age
FROM {table}"""
_REPEATED = f"SELECT EXISTS (SELECT FROM ({_AGES}) AS aged WHERE age > 1)"
_LEAVE_NEWEST = (
    f"DELETE FROM {{table}} AS old USING ({_AGES}) AS aged WHERE old.ctid = aged.ctid AND aged.age > 1"
)


@dataclass(frozen=True)
class Key:
    """A unique key of a table.

    constraint  its name; None: a unique index alone
    index       its name, quoted
    made        Headrace made it
    immediate   a row is judged by it at once, and not at the end of a statement or of a transaction
    nulls       its columns in which nulls are distinct, so that several rows may have the same values and a null there
    """

    columns: frozenset[str]
    constraint: str | None
    index: str
    primary: bool
    immediate: bool
    made: bool
    nulls: frozenset[str]


@dataclass(frozen=True)
class Identity:
    """The columns of a table that tell its rows apart, and the unique keys that the table has."""

    table: sql.Identifier
    columns: tuple[str, ...]

    def is_key(self, connection: psycopg.Connection) -> bool:
        """Whether the table has a unique key over the identity, in which null is a value like others, for ON CONFLICT."""
        return any(map(self._is_that_of, self._keys(connection)))

    def is_replaceable(self, connection: psycopg.Connection) -> bool:
        """Whether the table has a key that Headrace made."""
        return any(key.made for key in self._keys(connection))

    def mark(self, connection: psycopg.Connection) -> None:
        """Note of the key that Headrace has made it."""
        for key in self._keys(connection):
            if self._is_that_of(key) and key.constraint is not None:
                comment = sql.SQL("COMMENT ON CONSTRAINT {} ON {} IS {}")
                connection.execute(
                    comment.format(sql.Identifier(key.constraint), self.table, sql.Literal(MARK))
                )

    def replace(self, connection: psycopg.Connection) -> None:
        """Put the key over the identity in the place of another one that Headrace made, within the caller's transaction.

        It leaves the newest row of each new identity. A correction of all rows follows: these are another description's.
        """
        if self.is_key(connection):
            return
        made = [key for key in self._keys(connection) if key.made]
        self.leave_newest(connection)
        connection.execute(self._altered(made, connection))
        self.mark(connection)

    def leave_newest(self, connection: psycopg.Connection) -> None:
        """Delete all rows but the newest of each identity."""
        connection.execute(self._fill(_LEAVE_NEWEST))

    def statements(self, connection: psycopg.Connection, names: Sequence[str]) -> str:
        """The statements that give the table the key in place of others over columns of its rows.

        In: names  the columns of the rows
        """
        others = [key for key in self._keys(connection) if key.primary or key.columns <= set(names)]
        repeated = connection.execute(self._fill(_REPEATED)).fetchone()
        deletion = [self._fill(_LEAVE_NEWEST).as_string(None)] if repeated and repeated[0] else []
        indexes = [f"DROP INDEX {key.index}" for key in others if key.constraint is None]
        constraints = [key for key in others if key.constraint is not None]
        altered = self._altered(constraints, connection).as_string(None)
        return "; ".join(" ".join(each.split()) for each in (*deletion, *indexes, altered))

    def definition(self, connection: psycopg.Connection) -> sql.Composed:
        """The key. Null is a group, so one row may have a null there; an older server refuses such a row."""
        has_null_keys = connection.info.server_version >= NULLS_NOT_DISTINCT_SINCE
        kind = "UNIQUE NULLS NOT DISTINCT" if has_null_keys else "PRIMARY KEY"
        return self._fill(f"{kind} ({{identity}})")

    def _is_that_of(self, key: Key) -> bool:
        return key.immediate and key.columns == set(self.columns) and not key.nulls - _NEVER_NULL

    def _keys(self, connection: psycopg.Connection) -> list[Key]:
        rows = connection.execute(_KEYS, [MARK, self.table.as_string(None)]).fetchall()
        return [
            Key(frozenset(columns), constraint, index, primary, immediate, made, frozenset(nulls))
            for columns, constraint, index, primary, immediate, made, nulls in rows
        ]

    def _altered(self, old: Sequence[Key], connection: psycopg.Connection) -> sql.Composed:
        """The statement that replaces keys by that over the identity. A primary key has made its columns NOT NULL."""
        primary = {name for key in old if key.primary for name in key.columns}
        changes: list[sql.Composable] = [
            *(sql.SQL("DROP CONSTRAINT {}").format(sql.Identifier(str(key.constraint))) for key in old),
            *(
                sql.SQL("ALTER COLUMN {} DROP NOT NULL").format(sql.Identifier(name))
                for name in sorted(primary - set(self.columns))
            ),
            sql.SQL("ADD {}").format(self.definition(connection)),
        ]
        return sql.SQL("ALTER TABLE {} {}").format(self.table, sql.SQL(", ").join(changes))

    def _fill(self, statement: str) -> sql.Composed:
        identity = sql.SQL(", ").join(map(sql.Identifier, self.columns))
        return sql.SQL(statement).format(table=self.table, identity=identity)
