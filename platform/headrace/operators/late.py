"""Late records are data: which record, which window, how late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate

POSITION_NAMES = {"topic", "partition", "offset", "timestamp", "stream_time"}


def late_rows(
    missed: DataFrame, node: WindowedAggregate, *, start_ms: Expr, end_ms: Expr, event_ms: str = "__event_ms"
) -> DataFrame:
    """Records and the windows that they came too late for, as people see them.

    In:     missed  one row per record and closed window, with its position (see `rows_of`); start_ms, end_ms: of the window
    Out:    topic, partition, offset, timestamp, stream_time, the group columns, window_start, window_end,
            late_by_ms (how long the window had been closed, in stream time)
    """
    groups = [name for name in node.by if name.lower() not in POSITION_NAMES]
    return missed.select(
        F.col("__topic").alias("topic"),
        F.col("__partition").alias("partition"),
        F.col("__offset").alias("offset"),
        F.timestamp_millis(event_ms).alias("timestamp"),
        F.timestamp_millis("__stream_ms").alias("stream_time"),
        *(F.col(quote(name)) for name in groups),
        F.timestamp_millis(start_ms).alias("window_start"),
        F.timestamp_millis(end_ms).alias("window_end"),
        (F.col("__stream_ms") - end_ms - node.final_ms).alias("late_by_ms"),
    )
