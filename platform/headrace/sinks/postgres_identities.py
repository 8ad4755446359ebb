"""The rows of a node that a PostgreSQL table holds, for checks and for giving a sink only what it lacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.rows import dict_row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from headrace import lake as lakes
from headrace.errors import TransientError
from headrace.sinks.postgres_session import connect, explained, session
from headrace.sinks.postgres_tables import columns_of
from headrace.spark.lake_rows import read
from headrace.spark.rows.same_rows import rows_not_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description.sink import Delivery

FETCHED_ROWS = 10_000
_TYPES = {
    "boolean": "BOOLEAN",
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "date": "DATE",
    "timestamp with time zone": "TIMESTAMP",
    "timestamp without time zone": "TIMESTAMP_NTZ",
    "bytea": "BINARY",
}
# Times as numbers: Python has none before the year 1 or after 9999.
_MICROS = (
    "extract(epoch FROM date_trunc('minute', {0}))::bigint * 1000000 + extract(microseconds FROM {0})::bigint"
)
_AS_NUMBERS = {"DATE": "{0} - DATE '1970-01-01'", "TIMESTAMP": _MICROS, "TIMESTAMP_NTZ": _MICROS}


def identities_in_table(spark: SparkSession, dsn: str, table: str, delivery: Delivery) -> DataFrame:
    """The identities in the table, one row for each, and those of rows that it has refused.

    Out: streamed by one executor task, whatever the table's size, with its types; when there is no table yet, what was
         refused, as texts
    """
    store = f"PostgreSQL's table '{table}'"
    name = sql.Identifier(*table.split("."))
    with session(dsn, store) as connection:
        found = columns_of(connection, name)
    fields = [
        T.StructField(column, _spark_type(found.get(column, "text")), True) for column in delivery.identity
    ]
    schema = T.StructType(fields)
    query = query_of(name, {column: found.get(column) for column in delivery.identity})
    if found:
        held = spark.range(1, numPartitions=1).mapInArrow(_reader(dsn, query, schema, store), schema)
    else:
        held = spark.createDataFrame([], schema)
    if not lakes.exists(delivery.refused):
        return held
    refused = read(spark, delivery.refused).select(F.from_json("identity", schema).alias("row"))
    return held.unionByName(rows_not_of(refused.select("row.*").distinct(), held, delivery.identity))


def query_of(name: sql.Composable, types: Mapping[str, str | None]) -> str:
    """The query that reads columns; those of types that Spark lacks, such as `uuid` and `jsonb`, as PostgreSQL writes them.

    Times are whole numbers, as Arrow has them.

    In: types  by column, as PostgreSQL names them; None: the table lacks the column, so it is null
    """
    columns = sql.SQL(", ").join(_selected(column, of) for column, of in types.items())
    return sql.SQL("SELECT {} FROM {}").format(columns, name).as_string(None)


def _spark_type(postgres: str) -> T.DataType:
    return T.DataType.fromDDL(_known(postgres) or "STRING")


def _known(postgres: str) -> str | None:
    decimal = re.fullmatch(r"numeric\((\d+),(\d+)\)", postgres)
    return f"DECIMAL({decimal[1]},{decimal[2]})" if decimal else _TYPES.get(postgres)


def _selected(column: str, postgres: str | None) -> sql.Composable:
    name = sql.Identifier(column)
    if postgres is None:
        return sql.SQL("NULL::text AS {}").format(name)
    of = _known(postgres)
    written = "{0}::text" if of is None else _AS_NUMBERS.get(of, "{0}")
    return sql.SQL(f"{written} AS {{0}}").format(name)


def _reader(
    dsn: str, query: str, schema: T.StructType, store: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    arrow = to_arrow_schema(schema)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        try:
            with (
                connect(dsn, writes=False) as connection,
                connection.cursor("held", row_factory=dict_row) as cursor,
            ):
                cursor.execute(query)
                while rows := cursor.fetchmany(FETCHED_ROWS):
                    yield pa.RecordBatch.from_pylist(rows, schema=arrow)
        except psycopg.Error as error:
            raise TransientError(str(explained(error, store))) from None

    return read
