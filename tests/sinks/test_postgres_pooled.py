"""A pooler that gives each transaction another session of the server is refused, before a lock is taken in one."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.local.postgres import Postgres
from headrace.preflight.databases import check_databases
from headrace.sinks.postgres_session import SharedSessionError, connect, require_own_session, session
from tests.sinks.pooler import Pooler

pytestmark = [pytest.mark.postgres]


def through(pooler: Pooler, postgres: Postgres) -> str:
    return psycopg.conninfo.make_conninfo(postgres.dsn, port=pooler.port)


def test_a_delivery_through_a_pooler_of_transactions_is_refused(postgres: Postgres) -> None:
    with Pooler(postgres.port) as pooler:
        dsn = through(pooler, postgres)
        with pytest.raises(TerminalError) as told, session(dsn, "PostgreSQL's table 't'"):
            pytest.fail("the delivery has begun")
    assert "a connection pooler gives each transaction another session of the server" in str(told.value)
    assert "session mode" in str(told.value.hint)


def test_an_executor_that_gets_the_session_of_the_delivery_is_refused(postgres: Postgres) -> None:
    with Pooler(postgres.port) as pooler:
        dsn = through(pooler, postgres)
        with connect(dsn) as connection:
            with pytest.raises(SharedSessionError):
                connect(dsn)
            connection.rollback()
            limit = connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()
    assert limit == ("0",)  # others are given the session as it was


def test_a_session_of_ones_own_is_not_refused(postgres: Postgres) -> None:
    for _ in range(2):
        with connect(postgres.dsn) as connection:
            require_own_session(postgres.dsn, connection)
            assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)
            assert connection.execute("SHOW lock_timeout").fetchone() == ("1min",)


def test_the_check_of_an_installation_refuses_the_pooler(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DAGSTER_POSTGRES_URL", raising=False)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("SHOP_DSN", postgres.dsn)
    totals = hr.Topic("t", key="id STRING", value="n INT").group_by("id").aggregate(n=hr.count())
    node = totals.to(hr.PostgresSink("totals", dsn="SHOP_DSN")).named("totals")
    _, well = check_databases([node])
    assert (well.what, well.ok) == ("PostgreSQL of sinks, by SHOP_DSN", True)
    with Pooler(postgres.port) as pooler:
        monkeypatch.setenv("SHOP_DSN", through(pooler, postgres))
        _, found = check_databases([node])
    assert "a connection pooler gives each transaction another session" in found.result
