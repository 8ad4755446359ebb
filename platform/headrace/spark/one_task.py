"""The work of one task with Arrow: rows of a frame come to it in batches; it writes files of tables, and reports.

Nobody sees the content of the files before a commit names them (`headrace.lake.commits.writer`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.util import PythonEvalType

from headrace.description import quote
from headrace.lake.files.data_file import DataFileWriter, Encoding, leaves
from headrace.spark.workers import in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession


# Of Parquet: two million narrow records, a GiB in a Python worker. Spark groups more than that.
ONE_TASK_BYTES = 32 << 20
REPORT = "report STRING"
ARROW = "spark.sql.execution.arrow"
TASK_ROWS = 500
BATCH_BYTES, UNCOUNTED = 64 << 20, 2**31 - 1
# In nearly each row another value: a dictionary of them is nothing but work.
DIFFERENT = {"__timestamp", "__event_ms", "__stream_ms", "__offset", "__chain"}


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """The schema as Arrow's, in tasks and in tables.

    Law: everything in it may be null, also what a description declares as NOT NULL. That is a claim about records that were
    decoded; ticks, tombstones, dead letters and the rows of other feeds have no value at all.
    """
    return to_arrow_schema(schema.toNullable(), timestamp_utc=True)


def spark_schema(schema: pa.Schema) -> T.StructType:
    """The schema as Spark's. Law: `arrow_schema` of it is the schema again; a TIMESTAMP_NTZ stays one."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


@lru_cache(maxsize=1024)
def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema as tables have it: null at every level, and times in UTC. Nodes are opened with the same ones again."""
    return arrow_schema(spark_schema(schema))


@dataclass(frozen=True)
class Target:
    """A table to which a task adds a file.

    folder  its URI
    """

    folder: str
    schema: pa.Schema

    def write(self, tables: Iterable[pa.Table], **same: pa.Scalar) -> dict[str, Any] | None:
        """Write rows to a file of their own; what `NewFile` says of it, None if there are no rows.

        In: tables  with any of the table's columns; others are passed over
            same    values of columns that are the same in all rows
        """
        file = DataFileWriter(self.folder, self.schema, self._encoding)
        try:
            for rows in tables:
                if rows.num_rows:
                    columns = dict(zip(rows.column_names, rows.columns, strict=True))
                    columns |= {name: pa.repeat(value, rows.num_rows) for name, value in same.items()}
                    there = (field for field in self.schema if field.name in columns)
                    columns = {field.name: columns[field.name].cast(field.type) for field in there}
                    file.write(columns, rows.num_rows)
                    file.bound_numbers(columns)
        except BaseException:
            file.remove()
            raise
        return file.close()

    @property
    def _encoding(self) -> Encoding:
        different = (path for path in leaves(self.schema) if path.rpartition(".")[2] in DIFFERENT)
        return Encoding(different=frozenset(different))


def batches_of(rows: int, *, by_bytes: bool) -> dict[str, str]:
    """Spark's settings by which rows go to Python in batches of so many.

    To end a batch by its bytes Spark counts these after each row, a sixth to a half of the time of a task. A few hundred
    records are not many bytes, and cost no more each than thousands.

    In: by_bytes  whether a batch also ends after BATCH_BYTES: records may be large, or a row a piece of a table
    """
    return {
        f"{ARROW}.useLargeVarTypes": "false",
        f"{ARROW}.maxRecordsPerBatch": str(rows),
        f"{ARROW}.maxBytesPerBatch": str(BATCH_BYTES if by_bytes else UNCOUNTED),
    }


def settings(spark: SparkSession, *, pieces: bool) -> None:
    """Let the session send rows as this work is quickest with. In: pieces  whether a row may be a piece of a table."""
    for name, value in batches_of(TASK_ROWS, by_bytes=pieces).items():
        spark.conf.set(name, value)


def mapped(
    rows: DataFrame, work: Callable[..., Any], columns: Sequence[str], gives: T.StructType | str
) -> DataFrame:
    """The results of each task for its rows.

    PySpark's `mapInArrow` asks the JVM for the columns, one by one, and finds no column with a dot in its name.

    In: columns  of the rows; gives: the schema of the results
    """
    function: Any = pandas_udf(
        work,  # type: ignore[call-overload]
        returnType=gives,
        functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
    )
    column = function(*(F.col(quote(name)) for name in columns))
    return DataFrame(rows._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)


@dataclass(frozen=True)
class MakeRows:
    """The work of a task that makes other rows of its rows.

    make   makes the result from the rows that came
    whole  True: it needs all rows of the task at once; False: it takes them batch by batch
    gives  the schema of the result
    """

    make: Callable[[pa.Table], pa.Table]
    whole: bool
    gives: pa.Schema

    @in_worker
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: rows in, rows out."""
        for came in [[*batches]] if self.whole else ([batch] for batch in batches):
            if came:
                made = self.make(pa.Table.from_batches(came))
                yield from made.select(self.gives.names).cast(self.gives).to_batches()


def made_of(
    rows: DataFrame,
    make: Callable[[pa.Table], pa.Table],
    columns: Sequence[str],
    *,
    schema: pa.Schema,
    whole: bool,
) -> DataFrame:
    """The rows that tasks make of rows.

    In: make, whole  see `MakeRows`; columns: of the rows; schema: of the result, whose columns may all be null
    """
    gives = pa.schema([field.with_nullable(True) for field in schema])
    return mapped(rows, MakeRows(make, whole, gives), columns, spark_schema(gives))


def reports_of(rows: DataFrame, work: Callable[..., Any], columns: Sequence[str]) -> list[dict[str, Any]]:
    """The reports of all tasks. Each sends its report as JSON."""
    return [json.loads(row["report"]) for row in mapped(rows, work, columns, REPORT).collect()]
