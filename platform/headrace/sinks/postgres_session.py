"""Connections to PostgreSQL, and what its errors mean: the store is away, it refuses a row, or it is set up wrongly."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from headrace.errors import TerminalError
from headrace.sinks.refusals import SinkAwayError

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECT_SECONDS = 5
LOCK_WAIT = "60s"  # for what a task of a killed process may still hold
# By class of SQLSTATE: data exceptions, violated constraints, raised by a trigger, a view's check, too large for an index.
REFUSING = ("22", "23", "P0", "44", "54")
PASSING = (
    "08",
    "25",
    "40",
    "53",
    "55",
    "57",
    "58",
)  # connection, transaction, resources, locks, shutdown, disk


@retry(
    retry=retry_if_exception_type(psycopg.OperationalError),
    stop=stop_after_attempt(4),
    wait=wait_exponential_jitter(multiplier=0.2, max=3),
    reraise=True,
)
def connect(dsn: str) -> psycopg.Connection:
    """Connect, four times at most and with back-off.

    Raises: psycopg.OperationalError when the server is away; psycopg.ProgrammingError for no connection string.
    """
    return psycopg.connect(
        dsn,
        connect_timeout=CONNECT_SECONDS,
        application_name="headrace",
        options=f"-c TimeZone=UTC -c lock_timeout={LOCK_WAIT}",
    )


@contextmanager
def session(dsn: str, store: str) -> Iterator[psycopg.Connection]:
    """A connection, closed at the end, whose errors are ours.

    Raises: SinkAwayError when a later attempt may help, else TerminalError; neither shows the connection string.
    """
    try:
        with connect(dsn) as connection:
            yield connection
    except psycopg.Error as error:
        raise explained(error, store) from None


def refuses(error: psycopg.Error) -> bool:
    """Whether the database refuses a row, whatever else is well."""
    return (error.sqlstate or "").startswith(REFUSING)


def reason_of(error: psycopg.Error) -> str:
    """The words of the database about a row, in one or two lines."""
    said = error.diag.message_primary or str(error).partition("\n")[0]
    return f"{said} ({error.diag.message_detail})" if error.diag.message_detail else said


def explained(error: psycopg.Error, store: str) -> SinkAwayError | TerminalError:
    """The error in our words; of its text only what the server or the network said."""
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        return TerminalError(  # its text repeats the connection string
            f"{store}: the connection string cannot be read.",
            hint="Write postgresql://user:password@host:5432/database.",
        )
    if isinstance(error, psycopg.OperationalError) or (error.sqlstate or "").startswith(PASSING):
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
