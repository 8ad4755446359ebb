"""What PostgreSQL refuses: the row is set aside, or the node stops, whatever a person's database adds to the question."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from headrace.errors import TerminalError
from headrace.local.postgres import Postgres
from tests.sinks.few_rows import Few, rows_of

pytestmark = [pytest.mark.postgres]

TYPES = {"id": pa.string(), "n": pa.int32()}
TEXTS = {"id": pa.string(), "text": pa.string()}


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "UTF8"])
def test_letters_that_a_database_lacks_are_refused_rows(
    database: psycopg.Connection,
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
) -> None:
    """Before, a text was written in the database's encoding: the node failed for good with a UnicodeEncodeError."""
    name = f"in_{encoding.lower()}"
    database.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    database.execute(f"ALTER DATABASE {name} SET client_encoding = 'LATIN1'")
    dsn = psycopg.conninfo.make_conninfo(postgres.dsn, dbname=name)
    monkeypatch.setenv("HEADRACE_POSTGRES_DSN", dsn)
    few, rows = Few(name, tmp_path, TEXTS), [("a", "plain"), ("b", "Größe"), ("c", "漢")]
    few.put(*rows)
    few.delete(("a",), sequence=2)
    with psycopg.connect(dsn, client_encoding="UTF8") as connection:
        held = connection.execute(f"SELECT id, text FROM {name} ORDER BY id").fetchall()
    refused = few.refused()
    if encoding != "LATIN1":
        assert (held, refused) == (rows[1:], [])
        return
    ((row, reason),) = refused
    assert (held, row) == (rows[1:2], '{"id":"c","text":"漢"}')
    assert "has no equivalent" in reason


def judged(database: psycopg.Connection, table: str, body: str) -> None:
    """Make a table with a trigger that looks at each row."""
    columns = "id text NOT NULL UNIQUE, n int, __sequence bigint, __place bytea"
    database.execute(f"CREATE TABLE {table} ({columns})")
    made = f"CREATE FUNCTION judge_{table}() RETURNS trigger LANGUAGE plpgsql"
    database.execute(f"{made} AS $$ BEGIN {body}; RETURN new; END $$")
    database.execute(
        f"CREATE TRIGGER judge BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION judge_{table}()"
    )


@pytest.mark.parametrize("code", ["UE001", "90001", "42501", "55000"])
def test_a_trigger_may_refuse_a_row_with_any_code(
    database: psycopg.Connection, tmp_path: Path, code: str
) -> None:
    """Before, only the codes that PostgreSQL gives to RAISE itself refused a row; others stopped the node."""
    few = Few(f"raised_{code.lower()}", tmp_path, TYPES)
    judged(database, few.table, f"IF new.n > 9 THEN RAISE 'no credit' USING errcode = '{code}'; END IF")
    few.put(("a", 20))
    few.put(("a", 1), ("b", 30), ("c", 3), sequence=2)
    assert [reason for _, reason in few.refused()] == ["no credit"] * 2
    assert rows_of(database, few.table) == [("a", 1), ("c", 3)]


def test_a_row_that_alone_fails_is_refused_whatever_the_error(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    """Before, an error that is not about data stopped the node, also if one row of many met it."""
    few = Few("sharded", tmp_path, TYPES)
    judged(
        database,
        "sharded",
        "IF new.n > 9 THEN EXECUTE 'INSERT INTO shard_' || new.n || ' VALUES (1)'; END IF",
    )
    few.put(*((str(n), n) for n in range(7, 11)))
    assert few.refused() == [('{"id":"10","n":10}', 'relation "shard_10" does not exist')]
    assert rows_of(database, "sharded") == [("7", 7), ("8", 8), ("9", 9)]


def test_an_error_that_is_about_no_row_and_that_each_row_meets_stops_the_node(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    few = Few("broken", tmp_path, TYPES)
    judged(database, "broken", "INSERT INTO missing VALUES (new.id)")
    for rows in (1, 3, 2_000):
        with pytest.raises(TerminalError, match="cannot do what is asked") as error:
            few.put(*((str(n), n) for n in range(rows)))
        assert error.value.detail == 'relation "missing" does not exist'
    assert few.refused() == []


def test_a_policy_of_the_table_refuses_rows_and_a_missing_right_stops_the_node(
    database: psycopg.Connection, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a row that row-level security refuses stopped the node."""
    database.execute("CREATE ROLE writer LOGIN PASSWORD 'pw'; CREATE SCHEMA app AUTHORIZATION writer")
    columns = "id text NOT NULL UNIQUE, n int, __sequence bigint, __place bytea"
    database.execute(f"CREATE TABLE app.guarded ({columns}); GRANT SELECT ON app.guarded TO writer")
    database.execute("ALTER TABLE app.guarded ENABLE ROW LEVEL SECURITY")
    database.execute("CREATE POLICY p ON app.guarded USING (true) WITH CHECK (n < 10)")
    dsn = psycopg.conninfo.make_conninfo(postgres.dsn, user="writer", password="pw")
    monkeypatch.setenv("HEADRACE_POSTGRES_DSN", dsn)
    few = Few("app.guarded", tmp_path, TYPES)
    with pytest.raises(TerminalError, match="cannot do what is asked") as error:
        few.put(("a", 2), ("b", 30), ("c", 3))
    assert error.value.detail == "permission denied for table guarded"
    database.execute("GRANT ALL ON app.guarded TO writer")
    few.put(("b", 30))
    few.put(("a", 2), ("b", 31), ("c", 3), sequence=2)
    assert [row for row, _ in few.refused()] == ['{"id":"b","n":30}', '{"id":"b","n":31}']
    assert rows_of(database, "app.guarded") == [("a", 2), ("c", 3)]


def test_a_limit_of_the_database_for_statements_does_not_hold_for_deliveries(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    """Before, each delivery that took longer was cancelled, and the node waited for ever."""
    few = Few("slow", tmp_path, TYPES)
    judged(database, "slow", "PERFORM pg_sleep(0.5)")
    database.execute("ALTER DATABASE postgres SET statement_timeout = '200ms'")
    try:
        few.put(("a", 1))
    finally:
        database.execute("ALTER DATABASE postgres RESET statement_timeout")
    assert rows_of(database, "slow") == [("a", 1)]


def test_a_statement_for_which_something_is_not_set_up_is_not_waited_for(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    """Before, the node waited for ever for a database that does not answer."""
    few = Few("unready", tmp_path, TYPES)
    judged(database, "unready", "PERFORM currval('unready_numbers')")
    database.execute("CREATE SEQUENCE unready_numbers")
    with pytest.raises(TerminalError, match="cannot do what is asked") as error:
        few.put(("a", 1))
    assert "not yet defined in this session" in str(error.value.detail)


def test_only_the_newest_row_of_an_identity_is_tried(database: psycopg.Connection, tmp_path: Path) -> None:
    """Before, halving tried older rows: they got into the table, or were refused though a newer one passed."""
    few = Few("newest", tmp_path, TYPES)
    columns = "id text PRIMARY KEY, n int CHECK (n < 10), age int, __sequence bigint, __place bytea"
    database.execute(f"CREATE TABLE newest ({columns})")
    few.put(("a", 1))
    few.put(("a", 2), ("b", 50), ("b", 5), ("z", 77), ("a", 99), sequence=2)
    assert rows_of(database, "newest") == [("a", 1), ("b", 5)]
    assert [row for row, _ in few.refused()] == ['{"id":"z","n":77}', '{"id":"a","n":99}']
