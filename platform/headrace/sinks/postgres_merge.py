"""Merge the staging table into the target, in one transaction.

Law: a row replaces what is older, or as old, of its identity, and nothing newer; the same holds of a deletion. A row that
has no position, because it was there before the table had these columns, is older than all others. A correction replaces
whatever is not newer than the sequence up to which it is right. A row that the database refuses leaves no trace in the
target and does not keep the rows of other identities from it. Only the newest of the staged rows of each identity is tried:
so which rows are refused, and what the target then holds of their identities, depends on how the log is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from headrace.sinks.postgres_halving import Halving, Place
from headrace.sinks.postgres_keys import Identity
from headrace.sinks.refusals import SinkAwayError

if TYPE_CHECKING:
    import psycopg

    from headrace.sinks.postgres_tables import Target
    from headrace.sinks.refusals import Refusal

Stretch = tuple[int, int]  # of staged rows, by the first and the last __row

# A task that was run twice has staged its rows twice; the newest of an identity counts.
_NEWEST = """(
    SELECT DISTINCT ON ({identity}) * FROM {staging} WHERE __row BETWEEN {first} AND {last}
    ORDER BY {identity}, __sequence DESC, __place DESC) AS new"""
_DELETED = f"""
INSERT INTO {{gone}} AS old ({{identity}}, {{position}}) SELECT {{identity}}, {{position}} FROM {_NEWEST}
WHERE new.__deleted
ON CONFLICT ({{identity}}) DO UPDATE SET __sequence = EXCLUDED.__sequence, __place = EXCLUDED.__place
WHERE {{yields_to_excluded}}"""
_DELETE = f"""
DELETE FROM {{table}} AS old USING {_NEWEST}
WHERE new.__deleted AND {{same}} AND {{yields_to_new}}"""
_UPSERT = f"""
INSERT INTO {{table}} AS old ({{names}}) SELECT {{names}} FROM {_NEWEST}
WHERE NOT new.__deleted {{not_gone}}
ON CONFLICT ({{identity}}) DO UPDATE SET {{assignments}}
WHERE {{yields_to_excluded}}"""
_NOT_GONE = """AND NOT EXISTS (SELECT FROM {gone} AS old WHERE {same} AND NOT {yields_to_new})"""
_BACK = f"""
DELETE FROM {{gone}} AS old USING {_NEWEST}
WHERE NOT new.__deleted AND {{same}} AND {{yields_to_new}}"""
# What is held yields to a row that is newer, or as old; to a correction, if it is not newer than what was corrected.
# Without a position it is older than all: a person has added the columns to a table with rows.
_IS_OLDER = "((old.__sequence, old.__place) > ({row}.__sequence, {row}.__place)) IS NOT TRUE"
_IS_CORRECTED = "(old.__sequence > {through}) IS NOT TRUE"
_SUMMARY = "SELECT count(*), min(__row), max(__row), coalesce(bool_or(__deleted), false) FROM {staging}"
_HALF = """
SELECT count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY __row), min(__sequence), min(__ordinal)
FROM {staging} WHERE __row BETWEEN {first} AND {last}"""


def merge(
    connection: psycopg.Connection, target: Target, *, staged: int, through: int | None = None
) -> list[Refusal]:
    """Bring the target up to date and empty the staging table; commits.

    In:     staged   how many rows the tasks have copied; an unlogged table is empty after a crash of the server
            through  the rows are a correction of what is held up to this sequence; None: they are new
    Out:    the rows that the database refused
    Raises: SinkAwayError when fewer rows are there; psycopg.Error
    """
    refused: list[Refusal] = []
    with connection.transaction():
        # So that a refusal shows where it can be told whose it is.
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        row = connection.execute(target.fill(_SUMMARY)).fetchone()
        assert row is not None
        count, first, last, deletes = row
        if count < staged:
            raise SinkAwayError(
                f"PostgreSQL's table '{target.shown}': the server lost staged rows.",
                detail=f"{count:,} of {staged:,} are left; it was started again in between.",
                hint="The stream delivers again by itself.",
            )
        if target.whole:
            target.key.replace(connection)
        if first is not None:
            gone = target.remembers and (deletes or target.remembers_deleted(connection))
            if deletes and gone:
                target.remember_deleted(connection)
            merging = _Merge(connection, target, through, deletes=deletes, gone=gone)
            merging.put((first, last))
            refused = merging.refused()
        connection.execute(target.fill("TRUNCATE {staging}"))
    return refused


class _Merge(Halving[Stretch]):
    def __init__(
        self,
        connection: psycopg.Connection,
        target: Target,
        through: int | None,
        *,
        deletes: bool,
        gone: bool,
    ) -> None:
        super().__init__(connection)
        self._target = target
        self._are_newest = False  # the staged rows, each of its identity
        same = target.same("old", "new")
        yields = {row: _yields(row, through) for row in ("new", "excluded")}
        others = [name for name in target.names if name not in target.identity]
        self._parts: dict[str, sql.Composable] = {
            "same": same,
            "not_gone": target.fill(_NOT_GONE, same=same, yields_to_new=yields["new"])
            if gone
            else sql.SQL(""),
            **{f"yields_to_{row}": condition for row, condition in yields.items()},
            "assignments": sql.SQL(", ").join(
                sql.SQL("{0} = {1}").format(sql.Identifier(name), sql.Identifier("excluded", name))
                for name in others
            ),
        }
        self._statements = [
            *([_DELETED] if deletes and gone else []),
            *([_DELETE] if deletes else []),
            _UPSERT,
            *([_BACK] if gone else []),
        ]

    def write(self, rows: Stretch) -> None:
        for statement in self._statements:
            self._connection.execute(self._fill(statement, rows))

    def parts(self, rows: Stretch) -> Place | tuple[Stretch, Stretch]:
        if not self._are_newest:
            Identity(self._target.staging, self._target.identity).leave_newest(self._connection)
            self._are_newest = True
        found = self._connection.execute(self._fill(_HALF, rows)).fetchone()
        assert found is not None
        count, half, sequence, ordinal = found
        if count == 1:
            return Place(sequence, ordinal)
        return (rows[0], half), (half + 1, rows[1])

    def _fill(self, statement: str, rows: Stretch) -> sql.Composed:
        first, last = map(sql.Literal, rows)
        return self._target.fill(statement, **self._parts, first=first, last=last)


def _yields(row: str, through: int | None) -> sql.Composable:
    """The condition that what is held gives way to a row. In: row  its alias."""
    if through is None:
        return sql.SQL(_IS_OLDER).format(row=sql.Identifier(row))
    return sql.SQL(_IS_CORRECTED).format(through=sql.Literal(through))
