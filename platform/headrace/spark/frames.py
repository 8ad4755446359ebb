"""Small frames made of rows that the driver holds."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.spark.jvm import java_class, scala_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

CATALYST = "org.apache.spark.sql.catalyst"
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


def own(frame: DataFrame) -> DataFrame:
    """The same rows by a plan that equals no other.

    Spark keeps one copy of what equal plans persist, and whoever frees it frees it for all: nodes of one session that read
    the same table make equal plans.
    """
    return frame.where(F.lit(uuid.uuid4().hex).isNotNull())


def computed(frame: DataFrame) -> DataFrame:
    """The rows of a persisted frame of one's `own`, computed now, as a frame that does not remember how they were made.

    A plan made of persisted frames holds all of their plans, each as often as it is used: in a few steps it outgrows what
    it computes. Spark looks for what is cached only when a query is planned; here the cached rows are the plan.

    Where another query frees a plan, Spark takes what may depend on it out of its list for a moment: the frame itself then
    has to do.
    """
    spark = frame.sparkSession
    frame.count()
    cached = spark._jsparkSession.sharedState().cacheManager().lookupCachedData(frame._jdf)
    if cached.isEmpty():
        return frame
    return _of_plan(spark, cached.get().cachedRepresentation())


def in_one_task(frame: DataFrame) -> DataFrame:
    """The same rows, in one task where their files are small.

    Spark makes a task for each core of a few kilobytes, and shuffles rows to group or join them: three stages of two tasks,
    each of which costs more than its rows. What lies in one task is grouped and joined there, and written as one file.
    """
    plan = frame._jdf.queryExecution().analyzed()
    return frame.coalesce(1) if plan.stats().sizeInBytes() <= SMALL_BYTES else frame


def arranged(frame: DataFrame, by: str, order: str, *, one_task: bool = False) -> DataFrame:
    """The same rows, by a plan that says how they lie already: rows of one `by` in one task, sorted by `by` and `order`.

    Spark believes it: a window over `by` in this order then neither shuffles nor sorts. Nothing may be joined to the frame
    by `by` alone, for the tasks are not those that a hash of `by` would choose.

    In: one_task  put all rows into one: no window and no group then shuffles (see `in_one_task`)
    """
    spark, query = frame.sparkSession, frame._jdf.queryExecution()
    rows, columns = query.toRdd(), query.analyzed().output()
    physical = f"{CATALYST}.plans.physical"
    known = [columns.apply(frame.columns.index(name)) for name in (by, order)]

    def sequence(*items: Any) -> Any:
        return java_class(spark, "PythonUtils").toSeq(list(items))

    ascending = scala_object(spark, f"{CATALYST}.expressions.Ascending")
    sort_order = scala_object(spark, f"{CATALYST}.expressions.SortOrder")
    nothing = scala_object(spark, "scala.None")
    if one_task:
        rows = rows.toJavaRDD().coalesce(1).rdd()
        lying = scala_object(spark, f"{physical}.SinglePartition")
    else:
        lying = java_class(spark, f"{physical}.HashPartitioning")(sequence(known[0]), rows.getNumPartitions())
    plan = java_class(spark, "org.apache.spark.sql.execution.LogicalRDD")(
        columns,
        rows,
        lying,
        sequence(*(sort_order.apply(column, ascending, sequence()) for column in known)),
        False,
        nothing,
        frame._jdf.sparkSession(),
        nothing,
        nothing,
    )
    return _of_plan(spark, plan)


def _of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(spark._jsparkSession, plan), spark)
