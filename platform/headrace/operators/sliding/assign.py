"""Decide each row's fate in sliding windows, as far as the row alone tells it, and the windows that are open to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import SlidingWindows
from headrace.operators.partials import decide_by_group
from headrace.operators.rows import KEPT, LATE

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate


def difference_ms(node: WindowedAggregate) -> int:
    """The time difference of the node's windows, which slide."""
    assert isinstance(node.window, SlidingWindows)
    return node.window.difference_ms


def own_end(node: WindowedAggregate, event_ms: Expr) -> Expr:
    """The end of the window that a record of this time makes for itself: its time, or that of [0, d]."""
    return F.greatest(event_ms, F.lit(difference_ms(node)))


def assign_ends(rows: DataFrame, node: WindowedAggregate) -> DataFrame:
    """Complete `__fate`, and add which windows are open to each row.

    In:     rows  as `rows_of` gives them
    Out:    the same rows; `__fate` is `late` when no window that can hold the record is open to it. `__point` is the event
            time, `__from` the first end, at or after it, of a window that is open to the row.
    Law:    row by row. Of kept records those with `__from` beyond their own end may yet enter no window.
    """
    decided = decide_by_group(rows, node.by, node.aggregates)
    first_open_ms = F.greatest(F.col("__event_ms"), F.col("__stream_ms") - (node.grace_ms - 1))
    last_ms = F.col("__event_ms") + difference_ms(node)
    late = (F.col("__fate") == KEPT) & (first_open_ms > last_ms)
    return decided.withColumns(
        {
            "__point": F.col("__event_ms"),
            "__from": first_open_ms,
            "__fate": F.when(late, LATE).otherwise(F.col("__fate")),
        }
    )
