"""The servers that these tests share: the broker with those of other folders, a PostgreSQL of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.local.postgres import Postgres
from tests.broker.harness import kafka, lake, new_topic

__all__ = ["kafka", "lake", "new_topic"]


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """One PostgreSQL server for the session, in a folder that it may enter also when root runs the tests."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
    folder.chmod(0o755)
    with Postgres(folder / "data") as running:
        yield running
    shutil.rmtree(folder)


@pytest.fixture
def postgres(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Postgres:
    """The server, running, and its connection string in the environment."""
    server.start().wait_ready()
    monkeypatch.setenv("HEADRACE_POSTGRES_DSN", server.dsn)
    return server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[psycopg.Connection]:
    """A connection that commits each statement."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        yield connection
