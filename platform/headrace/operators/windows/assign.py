"""Decide each row's fate in a windowed aggregate, and the pane it falls into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.log.columns import DEAD_LETTER
from headrace.operators.partials import unusable
from headrace.operators.rows import KEPT, LATE
from headrace.operators.windows.panes import (
    first_open_start,
    first_window_start,
    last_window_start,
    pane_start,
    time_windows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate


def assign_windows(rows: DataFrame, node: WindowedAggregate) -> DataFrame:
    """Complete `__fate` and add the pane and windows of each row.

    In:     rows  as `rows_of` gives them
    Out:    the same rows; `__fate` is never null: `kept` if the record enters a window, `late` if every window that
            contains it is closed, `dead_letter` (with `__reason`) if its group or an input cannot be used.
            `__pane`, `__first`, `__from`: starts in ms of the pane, of the first window that contains the event, and of
            the first that it enters.
    Law:    row by row.
    """
    window, event_ms, stream_ms = time_windows(node), F.col("__event_ms"), F.col("__stream_ms")
    cannot = unusable(rows.schema, node.by, node.aggregates)
    rows = rows.withColumns(
        {
            "__pane": pane_start(window, event_ms),
            "__first": first_window_start(window, event_ms),
            "__reason": F.when(F.col("__fate").isNull(), cannot).otherwise(F.col("__reason")),
        }
    )
    open_from = F.greatest(F.col("__first"), first_open_start(window, node.grace_ms, stream_ms))
    fate = (
        F.when(F.col("__fate").isNotNull(), F.col("__fate"))
        .when(F.col("__reason").isNotNull(), DEAD_LETTER)
        .when(F.col("__from") > last_window_start(window, event_ms), LATE)
        .otherwise(KEPT)
    )
    return rows.withColumn("__from", open_from).withColumn("__fate", fate)
