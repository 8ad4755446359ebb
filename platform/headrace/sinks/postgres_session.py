"""Connections to PostgreSQL, and what its errors mean: the store is away, it refuses a row, or it is set up wrongly.

A process that is stopped, or a machine that freezes, holds its locks for as long as its connection lives. So the server ends
a session from which it hears nothing for `SILENT_SECONDS`. A process that waits for its executors, or for its next rows,
speaks up meanwhile.

Settings and locks belong to a session. A connection pooler that gives each transaction another session of the server is
refused: its locks would keep nobody out, and nobody would release them.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from headrace.errors import TerminalError
from headrace.settings.secret_urls import require_escaped
from headrace.sinks.refusals import SinkAwayError

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECT_SECONDS = 5
LOCK_WAIT = "60s"  # for what a task of a killed process may still hold; longer than such a session lasts
SILENT_SECONDS = 20
SPEAKS_EVERY_SECONDS = 4.0
ROWS_SECONDS_MAX = (
    120.0  # for an executor's next rows: longer ones are taken for those of a JVM that is stopped
)
OWNER = (
    "headrace.session"  # the setting by which a session of the server is known to belong to one connection
)
# Connection, transaction, resources, locks, shutdown, disk.
PASSING = ("08", "25", "40", "53", "55", "57", "58")
NOT_SET_UP = "55000"  # what a statement needs; it stays so
# Passing ones, and those of statements, rights, roles, missing tables and the server itself. The others are about a row:
# data exceptions, violated constraints, a row too large for an index, and the codes that people give to triggers' errors.
OF_NO_ROW = (
    *PASSING,
    "0",
    "24",
    "26",
    "28",
    "2B",
    "2D",
    "34",
    "39",
    "3B",
    "3D",
    "3F",
    "42",
    "72",
    "F0",
    "HV",
    "XX",
)
# Functions of the server's source that judge a row, by any code: a table's policies and a view's check, RAISE in PL/pgSQL.
JUDGES = ("ExecWithCheckOptions", "exec_stmt_raise")


@retry(
    retry=retry_if_exception_type(psycopg.OperationalError),
    stop=stop_after_attempt(4),
    wait=wait_exponential_jitter(multiplier=0.2, max=3),
    reraise=True,
)
def connect(dsn: str, *, writes: bool = True) -> psycopg.Connection:
    """Connect to a session of one's own, four times at most and with back-off.

    In:     writes  whether the session takes locks that keep other writers out: the server ends it when it is silent for
                    `SILENT_SECONDS`. One that only reads may rest for as long as its reader likes.
    Raises: psycopg.OperationalError when the server is away; psycopg.ProgrammingError for no connection string;
            SharedSessionError; as `require_escaped`
    """
    require_escaped(dsn, "The connection string of PostgreSQL")
    # The database may keep texts in another encoding, and then refuses a letter that it lacks.
    connection = psycopg.connect(
        dsn, connect_timeout=CONNECT_SECONDS, application_name="headrace", client_encoding="UTF8"
    )
    try:
        _set_up(connection, _SETTINGS | (_silence() if writes else {}))
    except BaseException:
        connection.close()
        raise
    return connection


class SharedSessionError(psycopg.NotSupportedError):
    """A pooler gives several connections the same session of the server."""


def _set_up(connection: psycopg.Connection, settings: dict[str, str]) -> None:
    """Make settings of the session; its server may lack some. Poolers refuse most that come with the connection itself."""
    with connection.transaction():
        found = connection.execute("SELECT current_setting(%s, true)", [OWNER]).fetchone()
        is_owned = bool(found and found[0])
        if is_owned:
            connection.execute("RESET ALL")  # the pooler gives the session to other connections, too
        else:
            connection.execute("SELECT set_config(%s, 'headrace', false)", [OWNER])
            connection.execute(
                "SELECT set_config(name, %s::jsonb ->> name, false) FROM pg_settings WHERE name = ANY(%s)",
                [json.dumps(settings), [*settings]],
            )
    if is_owned:
        raise SharedSessionError(f"the session has the setting {OWNER} of another connection")


# A limit that a database or a role has for its statements would end each try of a large delivery.
_SETTINGS = {
    "TimeZone": "UTC",
    "lock_timeout": LOCK_WAIT,
    "statement_timeout": "0",
    "transaction_timeout": "0",
}


def _silence() -> dict[str, str]:
    """Say by which settings the server ends a silent session: of a stopped process, or of a machine that is gone."""
    return {
        "idle_session_timeout": f"{SILENT_SECONDS}s",
        "idle_in_transaction_session_timeout": f"{SILENT_SECONDS}s",
        "tcp_user_timeout": f"{SILENT_SECONDS}s",
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "2",
    }


def require_own_session(dsn: str, connection: psycopg.Connection) -> None:
    """Raise SharedSessionError if a pooler gives the connection's session to others.

    A pooler shows itself by the number of the server's process: it does not pass it on. It has then handed the session to
    the next connection, if it does so after each transaction.
    """
    with connection.transaction():
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
    if row != (connection.info.backend_pid,):
        connect(dsn, writes=False).close()


@contextmanager
def session(dsn: str, store: str) -> Iterator[psycopg.Connection]:
    """A connection, closed at the end, whose errors are ours.

    Raises: SinkAwayError when a later attempt may help, else TerminalError; neither shows the connection string.
    """
    try:
        with connect(dsn) as connection:
            require_own_session(dsn, connection)
            yield connection
    except psycopg.Error as error:
        raise explained(error, store) from None


@contextmanager
def kept_open(connection: psycopg.Connection, seconds: float | None = None) -> Iterator[None]:
    """Let the server hear from a session while its process waits for others.

    In:  seconds  for so long at most; None: for as long as it waits
    Law: within, nobody else uses the connection. A transaction that is open stays open.
    """
    over = threading.Event()
    until = time.monotonic() + (seconds or float("inf"))

    def speak() -> None:
        with suppress(psycopg.Error):  # who uses the connection next is told
            while not over.wait(SPEAKS_EVERY_SECONDS) and time.monotonic() < until:
                with connection.transaction():
                    connection.execute("SELECT 1")

    speaker = threading.Thread(target=speak, name="headrace-postgres", daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()


def is_passing(error: psycopg.Error) -> bool:
    """Whether a later attempt may not meet the error."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(PASSING) and error.sqlstate != NOT_SET_UP


def is_of_a_row(error: psycopg.Error) -> bool:
    """Whether the database refuses a row, whatever else is well."""
    if error.diag.source_function in JUDGES:
        return True
    return error.sqlstate is not None and not error.sqlstate.startswith(OF_NO_ROW)


def reason_of(error: psycopg.Error) -> str:
    """The words of the database about a row, in one or two lines."""
    said = error.diag.message_primary or str(error).partition("\n")[0]
    return f"{said} ({error.diag.message_detail})" if error.diag.message_detail else said


def explained(error: psycopg.Error, store: str) -> SinkAwayError | TerminalError:
    """The error in our words; of its text only what the server or the network said."""
    if isinstance(error, SharedSessionError):
        return TerminalError(
            f"{store}: a connection pooler gives each transaction another session of the server.",
            detail="A delivery needs its own: it holds a lock in it, and settings.",
            hint="Put the pool into session mode (PgBouncer: pool_mode = session), or give the server's own address.",
        )
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        return TerminalError(  # its text repeats the connection string
            f"{store}: the connection string cannot be read.",
            hint="Write postgresql://user:password@host:5432/database.",
        )
    if is_passing(error):
        return SinkAwayError(
            f"{store}: the database does not answer.",
            detail=reason_of(error),
            hint="Start it or correct the connection string; the stream waits and delivers again by itself.",
        )
    return TerminalError(
        f"{store}: the database cannot do what is asked.",
        detail=reason_of(error),
        hint="Correct the table or the user's rights, then start the stream again; nothing is lost.",
    )
