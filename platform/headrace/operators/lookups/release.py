"""When a record is released: the first commit at which the lowest stream time of all partitions is beyond its timestamp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.operators.tables.latest import union
from headrace.spark.frames import local_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from headrace.operators.progress import Progress

LANES = 8  # tasks that look for releases side by side; each sees every step of the frontier
BEFORE_MS = 0  # stands for the commits before the increment


def stream_times(logs: Mapping[str, DataFrame], progress: Progress) -> DataFrame:
    """The stream time of each partition after each commit that has a row of it, and before the increment.

    Out: `__at_ms`, `__topic`, `__partition`, `__stream_ms`
    """
    moved = [
        log.where(F.col("stream_time").isNotNull())
        .groupBy(
            F.unix_millis("ingested_at").alias("__at_ms"),
            F.col("topic").alias("__topic"),
            F.col("partition").alias("__partition"),
        )
        .agg(F.unix_millis(F.max("stream_time")).alias("__stream_ms"))
        for log in logs.values()
    ]
    before = [
        (BEFORE_MS, topic, int(partition), ms)
        for topic, partitions in progress.stream_ms.items()
        for partition, ms in partitions.items()
    ]
    spark = moved[0].sparkSession
    schema = "__at_ms BIGINT, __topic STRING, __partition INT, __stream_ms BIGINT"
    return union([*moved, local_frame(spark, before, schema)])


def frontier(times: DataFrame, topics: int) -> DataFrame:
    """The lowest stream time of all partitions, after each commit at which every topic has one.

    In:  times   as `stream_times` gives them; topics: how many there are
    Out: `__frontier_ms` and the first `__at_ms` at which it stands there; both rise together
    """
    commits = times.select("__at_ms").distinct()
    partitions = times.select("__topic", "__partition").distinct()
    grid = commits.crossJoin(F.broadcast(partitions)).join(
        times, ["__at_ms", "__topic", "__partition"], "left"
    )
    so_far = Window.partitionBy("__topic", "__partition").orderBy("__at_ms")
    known = grid.withColumn("__stream_ms", F.max("__stream_ms").over(so_far))
    lowest = (
        known.where(F.col("__stream_ms").isNotNull())
        .groupBy("__at_ms")
        .agg(F.min("__stream_ms").alias("__frontier_ms"), F.countDistinct("__topic").alias("__topics"))
    )
    complete = lowest.where(F.col("__topics") == topics)
    return complete.groupBy("__frontier_ms").agg(F.min("__at_ms").alias("__at_ms"))


def place_releases(records: DataFrame, steps: DataFrame) -> DataFrame:
    """Add `__released_ms`: the commit time at which each record is released; null: it waits.

    In:  records  with `__event_ms` and `__at`, their position; steps as `frontier` gives them
    """
    lane = F.pmod(F.hash("__event_ms"), F.lit(LANES))
    lanes = F.explode(F.sequence(F.lit(0), F.lit(LANES - 1)))
    both = union(
        [
            records.withColumns({"__lane": lane, "__time_ms": F.col("__event_ms")}),
            steps.select(lanes.alias("__lane"), F.col("__frontier_ms").alias("__time_ms"), "__at_ms"),
        ]
    )
    # From the highest time downwards, a record before a step at the same time: so only steps beyond it lie before it.
    beyond = (
        Window.partitionBy("__lane")
        .orderBy(F.col("__time_ms").desc(), F.col("__at_ms").isNotNull())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    found = both.withColumn("__beyond_ms", F.min("__at_ms").over(beyond)).where(F.col("__at").isNotNull())
    released = F.greatest("__beyond_ms", F.col("__at.__ingested_ms"))
    return found.select(
        *records.columns, F.when(F.col("__beyond_ms").isNotNull(), released).alias("__released_ms")
    )
