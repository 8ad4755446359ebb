"""Small frames made of rows that the driver holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.spark.jvm import java_class, scala_object, scala_option, scala_seq

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column as Expr
    from pyspark.sql import SparkSession

CATALYST = "org.apache.spark.sql.catalyst"
INT_MAX = 2**31 - 1
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


class Cache:
    """Frames that are computed once while a micro-batch is worked out, and freed when it is written.

    What `persist` keeps Spark packs column by column, several times the work of copying the rows; it looks for it in each
    plan, and keeps one copy of what equal plans persist, which whoever frees it frees for all. Here the copied rows are the
    plan. They are not computed again: where an executor is lost with them, the micro-batch fails, and is repeated.
    """

    def __init__(self) -> None:
        """Nothing is kept."""
        self._kept: list[tuple[Any, DataFrame]] = []

    def share(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed when they are first asked for."""
        shared = frame.localCheckpoint(eager=False)
        # Two jobs at once may compute it: the plan goes on counting for the one when the other has cut the rows off from it.
        self._kept.append((shared._jdf.logicalPlan().rdd(), frame))
        return shared

    def compute(self, frame: DataFrame, at_most: int | None = None) -> DataFrame:
        """The same rows, and Spark knows how many there are: it sends few of them to every task of a join.

        In which order they lie the plan does not say: with that Spark would not see that what it sends twice is the same.

        In: at_most  how many there can be, if that is known: they are then computed when first asked for, else now
        """
        spark, plan = frame.sparkSession, self.share(frame)._jdf.logicalPlan()
        rows, columns = plan.rdd(), plan.output()
        most = rows.count() if at_most is None else at_most
        count = scala_object(spark, f"{CATALYST}.expressions.Literal").apply(min(most, INT_MAX))
        size = java_class(spark, f"{CATALYST}.plans.logical.GlobalLimit")(count, plan).stats()
        tasks = rows.getNumPartitions()
        return _of_rows(frame, columns, rows, _lying(spark, tasks), scala_seq(spark), size)

    def release(self) -> None:
        """Free what was kept."""
        while self._kept:
            rows, _ = self._kept.pop()
            rows.unpersist(False)


def in_one_task(frame: DataFrame) -> DataFrame:
    """The same rows, in one task where their files are small.

    Spark makes a task for each core of a few kilobytes, and shuffles rows to group or join them: three stages of two tasks,
    each of which costs more than its rows. What lies in one task is grouped and joined there, and written as one file.
    """
    return frame.coalesce(1) if bytes_read(frame) <= SMALL_BYTES else frame


def bytes_read(frame: DataFrame) -> int:
    """The size of the files that a frame is read from, as Spark estimates it."""
    return int(str(frame._jdf.queryExecution().analyzed().stats().sizeInBytes()))


def arranged(frame: DataFrame, by: str, order: str, *, one_task: bool = False) -> DataFrame:
    """The same rows, by a plan that says how they lie already: rows of one `by` in one task, sorted by `by` and `order`.

    Spark believes it: a window over `by` in this order then neither shuffles nor sorts. Nothing may be joined to the frame
    by `by` alone, for the tasks are not those that a hash of `by` would choose.

    In: one_task  put all rows into one: no window and no group then shuffles (see `in_one_task`)
    """
    spark, query = frame.sparkSession, frame._jdf.queryExecution()
    rows, columns = query.toRdd(), query.analyzed().output()
    known = [columns.apply(frame.columns.index(name)) for name in (by, order)]
    ascending = scala_object(spark, f"{CATALYST}.expressions.Ascending")
    sort_order = scala_object(spark, f"{CATALYST}.expressions.SortOrder")
    if one_task:
        rows = rows.toJavaRDD().coalesce(1).rdd()
    lying = _lying(spark, rows.getNumPartitions(), known[0])
    sorted_by = (sort_order.apply(column, ascending, scala_seq(spark)) for column in known)
    return _of_rows(frame, columns, rows, lying, scala_seq(spark, *sorted_by))


def _of_rows(
    frame: DataFrame, columns: Any, rows: Any, lying: Any, order: Any, size: Any = None
) -> DataFrame:
    """The frame by a plan that is an RDD of its rows: in what partitions and order these lie, and Spark's statistics."""
    spark = frame.sparkSession
    nothing, known = scala_option(spark), scala_option(spark, size)
    plan = java_class(spark, "org.apache.spark.sql.execution.LogicalRDD")(
        columns, rows, lying, order, False, nothing, frame._jdf.sparkSession(), known, nothing
    )
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(spark._jsparkSession, plan), spark)


def _lying(spark: SparkSession, tasks: int, by: Any = None) -> Any:
    """How rows lie in so many tasks: one holds all, or those with one value of `by`; or nobody knows."""
    if tasks == 1:
        return scala_object(spark, f"{CATALYST}.plans.physical.SinglePartition")
    if by is None:
        return java_class(spark, f"{CATALYST}.plans.physical.UnknownPartitioning")(tasks)
    return java_class(spark, f"{CATALYST}.plans.physical.HashPartitioning")(scala_seq(spark, by), tasks)
