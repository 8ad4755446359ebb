"""The windows that a record came too late for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.operators.late import late_rows
from headrace.operators.rows import KEPT, LATE
from headrace.operators.windows.panes import last_window_start, time_windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate


def late_records(assigned: DataFrame, node: WindowedAggregate) -> DataFrame:
    """The windows that records came too late for.

    In:     assigned  as `assign_windows` gives it
    Out:    as `late_rows`; one row per record and closed window
    """
    window = time_windows(node)
    event_ms, advance_ms = F.col("__event_ms"), F.lit(window.advance_ms)
    missed_to = F.least(F.col("__from") - window.advance_ms, last_window_start(window, event_ms))
    missed = F.explode(F.sequence(F.col("__first"), missed_to, advance_ms)).alias("__start")
    late = assigned.where(F.col("__fate").isin(KEPT, LATE) & (missed_to >= F.col("__first")))
    start_ms = F.col("__start")
    return late_rows(late.select("*", missed), node, start_ms=start_ms, end_ms=start_ms + window.size_ms)
