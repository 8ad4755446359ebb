"""Stream time: the running maximum of event time in each partition, carried over micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.log.columns import DEAD_LETTER
from headrace.spark.varying import varying, varying_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.log.state import LogState

LAST = "__last"  # true on the last row of each partition in a micro-batch


def only_new(raw: DataFrame, state: LogState) -> DataFrame:
    """The records that the log does not hold yet: a repeated micro-batch adds nothing.

    In, Out: one row per record, as Kafka delivers it
    """
    next_offset = varying_by("partition", {p: s.next_offset for p, s in state.partitions.items()})
    return raw.where(F.coalesce(F.col("offset") >= next_offset, F.lit(True)))


def assign_stream_time(decoded: DataFrame, state: LogState) -> DataFrame:
    """Add `__stream_ms`, the highest event time of the partition up to and including the row, and `__last`.

    In:     decoded  one row per record, with `partition`, `offset`, `kind`, `__event_ms` and, if judged, `replay`
            state    of the log before this micro-batch
    Law:    cutting the same offsets elsewhere changes no row's stream time within a commit sequence; a new
            partition starts at the lowest stream time recorded before the commit. Dead letters advance nothing,
            and neither do replays: one that is dated when it was sent again would close windows early.
    """
    ordered = Window.partitionBy("partition").orderBy("offset")
    counts = F.col("kind") != DEAD_LETTER
    if "replay" in decoded.columns:
        counts = counts & ~F.col("replay")
    event_ms = F.when(counts, F.col("__event_ms"))
    highest = F.max(event_ms).over(ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    stream_ms = {p: s.stream_ms for p, s in state.partitions.items() if s.stream_ms is not None}
    known = varying_by("partition", stream_ms)
    start = F.coalesce(known, varying(state.lowest_stream_ms()))
    return decoded.select(
        "*",
        F.when(highest.isNotNull(), F.greatest(highest, start)).otherwise(known).alias("__stream_ms"),
        F.lead("offset").over(ordered).isNull().alias(LAST),
    )
