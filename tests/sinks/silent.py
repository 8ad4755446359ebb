"""A writer of a PostgreSQL table that goes silent: it takes the table, says so, and waits for its executors for ever.

python -m tests.sinks.silent staging|copying SECONDS   (the connection string in HEADRACE_POSTGRES_DSN)
"""

from __future__ import annotations

import os
import sys
import time

import psycopg
from pyspark.sql import types as T

from headrace.description.sink import Delivery
from headrace.sinks import postgres_session
from headrace.sinks.postgres_session import connect, kept_open
from headrace.sinks.postgres_tables import Target

TARGET = Target.of(
    "silent",
    Delivery("a_node", ("id",), ("id",), ("id",), "file:/nowhere"),
    T.StructType([T.StructField("id", T.LongType())]),
)


def taken(dsn: str) -> psycopg.Connection:
    """A session that has the table, as a delivery has it while executors copy."""
    connection = connect(dsn)
    TARGET.prepare(connection)
    connection.commit()
    return connection


def main() -> None:
    """Take the table, and wait. The server ends a session that is silent for so many seconds."""
    postgres_session.SILENT_SECONDS, postgres_session.SPEAKS_EVERY_SECONDS = int(sys.argv[2]), 0.5
    dsn = os.environ["HEADRACE_POSTGRES_DSN"]
    connection = taken(dsn)
    if sys.argv[1] == "copying":  # an executor's part is copied, and not committed
        copying = connect(dsn)
        with copying.cursor() as cursor, cursor.copy(TARGET.copy_statement()) as copy:
            copy.write("1\t1\t\\N\tf\t1\n")
    with kept_open(connection):
        print("taken", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main()
