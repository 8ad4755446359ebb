"""The work of executors for the PostgreSQL sink: they copy one task's rows into the staging table.

The lines of COPY's text format are composed in the JVM; Python only passes them on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import quote
from headrace.sinks.postgres_session import (
    ROWS_SECONDS_MAX,
    connect,
    explained,
    kept_open,
    reason_of,
    refuses,
)
from headrace.sinks.producing import Outcome, outcomes_batch
from headrace.sinks.refusals import REFUSED_MAX
from headrace.spark.rows.json_rows import JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

Line = tuple[str, int, int]  # the line, its sequence and its ordinal
SPECIAL = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
_OWN = ("__sequence", "__place", "__deleted", "__ordinal")


def lines_of(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Each row as a line of COPY's text format, with its sequence and ordinal."""
    names = (*columns, *_OWN)
    fields = [
        F.coalesce(_escaped(F.col(quote(name)), rows.schema[name].dataType), F.lit(r"\N")) for name in names
    ]
    return rows.select(F.concat_ws("\t", *fields).alias("line"), "__sequence", "__ordinal")


def _escaped(value: Column, data_type: T.DataType) -> Column:
    match data_type:
        case T.BinaryType():
            return F.concat(F.lit(r"\\x"), F.hex(value))
        case T.StructType() | T.ArrayType() | T.MapType():
            text = F.to_json(value, JSON)
        case T.StringType():
            text = value
        case T.TimestampType():
            return F.concat(value.cast("timestamp_ntz").cast("string"), F.lit("+00"))
        case _:
            return value.cast("string")
    for special, written in SPECIAL.items():
        text = F.replace(text, F.lit(special), F.lit(written))
    return text


def copier(
    dsn: str, statement: str, store: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: lines in, outcomes out (see `refusals.OUTCOMES`).

    Law: a task's rows are staged all together or, when the database is lost on the way, not at all.
    """

    def copy(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield outcomes_batch(list(_copied(dsn, statement, store, batches)))

    return copy


def _copied(dsn: str, statement: str, store: str, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcome]:
    connection: psycopg.Connection | None = None
    refused: list[Outcome] = []
    count, coming = 0, iter(batches)
    try:
        while (batch := _next(coming, connection)) is not None:
            if not batch.num_rows:
                continue
            connection = connection or connect(dsn)
            lines = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            _copy_lines(connection, statement, lines, refused)
            count += len(lines)
        if connection is not None:
            connection.commit()
    except psycopg.Error as error:
        yield None, None, None, str(explained(error, store)), None
        return
    finally:
        if connection is not None:
            connection.close()
    yield from refused
    yield None, None, None, None, count - len(refused)


def _next(batches: Iterator[pa.RecordBatch], connection: psycopg.Connection | None) -> pa.RecordBatch | None:
    """The next batch; None: there is none. Spark may take long to compute it, with the transaction open."""
    if connection is None:
        return next(batches, None)
    with kept_open(connection, ROWS_SECONDS_MAX):
        return next(batches, None)


def _copy_lines(
    connection: psycopg.Connection, statement: str, lines: list[Line], refused: list[Outcome]
) -> None:
    """Copy the lines under a savepoint; when the database refuses one, halve them until it stands alone."""
    try:
        with connection.transaction(), connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write("\n".join(line for line, _, _ in lines) + "\n")
    except psycopg.Error as error:
        if not refuses(error) or connection.closed:
            raise
        if len(lines) == 1:
            refused.append((*lines[0][1:], reason_of(error), None, None))
        elif len(refused) <= REFUSED_MAX:
            half = len(lines) // 2
            _copy_lines(connection, statement, lines[:half], refused)
            _copy_lines(connection, statement, lines[half:], refused)
