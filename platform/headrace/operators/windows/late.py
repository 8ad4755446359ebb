"""Late records are data: which record, which window, how late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.rows import KEPT, LATE
from headrace.operators.windows.panes import last_window_start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate


def late_records(assigned: DataFrame, node: WindowedAggregate) -> DataFrame:
    """The windows that records came too late for.

    In:     assigned  as `assign_windows` gives it
    Out:    topic, partition, offset, timestamp, stream_time, the group columns, window_start, window_end,
            late_by_ms (how long the window had been closed, in stream time); one row per record and closed window
    """
    window = node.window
    event_ms, advance_ms = F.col("__event_ms"), F.lit(window.advance_ms)
    missed_to = F.least(F.col("__from") - window.advance_ms, last_window_start(window, event_ms))
    missed = F.explode(F.sequence(F.col("__first"), missed_to, advance_ms)).alias("__start")
    late = assigned.where(F.col("__fate").isin(KEPT, LATE) & (missed_to >= F.col("__first")))
    closed_ms = F.col("__start") + (window.size_ms + node.grace_ms)
    groups = [name for name in node.by if name.lower() not in POSITION_NAMES]
    return late.select("*", missed).select(
        F.col("__topic").alias("topic"),
        F.col("__partition").alias("partition"),
        F.col("__offset").alias("offset"),
        F.timestamp_millis("__event_ms").alias("timestamp"),
        F.timestamp_millis("__stream_ms").alias("stream_time"),
        *(F.col(quote(name)) for name in groups),
        F.timestamp_millis("__start").alias("window_start"),
        F.timestamp_millis(F.col("__start") + window.size_ms).alias("window_end"),
        (F.col("__stream_ms") - closed_ms).alias("late_by_ms"),
    )


POSITION_NAMES = {"topic", "partition", "offset", "timestamp", "stream_time"}
