"""A writer that is stopped holds its locks; the server ends its session, and the next writer goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pyarrow as pa
import pytest

from headrace.local.postgres import Postgres
from headrace.sinks import postgres_session
from headrace.sinks.postgres_copy import Copier
from headrace.sinks.postgres_session import connect
from tests.sinks.silent import TARGET, taken

pytestmark = [pytest.mark.postgres]

# Of a writer that is stopped, and of one that may wait for a core in silence.
SHORT_S, LONG_S = 5, 10


@contextmanager
def writer(state: str, silence_s: int) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.sinks.silent", state, f"{silence_s}"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        yield process
        process.send_signal(signal.SIGCONT)
        process.kill()


@pytest.mark.parametrize("state", ["staging", pytest.param("copying", marks=pytest.mark.long)])
def test_the_locks_of_a_stopped_writer_go(postgres: Postgres, state: str) -> None:
    with writer(state, SHORT_S) as stopped:
        stopped.send_signal(signal.SIGSTOP)
        with taken(postgres.dsn):  # refused when its locks are there for a minute
            pass
        stopped.send_signal(signal.SIGCONT)


def test_a_reader_may_rest(postgres: Postgres) -> None:
    with connect(postgres.dsn, writes=False) as reader:
        assert reader.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)


def test_an_executor_may_wait_for_its_next_rows_and_its_writer_keeps_the_table_meanwhile(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "SILENT_SECONDS", 5)
    monkeypatch.setattr(postgres_session, "SPEAKS_EVERY_SECONDS", 0.2)

    def rows() -> Iterator[pa.RecordBatch]:
        for number in (1, 2):
            own = {"__sequence": [1], "__place": pa.nulls(1, pa.binary()), "__deleted": [False]}
            yield pa.RecordBatch.from_pydict({"id": [str(number)], **own, "__ordinal": [number]})
            time.sleep(LONG_S / 2 + 1)  # the second wait is for the end

    with writer("staging", LONG_S):
        (outcome,) = Copier(postgres.dsn, TARGET.copy_statement(), "a table", TARGET.copied)(rows())
        with connect(postgres.dsn) as other:
            other.execute("SET lock_timeout = '500ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                TARGET.prepare(other)
    (told,) = outcome.to_pylist()
    assert {name: value for name, value in told.items() if value is not None} == {"staged": 2}


def test_a_server_without_one_of_the_settings_is_written_all_the_same(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"idle_in_transaction_session_timeout": "20s", "timeout_of_another_server": "20s"}
    monkeypatch.setattr(postgres_session, "_silence", lambda: settings)
    with connect(postgres.dsn) as writer:
        writer.rollback()
        assert writer.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("20s",)
