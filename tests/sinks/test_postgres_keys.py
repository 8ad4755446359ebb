"""A description changes the identity of its rows: the key of the table in PostgreSQL follows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.operators.contract import OF_PLACE
from headrace.sinks.postgres_tables import MEMORY
from tests.sinks.test_postgres_sink import delivery, made

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from pyspark.sql import SparkSession

    from headrace.description.sink import Delivery

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

SCHEMA = "id STRING, n INT"


def keys(database: psycopg.Connection, table: str) -> list[str]:
    """The unique keys of a table, as PostgreSQL defines them."""
    found = database.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = to_regclass(%s) AND contype IN ('p', 'u')",
        [table],
    )
    return [text for (text,) in found.fetchall()]


def rows_of(database: psycopg.Connection, table: str) -> list[Any]:
    return database.execute(f"SELECT id, n FROM {table} ORDER BY id, n").fetchall()


def whole(delivery: Delivery) -> Delivery:
    """All rows of the node, as a redelivery and a rebuild deliver them."""
    return replace(delivery, whole=True)


def test_a_correction_of_all_rows_replaces_a_key_that_headrace_made(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    """From totals to appended rows and back; two rows of one place, and two of one id, are in the way of the new key.

    The correction of a backfill has the rows of some days. The table would keep rows of the former description.
    """
    sink = hr.PostgresSink("turning")
    totals, appended = delivery(tmp_path, "id", "n"), delivery(tmp_path, "id", "n", identity=OF_PLACE)
    sink.deliver(made(spark, SCHEMA, [("a", 1), ("b", 1), ("c", 1)]), totals)
    database.execute("UPDATE turning SET __place = ''")
    database.execute("CREATE TABLE turning__deleted (id text UNIQUE, __sequence bigint, __place bytea)")
    database.execute(f"COMMENT ON TABLE turning__deleted IS '{MEMORY}'")
    rows = made(spark, SCHEMA, [("a", 1), ("a", 2)], sequence=2)
    for put in (sink.deliver, partial(sink.correct, through=2)):
        with pytest.raises(TerminalError, match="no unique key over the identity") as error:
            put(rows, appended)
        assert error.value.hint == "Run headrace redeliver a_node: it replaces the key and the rows."
    assert keys(database, "turning") == ["UNIQUE NULLS NOT DISTINCT (id)"]

    sink.correct(rows, whole(appended), 2)
    assert keys(database, "turning") == ["UNIQUE NULLS NOT DISTINCT (__sequence, __place)"]
    assert {("a", 1), ("a", 2)} <= set(rows_of(database, "turning"))
    assert database.execute("SELECT to_regclass('turning__deleted')").fetchone() == (None,)

    sink.correct(made(spark, SCHEMA, [("a", 7)], sequence=3), whole(totals), 3)
    assert keys(database, "turning") == ["UNIQUE NULLS NOT DISTINCT (id)"]
    assert ("a", 7) in rows_of(database, "turning")
    sink.deliver(made(spark, SCHEMA, [("a", 8)], sequence=4), totals)
    assert ("a", 8) in rows_of(database, "turning")


def test_a_correction_that_fails_leaves_the_former_key(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    """A foreign key depends on the former one, so PostgreSQL refuses to drop it."""
    sink, totals = hr.PostgresSink("pointed"), delivery(tmp_path, "id", "n")
    sink.deliver(made(spark, SCHEMA, [("a", 1)]), totals)
    database.execute("CREATE TABLE pointing (id text REFERENCES pointed (id))")
    appended = delivery(tmp_path, "id", "n", identity=OF_PLACE)
    with pytest.raises(TerminalError, match="other objects depend on it"):
        sink.correct(made(spark, SCHEMA, [("a", 2)], sequence=2), whole(appended), 2)
    assert keys(database, "pointed") == ["UNIQUE NULLS NOT DISTINCT (id)"]
    assert rows_of(database, "pointed") == [("a", 1)]


@pytest.mark.parametrize(
    "key",
    [
        "PRIMARY KEY (id), CONSTRAINT other UNIQUE (own)",
        "UNIQUE (id, n), CONSTRAINT other UNIQUE (own)",
        'CONSTRAINT other UNIQUE (own)); CREATE UNIQUE INDEX "Alone" ON theirs (id',
    ],
)
def test_a_key_that_somebody_else_made_is_refused_with_statements_that_replace_it(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path, key: str
) -> None:
    database.execute("DROP TABLE IF EXISTS theirs")
    columns = "id text, n integer, own bigserial, __sequence bigint, __place bytea"
    database.execute(f"CREATE TABLE theirs ({columns}, {key})")
    database.execute(
        "INSERT INTO theirs (id, n, __sequence, __place) VALUES ('x', 1, 1, ''), ('y', 1, 1, '')"
    )
    sink, appended = hr.PostgresSink("theirs"), whole(delivery(tmp_path, "id", "n", identity=OF_PLACE))
    rows = made(spark, SCHEMA, [("a", 1), ("a", 2), (None, 3)], sequence=2)
    for put in (sink.deliver, partial(sink.correct, through=2)):
        with pytest.raises(TerminalError, match="no unique key over the identity") as error:
            put(rows, appended)
    hint = error.value.hint
    assert hint is not None
    database.execute(hint)
    sink.deliver(rows, appended)
    assert {("a", 1), ("a", 2), (None, 3)} <= set(rows_of(database, "theirs"))
    assert sorted(keys(database, "theirs")) == [
        "UNIQUE (own)",
        "UNIQUE NULLS NOT DISTINCT (__sequence, __place)",
    ]


def test_identities_of_which_the_table_lacks_a_column_are_null(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    sink = hr.PostgresSink("lacking")
    sink.deliver(made(spark, "id STRING", [("a",)]), delivery(tmp_path, "id"))
    wider = whole(delivery(tmp_path, "id", "n", identity=("id", "n")))
    assert [tuple(row) for row in sink.identities(spark, wider).collect()] == [("a", None)]
    rows = made(spark, SCHEMA, [("a", 1)], sequence=2)
    with pytest.raises(TerminalError, match="lacks columns") as error:
        sink.correct(rows, wider, 2)
    assert error.value.hint is not None
    database.execute(error.value.hint)
    sink.correct(rows, wider, 2)
    assert ("a", 1) in rows_of(database, "lacking")
    assert keys(database, "lacking") == ["UNIQUE NULLS NOT DISTINCT (id, n)"]
