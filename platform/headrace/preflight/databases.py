"""PostgreSQL: Dagster's own database, and that of sinks."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from headrace.errors import TerminalError, TransientError
from headrace.preflight.finding import Finding, tried
from headrace.settings.secret_urls import require_escaped
from headrace.sinks.postgres import DSN_VARIABLE, PostgresSink
from headrace.sinks.postgres_session import SharedSessionError, connect, explained, require_own_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.description import Node

DAGSTER, HOME = "DAGSTER_POSTGRES_URL", "DAGSTER_HOME"
SECONDS = 5


def check_databases(nodes: Sequence[Node]) -> Iterator[Finding]:
    """Connect to each database that the environment or a sink names; what is not named is not tried."""
    if os.environ.get(DAGSTER):
        yield tried("Dagster's database", lambda: _connect(os.environ[DAGSTER], DAGSTER))
    elif os.environ.get(HOME):
        yield tried("Dagster's database", _home)
    for variable in sorted({s.dsn for node in nodes for s in node.sinks if isinstance(s, PostgresSink)}):
        what = "PostgreSQL of sinks" + ("" if variable == DSN_VARIABLE else f", by {variable}")
        yield tried(what, partial(_connect, os.environ.get(variable, ""), variable, of_sinks=True))


def _home() -> str:
    home = os.environ[HOME]
    if not Path(home).is_dir():
        raise TerminalError(
            f"{HOME} is '{home}', which is no folder.", hint="Make it, or correct the variable."
        )
    if not (Path(home) / "dagster.yaml").is_file():
        return f"in files below {home}, without a dagster.yaml"
    return f"as {home}/dagster.yaml says"


def _connect(dsn: str, variable: str, *, of_sinks: bool = False) -> str:
    """The errors of PostgreSQL name host and user, and never the password, if that does not reach into the host.

    In:  of_sinks  whether sinks write there, which need sessions of their own
    """
    if not dsn:
        raise TerminalError(
            f"{variable} is not set.", hint="Set it to postgresql://user:password@host:5432/database."
        )
    require_escaped(dsn, variable)
    try:
        with psycopg.connect(dsn, connect_timeout=SECONDS) as connection:
            version = connection.info.server_version
        if of_sinks:
            with connect(dsn) as connection:
                require_own_session(dsn, connection)
    except SharedSessionError as error:
        raise explained(error, variable) from None
    except psycopg.ProgrammingError:
        raise TerminalError(
            f"{variable} is no connection string of PostgreSQL.",
            hint="Write postgresql://user:password@host:5432/database; escape what a URL cannot hold.",
        ) from None
    except psycopg.OperationalError as error:
        lines = str(error).strip().splitlines()
        raise TransientError(
            "PostgreSQL does not let this client in.",
            detail=lines[0] if lines else None,
            hint=f"Start the server, or correct {variable}.",
        ) from None
    return f"PostgreSQL {version // 10_000} answers"
