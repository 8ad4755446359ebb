"""When sessions close: each by the stream time of its own partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.spark.varying import varying_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame


def is_closed(end_ms: Expr, wait_ms: int, stream_ms: Mapping[str, int]) -> Expr:
    """Whether the partition's stream time has reached the end plus the wait (gap plus grace)."""
    return F.coalesce(end_ms + wait_ms <= varying_by("__partition", stream_ms), F.lit(False))


def closed_at(closed: DataFrame, rows: DataFrame, wait_ms: int) -> DataFrame:
    """Add `__closed_at`: the commit time of the row that closed a session.

    In:     closed  sessions with `__partition` and `__end_ms`
            rows    rows of whole log commits (see `rows_of`) that hold the one which closed each
    Law:    the first commit at which the partition's stream time had reached the session's end plus the wait.
    """
    steps = rows.groupBy("__partition", "__ingested_ms").agg(F.max("__stream_ms").alias("__at_ms"))
    whole = F.struct(*(F.col(f"`{name}`") for name in closed.columns)).alias("__session")
    deadlines = closed.select("__partition", (F.col("__end_ms") + wait_ms).alias("__at_ms"), whole)
    both = steps.unionByName(deadlines, allowMissingColumns=True)
    reached = Window.partitionBy("__partition").orderBy(
        F.col("__at_ms").desc(), F.col("__ingested_ms").asc_nulls_last()
    )
    first_ms = F.min("__ingested_ms").over(reached.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    found = both.withColumn("__first_ms", first_ms).where(F.col("__session").isNotNull())
    return found.select("__session.*", F.timestamp_millis("__first_ms").alias("__closed_at"))
