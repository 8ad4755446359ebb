"""When each wait is over: the first row of its partition that brings the expiry time to where it was opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.operators.tables.latest import union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def place_ends(waits: DataFrame, advances: DataFrame) -> DataFrame:
    """Add `__left`, the place of the row that lets each wait end; null: none has yet.

    In:     waits     as `value_waits` gives them
            advances  as `timeline.advances` gives them
    Law:    a wait that the expiry time had reached when it was opened is over at once. Any other is over at the row that
            moves the expiry time from before its opening to or beyond it: of the advances not before it, the lowest.
    """
    ends = waits.withColumn("__time_ms", F.col("__opened_ms"))
    downwards = (
        Window.partitionBy("__partition")
        .orderBy(F.col("__time_ms").desc(), F.col("__place").isNull())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    reached = F.last("__place", ignorenulls=True).over(downwards)
    found = union([ends, advances]).withColumn("__reached", reached).where(F.col("__opened_ms").isNotNull())
    at_once = F.coalesce(F.col("__opened_after_ms") >= F.col("__opened_ms"), F.lit(False))
    left = F.when(at_once, F.col("__opened_place")).otherwise(F.col("__reached"))
    return found.select(*waits.columns, left.alias("__left"))
