"""The suppressor's own stream time, in each partition, before and after each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.log.columns import TICK
from headrace.operators.progress import Tally
from headrace.operators.rows import KEPT
from headrace.spark.varying import varying_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

Times = dict[str, int]
PLACE = ("ingested_ms", "offset", "sub", "stream_ms")


def counted(decided: DataFrame, known_ms: Mapping[str, int]) -> tuple[list[Tally], Times]:
    """The fates of an increment, and each partition's own stream time after it, in one pass."""
    found = (
        decided.groupBy("__topic", "__partition", "__fate")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.max("__stream_ms").alias("stream_ms"),
            F.max(_time()).alias("time_ms"),
        )
        .collect()
    )
    times = dict(known_ms)
    for row in found:
        if row["time_ms"] is not None:
            partition = str(row["__partition"])
            times[partition] = max(row["time_ms"], times.get(partition, row["time_ms"]))
    tallies = [
        Tally(r["__topic"], r["__partition"], r["__fate"], r["records"], r["stream_ms"]) for r in found
    ]
    return tallies, times


def timed(decided: DataFrame, known_ms: Mapping[str, int]) -> DataFrame:
    """The rows that move time or are kept, with `__before_ms` and `__after_ms`: own stream time before and after each.

    In:     known_ms  each partition's own stream time before these rows
    Out:    times are null where there is none yet
    """
    rows = decided.where(F.col("__fate").isin(KEPT, TICK))
    order = Window.partitionBy("__partition").orderBy("__ingested_ms", F.col("__offset").asc_nulls_last())
    known = varying_by("__partition", known_ms)
    before = F.max(_time()).over(order.rowsBetween(Window.unboundedPreceding, -1))
    after = F.max(_time()).over(order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return rows.withColumns(
        {"__before_ms": F.greatest(before, known), "__after_ms": F.greatest(after, known)}
    )


def advances(rows: DataFrame, first_update: Expr) -> DataFrame:
    """The rows that move time: `__partition`, `__time_ms` and `__place`. In: rows as `timed` gives them."""
    moved = F.col("__before_ms").isNull() | (F.col("__after_ms") > F.col("__before_ms"))
    sub = F.when(F.col("__fate") == KEPT, first_update).otherwise(0).cast("long")
    return rows.where(moved).select(
        "__partition", F.col("__after_ms").alias("__time_ms"), place(sub).alias("__place")
    )


def place(sub: Expr) -> Expr:
    """Where a row stands in its partition, and the log's stream time there."""
    values = (F.col("__ingested_ms"), F.col("__offset"), sub, F.col("__stream_ms"))
    return F.struct(*(value.cast("long").alias(name) for value, name in zip(values, PLACE, strict=True)))


def _time() -> Expr:
    return F.when(F.col("__fate") == KEPT, F.col("__event_ms")).when(
        F.col("__fate") == TICK, F.col("__stream_ms")
    )
