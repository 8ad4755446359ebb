"""What PostgreSQL refuses: the row is set aside, or the node stops, whatever a person's database adds to the question."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from headrace.local.postgres import Postgres
from tests.sinks.few_rows import Few

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
