"""Identities in a table that a person made: its types and keys may be others than those that Headrace makes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types as T

import headrace as hr
from headrace.errors import TerminalError
from headrace.sinks.postgres_tables import is_exact
from headrace.writing.delivery.redeliver import sink_identities
from tests.sinks.test_postgres_sink import delivery, made

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

AT = datetime(2026, 11, 28, 12, 0, 0, 123_456, tzinfo=UTC)
UUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
# The table's type of the identity, the type in the rows, two values, and the type in the statement that mends it.
INEXACT: dict[str, tuple[str, str, list[Any], str]] = {
    "capitals in a uuid": ("uuid", "STRING", [UUID, UUID.lower()], "text"),
    "spaces in char": ("char(4)", "STRING", ["a", "b "], "text"),
    "spaces beyond varchar": ("varchar(2)", "STRING", ["a", "b  "], "text"),
    "another case in citext": ("ci_text", "STRING", ["a", "A"], "text"),
    "another case in a collation": ("text COLLATE ci", "STRING", ["a", "A"], 'text COLLATE "default"'),
    "integer for BIGINT": ("integer", "BIGINT", [1, 2**40], "bigint"),
    "text for BIGINT": ("text", "BIGINT", [1, 2], "bigint"),
    "milliseconds": ("timestamptz(3)", "TIMESTAMP", [AT, AT.replace(microsecond=123_999)], "timestamptz"),
    "fewer digits": ("numeric(10,1)", "DECIMAL(10,2)", [Decimal("1.25"), Decimal("1.31")], "numeric(10,2)"),
    "DOUBLE as real": ("real", "DOUBLE", [0.1, 0.5], "double precision"),
}  # fmt: skip


# Of kinds of text and of numbers one each; `test_which_types_hold_each_value_as_it_is` has all types.
LONG = (
    "spaces beyond varchar",
    "another case in a collation",
    "integer for BIGINT",
    "text for BIGINT",
    "fewer digits",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in INEXACT]
)
def test_a_type_that_changes_or_confuses_values_is_refused_for_identities(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path, name: str
) -> None:
    """The statement in the hint mends it: then a redelivery takes each row for the one that was delivered."""
    kind, of, values, mended = INEXACT[name]
    # This server is built without ICU, whose collations alone can be made so.
    database.execute("CREATE COLLATION IF NOT EXISTS ci (provider = libc, locale = 'C')")
    database.execute("UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'ci'")
    database.execute("DROP TABLE IF EXISTS odd, odd__deleted; DROP DOMAIN IF EXISTS ci_text")
    database.execute(
        "CREATE DOMAIN ci_text AS text COLLATE ci"
    )  # as the extension citext, which this server lacks
    database.execute(
        f"CREATE TABLE odd (id {kind}, n int, __sequence bigint, __place bytea, UNIQUE NULLS NOT DISTINCT (id))"
    )
    sink, to = hr.PostgresSink("odd"), delivery(tmp_path, "id", "n")
    rows = made(spark, f"id {of}, n INT", [(value, n) for n, value in enumerate(values)])
    for put in (sink.deliver, lambda rows, to: sink.correct(rows, replace(to, whole=True), 1)):
        with pytest.raises(TerminalError, match='column "id" tells rows apart') as error:
            put(rows, to)
    assert error.value.hint is not None
    statement, _, then = error.value.hint.partition("; then ")
    assert f"TYPE {mended} USING" in statement
    assert then.startswith("run headrace redeliver a_node")
    database.execute(statement)
    sink.deliver(rows, to)
    assert database.execute("SELECT count(*) FROM odd").fetchone() == (2,)
    held = sink.identities(spark, to).select("id")
    assert rows.select("id").exceptAll(held).count() == held.exceptAll(rows.select("id")).count() == 0


@pytest.mark.parametrize(
    ("of", "exact", "inexact"),
    [
        ("STRING", ["text", "character varying"], ["character varying(9)", "character(9)", "uuid", "citext", "jsonb"]),
        ("SMALLINT", ["smallint", "integer", "bigint"], ["numeric", "text"]),
        ("INT", ["integer", "bigint"], ["smallint"]),
        ("DECIMAL(10,2)", ["numeric", "numeric(10,2)", "numeric(12,3)"], ["numeric(10,3)", "numeric(9,2)", "money"]),
        ("TIMESTAMP", ["timestamp with time zone"], ["timestamp(3) with time zone", "timestamp without time zone"]),
        ("STRUCT<a: INT>", ["jsonb"], ["json", "text"]),
        ("FLOAT", ["real"], ["double precision"]),
    ],
)  # fmt: skip
def test_which_types_hold_each_value_as_it_is(of: str, exact: list[str], inexact: list[str]) -> None:
    kind = T.DataType.fromDDL(of)
    assert [each for each in exact + inexact if is_exact(kind, each)] == exact


@pytest.mark.parametrize("key", ["UNIQUE (id)", "EXCLUDE (id WITH =)); CREATE UNIQUE INDEX ON doubled (id"])
def test_a_key_in_which_nulls_are_distinct_is_refused(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path, key: str
) -> None:
    """Each delivery of the null group would add another row of it."""
    database.execute("DROP TABLE IF EXISTS doubled")
    database.execute(f"CREATE TABLE doubled (id text, n int, __sequence bigint, __place bytea, {key})")
    sink, to = hr.PostgresSink("doubled"), delivery(tmp_path, "id", "n")
    with pytest.raises(TerminalError, match="no unique key over the identity") as error:
        sink.deliver(made(spark, "id STRING, n INT", [(None, 1), ("a", 1)]), to)
    assert error.value.hint is not None
    assert "UNIQUE NULLS NOT DISTINCT" in error.value.hint
    database.execute(error.value.hint)
    for sequence in (1, 2):
        sink.deliver(made(spark, "id STRING, n INT", [(None, sequence), ("a", sequence)], sequence), to)
    assert database.execute("SELECT id, n FROM doubled ORDER BY id").fetchall() == [("a", 2), (None, 2)]


@pytest.mark.parametrize(
    "of", ["STRUCT<a: DOUBLE, b: TIMESTAMP, c: DECIMAL(12,3), d: BINARY>", "ARRAY<STRUCT<x: BIGINT>>"]
)
def test_groups_of_structs_and_arrays_are_held_as_they_were_delivered(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path, of: str
) -> None:
    """PostgreSQL writes `jsonb` in an order of its own, so its text is not the one that was delivered."""
    values: list[Any] = [
        (0.1, AT, Decimal("1.500"), b"\xff"), (1e300, None, Decimal("-1.25"), b""), None,
    ] if of.startswith("STRUCT") else [[], [(1,), (None,)], [(2**53 + 1,)], None]  # fmt: skip
    table = "nested_" + of[:5].lower()
    sink, to = hr.PostgresSink(table), delivery(tmp_path, "id", "n")
    rows = made(spark, f"id {of}, n INT", [(value, n) for n, value in enumerate(values)])
    sink.deliver(rows, to)
    assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (len(values),)
    held = sink_identities(spark, sink, to, rows)
    assert sorted(map(str, held.collect())) == sorted(map(str, rows.select("id").collect()))
