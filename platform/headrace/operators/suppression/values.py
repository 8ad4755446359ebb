"""What each wait holds when it is over: all updates of its entry through its last, merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.operators.suppression.waits import WAIT
from headrace.operators.tables.latest import columns, union

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.operators.suppression.updates import Updates

BEFORE = -1  # in place of the offset of a wait: what an entry was worth when none was open


def value_waits(
    assigned: DataFrame, held: DataFrame | None, updates: Updates, inputs: StructType
) -> DataFrame:
    """The waits of an increment with their values.

    In:     assigned  as `assign_waits` gives them
            held      for each entry touched before what it was worth, and its open wait if any; None: nothing was
    Out:    the entry, `__partition`, `WAIT`, merged partials through the wait's last update, `__offset` (that update's),
            `__records` (those that this wait is the last to hold), `__size_bytes` (of the last), `__touched` (it has some of
            these updates), `__latest` (of its entry). One row per wait.
    """
    keys = [*updates.entry, "__partition"]
    parts = (
        _counted(assigned, updates)
        .groupBy(*columns(keys), *WAIT)
        .agg(*updates.partials(inputs), *_book(F.lit(True)), F.sum("__counts").alias("__records"))
    )
    if held is not None:
        parts = _with_held(parts, held, updates, inputs)
    order = Window.partitionBy(*columns(keys)).orderBy("__opened_offset")
    through = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    valued = parts.select(
        *columns(keys),
        *WAIT,
        *updates.merged(inputs, lambda function: function.over(through)),
        *("__offset", "__size_bytes", "__touched", "__records"),
        F.lead("__opened_offset").over(order).isNull().alias("__latest"),
    )
    return valued.where(F.col("__opened_ms").isNotNull())


def _with_held(parts: DataFrame, held: DataFrame, updates: Updates, inputs: StructType) -> DataFrame:
    """What was held is a part of the open wait, or stands before all waits."""
    waiting = F.col("__opened_ms").isNotNull()
    before = held.withColumns(
        {
            "__opened_offset": F.when(waiting, F.col("__opened_offset")).otherwise(BEFORE),
            "__records": F.when(waiting, F.col("__records")).otherwise(0),
            "__touched": F.lit(False),
        }
    )
    together = union([parts, before])
    return together.groupBy(*columns(updates.entry), "__partition", "__opened_offset").agg(
        F.max("__opened_ms").alias("__opened_ms"),
        F.max("__opened_after_ms").alias("__opened_after_ms"),
        F.max("__opened_place").alias("__opened_place"),
        *updates.merged(inputs),
        *_book(F.col("__touched")),
        F.sum("__records").alias("__records"),
    )


def _book(touched: Expr) -> list[Expr]:
    return [
        F.max("__offset").alias("__offset"),
        F.max_by("__size_bytes", "__offset").alias("__size_bytes"),
        F.max(touched).alias("__touched"),
    ]


def _counted(assigned: DataFrame, updates: Updates) -> DataFrame:
    """Add `__counts`: 1 for the update of each record whose wait ends last, the one that began last, else 0."""
    if not updates.several:
        return assigned.withColumn("__counts", F.lit(1))
    own = F.struct("__opened_ms", "__sub")
    last = F.max(own).over(Window.partitionBy("__partition", "__offset"))
    return assigned.withColumn("__counts", F.when(own == last, 1).otherwise(0))
