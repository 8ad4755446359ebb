"""The PostgreSQL sink against a real server."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row

import headrace as hr
from headrace.errors import TerminalError, TransientError
from headrace.local.postgres import Postgres
from headrace.sinks import Delivery
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import read
from headrace.testing import SinkKit
from headrace.testing.sinks import place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

OWN = "__deleted BOOLEAN, __timestamp TIMESTAMP, __sequence BIGINT, __place BINARY, __ordinal INT"
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def made(spark: SparkSession, schema: str, rows: list[tuple[Any, ...]], sequence: int = 1) -> DataFrame:
    own = [(*row, False, NOON, sequence, place_of(ordinal), ordinal) for ordinal, row in enumerate(rows)]
    return local_frame(spark, own, f"{schema}, {OWN}")


def delivery(tmp_path: Path, *columns: str, identity: tuple[str, ...] = ("id",)) -> Delivery:
    return Delivery("a_node", identity, identity, columns, f"file:{tmp_path}/refused")


def held(database: psycopg.Connection, table: str) -> list[dict[str, Any]]:
    with database.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT * FROM {table}").fetchall()


@contextmanager
def down(server: Postgres) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start().wait_ready()


def test_it_keeps_the_protocol(spark: SparkSession, postgres: Postgres) -> None:
    def rows() -> list[dict[str, Any]]:
        with psycopg.connect(postgres.dsn) as connection:
            return held(connection, "kit")

    kit = SinkKit(
        spark, hr.PostgresSink("kit"), rows, refused=lambda: "no \0 in text", away=lambda: down(postgres)
    )
    assert "micro_batches_in_another_order_lead_to_the_same" in kit.claims
    assert len(kit.run()) == 15


@pytest.mark.long
def test_it_keeps_the_protocol_for_rows_that_are_only_appended(
    spark: SparkSession, postgres: Postgres
) -> None:
    def rows() -> list[dict[str, Any]]:
        with psycopg.connect(postgres.dsn) as connection:
            return held(connection, "appended_kit")

    assert len(SinkKit(spark, hr.PostgresSink("appended_kit"), rows, appended=True).run()) == 6
    with psycopg.connect(postgres.dsn) as connection:
        remembered = connection.execute("SELECT to_regclass('appended_kit__deleted')").fetchone()
    assert remembered == (None,), "nothing older has the identity of an appended row"


def test_every_type_arrives_as_it_is(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    schema = (
        "id STRING, flag BOOLEAN, tiny TINYINT, small SMALLINT, whole INT, long BIGINT, real FLOAT, double DOUBLE, "
        'exact DECIMAL(38,9), at TIMESTAMP, day DATE, bytes BINARY, `odd "name` STRING, '
        "one STRUCT<a: STRING, at: TIMESTAMP, d: DECIMAL(20,2)>, many ARRAY<STRUCT<a: STRING, n: BIGINT>>, "
        "map MAP<STRING, INT>"
    )
    at = datetime(2024, 5, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    exact = Decimal("-12345678901234567890123456789.123456789")
    full = (
        "a", True, -128, 32_767, -(2**31), 2**63 - 1, 0.5, 0.1, exact, at, date(1969, 12, 31), b"\x00\xff\\", "q",
        {"a": "tab\t\\\"quote", "at": at, "d": Decimal("1.50")}, [{"a": None, "n": 2**53}], [("k", 1)],
    )  # fmt: skip
    nothing = ("b", *[None] * 15)
    special = ("c", *[None] * 5, float("inf"), float("nan"), *[None] * 8)
    frame = made(spark, schema, [full, nothing, special])
    names = tuple(frame.columns[:16])
    hr.PostgresSink("types").deliver(frame, delivery(tmp_path, *names))
    rows = {row.pop("id"): row for row in held(database, "types")}
    assert [rows["a"].pop(name) for name in names[1:13]] == list(full[1:13])
    assert rows["a"]["one"] == {"a": 'tab\t\\"quote', "at": "2024-05-01T12:00:00.123456Z", "d": 1.5}
    assert rows["a"]["many"] == [{"a": None, "n": 2**53}]
    assert rows["a"]["map"] == {"k": 1}
    assert {rows["b"][name] for name in names[1:]} == {None}
    assert rows["c"]["real"] == float("inf")
    assert rows["c"]["double"] != rows["c"]["double"]
    types: dict[str, str] = dict(
        database.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 'types'::regclass AND attnum > 0"
        ).fetchall()
    )
    assert types["exact"] == "numeric(38,9)"
    assert types["at"] == "timestamp with time zone"
    assert types["many"] == types["one"] == types["map"] == "jsonb"


def test_a_row_that_a_constraint_refuses_is_set_aside_and_the_others_pass(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    database.execute(
        "CREATE TABLE ages (id text PRIMARY KEY, age int CHECK (age >= 0), __sequence bigint, __place bytea)"
    )
    rows = [(str(n), -n if n in (17, 400, 401, 999) else n) for n in range(1_000)]
    to = delivery(tmp_path, "id", "age")
    for _ in range(2):
        hr.PostgresSink("ages").deliver(made(spark, "id STRING, age INT", rows).repartition(3), to)
    assert database.execute("SELECT count(*), min(age) FROM ages").fetchone() == (996, 0)
    refused = read(spark, to.refused).orderBy("ordinal").collect()
    assert [(row["identity"], row["row"]) for row in refused] == [
        (f'{{"id":"{n}"}}', f'{{"id":"{n}","age":{-n}}}') for n in (17, 400, 401, 999)
    ]
    assert 'violates check constraint "ages_age_check"' in refused[0]["reason"]


def test_values_too_large_for_the_column_are_refused_while_copying(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    database.execute(
        "CREATE TABLE narrow (id text PRIMARY KEY, s varchar(3), n smallint, __sequence bigint, __place bytea)"
    )
    rows = [("a", "a", 1), ("b", "much too long", 2), ("c", "c", 70_000), ("d", "d", 3)]
    to = delivery(tmp_path, "id", "s", "n")
    hr.PostgresSink("narrow").deliver(made(spark, "id STRING, s STRING, n BIGINT", rows), to)
    assert database.execute("SELECT id, n FROM narrow ORDER BY id").fetchall() == [("a", 1), ("d", 3)]
    reasons = [row["reason"] for row in read(spark, to.refused).orderBy("ordinal").collect()]
    assert "too long for type character varying(3)" in reasons[0]
    assert "out of range" in reasons[1]


def test_a_deferred_constraint_is_judged_row_by_row_too(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE parents (id text PRIMARY KEY)")
    database.execute("INSERT INTO parents VALUES ('known')")
    database.execute(
        "CREATE TABLE children (id text PRIMARY KEY, parent text REFERENCES parents DEFERRABLE INITIALLY DEFERRED, "
        "__sequence bigint, __place bytea)"
    )
    to = delivery(tmp_path, "id", "parent")
    rows = [("1", "known"), ("2", "unknown"), ("3", None)]
    hr.PostgresSink("children").deliver(made(spark, "id STRING, parent STRING", rows), to)
    assert database.execute("SELECT id FROM children ORDER BY id").fetchall() == [("1",), ("3",)]
    assert read(spark, to.refused).count() == 1


def test_when_nearly_all_is_refused_the_table_is_wrong_and_nothing_is_committed(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("refusals", "postgres_halving"):
        monkeypatch.setattr(f"headrace.sinks.{module}.REFUSED_MAX", 5)
    database.execute(
        "CREATE TABLE never (id text PRIMARY KEY CHECK (id = ''), __sequence bigint, __place bytea)"
    )
    rows = made(spark, "id STRING", [(str(n),) for n in range(100)])
    with pytest.raises(TerminalError, match="refuses more than 5 rows"):
        hr.PostgresSink("never").deliver(rows, delivery(tmp_path, "id"))


def test_a_table_without_our_columns_or_key_is_refused_with_the_fix(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    rows, to = made(spark, "id STRING, n INT", [("a", 1)]), delivery(tmp_path, "id", "n")
    database.execute('CREATE TABLE "Ours" (id text)')
    for statement in (
        r'ALTER TABLE "Ours" ADD COLUMN "n" integer, ADD COLUMN "__sequence" bigint, ADD COLUMN "__place" bytea',
        r'ALTER TABLE "Ours" ADD UNIQUE NULLS NOT DISTINCT ("id")',
    ):
        with pytest.raises(TerminalError) as error:
            hr.PostgresSink("Ours").deliver(rows, to)
        assert error.value.hint == statement
        database.execute(statement)
    hr.PostgresSink("Ours").deliver(rows, to)
    assert database.execute('SELECT id, n FROM "Ours"').fetchall() == [("a", 1)]


def test_a_table_in_a_schema_of_its_own(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    database.execute("CREATE SCHEMA shop")
    hr.PostgresSink("shop.orders").deliver(made(spark, "id STRING", [("a",)]), delivery(tmp_path, "id"))
    assert database.execute("SELECT id FROM shop.orders").fetchall() == [("a",)]
    named = database.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'shop'").fetchone()
    assert named == (2,)  # staging beside it


def test_the_connection_string_is_shown_nowhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, to = made(spark, "id STRING", [("a",)]), delivery(tmp_path, "id")
    sink = hr.PostgresSink("t", dsn="STORE")
    monkeypatch.delenv("STORE", raising=False)
    with pytest.raises(TerminalError, match="STORE is not set"):
        sink.deliver(rows, to)
    for dsn, kind in (
        ("postgresql://me:s3cret@127.0.0.1:1/db", TransientError),
        ("postgres//me:s3cret@nowhere", TerminalError),
        ("host=127.0.0.1 port=1 password=s3cret nonsense", TerminalError),
    ):
        monkeypatch.setenv("STORE", dsn)
        with pytest.raises(kind) as error:
            sink.deliver(rows, to)
        assert "s3cret" not in f"{error.value!r} {error.value} {error.value.__cause__!r} {sink!r}"


def test_a_server_killed_in_the_middle_of_a_delivery_holds_all_or_nothing_of_it(
    spark: SparkSession, postgres: Postgres, tmp_path: Path
) -> None:
    """Killed after ever longer times: while copying, while merging, after it."""
    to, sink = delivery(tmp_path, "id", "n"), hr.PostgresSink("killed")
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE killed (id bigint PRIMARY KEY, n bigint, __sequence bigint, __place bytea)"
        )
    lost = 0
    for number, delay in enumerate((0.3, 1.0), start=1):
        rows = spark.range(100_000).selectExpr(
            "id", f"{number} AS n", "false AS __deleted", "timestamp_millis(0) AS __timestamp",
            f"{number}L AS __sequence", "unhex(lpad(hex(id), 16, 0)) AS __place",
            "int(id) AS __ordinal",
        )  # fmt: skip
        killer = threading.Timer(delay, postgres.kill)
        killer.start()
        try:
            sink.deliver(rows, to)
        except TransientError:
            lost += 1
        killer.join()
        postgres.start().wait_ready()
        with psycopg.connect(postgres.dsn) as connection:
            found = connection.execute("SELECT n, count(*) FROM killed GROUP BY n").fetchall()
        assert found in ([], [(number - 1, 100_000)], [(number, 100_000)])
        sink.deliver(rows, to)
        with psycopg.connect(postgres.dsn) as connection:
            assert connection.execute("SELECT n, count(*) FROM killed GROUP BY n").fetchall() == [
                (number, 100_000)
            ]
    assert lost


def test_a_server_that_hangs_is_waited_for(spark: SparkSession, postgres: Postgres, tmp_path: Path) -> None:
    sink, to = hr.PostgresSink("hung"), delivery(tmp_path, "id")
    sink.deliver(made(spark, "id STRING", [("a",)]), to)
    assert postgres.pid is not None
    os.kill(postgres.pid, signal.SIGSTOP)  # takes no new connections
    waker = threading.Timer(3, os.kill, (postgres.pid, signal.SIGCONT))
    begun = time.monotonic()
    waker.start()
    sink.deliver(made(spark, "id STRING", [("b",)], 2), to)
    assert time.monotonic() - begun > 2
    waker.join()
    with psycopg.connect(postgres.dsn) as connection:
        assert connection.execute("SELECT id FROM hung ORDER BY id").fetchall() == [("a",), ("b",)]


def test_two_deliveries_of_a_node_at_a_time_wait_for_each_other(
    spark: SparkSession, postgres: Postgres, tmp_path: Path
) -> None:
    sink, to = hr.PostgresSink("shared"), delivery(tmp_path, "id")
    frames = [
        spark.range(first, first + 30_000).selectExpr(
            "id", "false AS __deleted", "timestamp_millis(0) AS __timestamp", f"{first}L AS __sequence",
            "unhex(lpad(hex(id), 16, 0)) AS __place", "int(id) AS __ordinal",
        )
        for first in (0, 30_000)
    ]  # fmt: skip
    threads = [threading.Thread(target=sink.deliver, args=(frame, to)) for frame in frames]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with psycopg.connect(postgres.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM shared").fetchone() == (60_000,)


def test_it_says_what_the_table_holds_and_what_it_has_refused(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    sink, to = hr.PostgresSink("told"), delivery(tmp_path, "id", "at", "x", identity=("id", "at"))
    assert sink.identities(spark, to).collect() == []
    at = datetime(2024, 5, 1, 12, 0, 0, 123_456)
    rows = [("a", at, "1"), ("b", at, "no \0"), ("c", at, "3")]
    sink.deliver(made(spark, "id STRING, at TIMESTAMP, x STRING", rows), to)
    assert sorted(tuple(row) for row in sink.identities(spark, to).collect()) == [
        (name, at) for name in "abc"
    ]
    database.execute("DELETE FROM told WHERE id = 'c'")
    assert sorted(row["id"] for row in sink.identities(spark, to).collect()) == ["a", "b"]


def test_a_server_that_lost_its_staged_rows_is_noticed(
    spark: SparkSession, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unlogged table is empty after a crash; behind a pooler the session may not even notice."""
    from headrace.sinks import postgres_merge

    def emptied(connection: psycopg.Connection, target: Any, *, staged: int, through: int | None) -> Any:
        connection.execute(target.fill("TRUNCATE {staging}"))
        connection.commit()
        return original(connection, target, staged=staged, through=through)

    original = postgres_merge.merge
    monkeypatch.setattr(postgres_merge, "merge", emptied)
    with pytest.raises(TransientError, match="lost staged rows"):
        hr.PostgresSink("emptied").deliver(made(spark, "id STRING", [("a",)]), delivery(tmp_path, "id"))
