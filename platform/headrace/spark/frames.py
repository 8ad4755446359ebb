"""Small frames made of rows that the driver holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.spark.jvm import scala_seq
from headrace.spark.one_task import spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column as Expr
    from pyspark.sql import SparkSession

SMALL_BYTES = 2 << 20  # of Parquet: some 70,000 records of a log


def local_frame(
    spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: T.StructType | str
) -> DataFrame:
    """A frame of these rows; `schema` as a type or as DDL.

    By way of Arrow it is a relation inside the JVM; rows given to `createDataFrame` pass through a Python worker.
    """
    fields = T.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(fields, T.StructType)
    arrow = to_arrow_schema(fields)
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), fields)


def arrow_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A frame of these rows. `createDataFrame` alone makes a TIMESTAMP of a TIMESTAMP_NTZ."""
    return spark.createDataFrame(rows, spark_schema(rows.schema))


class Selection:
    """Columns that are selected again and again.

    PySpark hands each of them to the JVM with each select. These are handed over once.
    """

    def __init__(self, *columns: Expr) -> None:
        """Needs a running Spark."""
        self._columns = columns
        self._known: Any = None

    def of(self, frame: DataFrame, *more: Expr) -> DataFrame:
        """These columns of a frame, and `more` behind them."""
        if self._known is None:
            self._known = scala_seq(frame.sparkSession, *(column._jc for column in self._columns))
        chosen = self._known
        for column in more:
            chosen = chosen.appended(column._jc)
        return DataFrame(frame._jdf.select(chosen), frame.sparkSession)


def in_one_task(frame: DataFrame) -> DataFrame:
    """The same rows, in one task where their files are small.

    Even for a few kilobytes Spark makes a task for each core, and shuffles rows to group or join them: three stages of two
    tasks, each of which costs more than its rows. Rows in one task are grouped and joined there, and written as one file.
    """
    return frame.coalesce(1) if bytes_read(frame) <= SMALL_BYTES else frame


def together(frame: DataFrame, *by: Expr) -> DataFrame:
    """The same rows, those that agree in `by` in one task; all of them where their files are small."""
    if bytes_read(frame) <= SMALL_BYTES:
        return frame.coalesce(1)
    return frame.repartition(frame.sparkSession.sparkContext.defaultParallelism, *by)


def bytes_read(frame: DataFrame) -> int:
    """The size of the files that a frame is read from, as Spark estimates it."""
    return int(str(frame._jdf.queryExecution().analyzed().stats().sizeInBytes()))
