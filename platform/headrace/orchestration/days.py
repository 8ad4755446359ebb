"""Which days of a result table the stream has completed: every window or batch that begins in them is closed."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.nodes.days import day_at, day_of_row, first_ms_of
from headrace.operators.registry import operator_for
from headrace.spark.lake_rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

DAY_MS = 86_400_000


def last_complete_day(node: Node, closed_ms: int | None, read_ms: int | None = None) -> dt.date | None:
    """Find the latest day with all its windows or batches closed.

    In:  closed_ms  every window with end + grace at or before it is closed; None: none is
         read_ms    commit time through which the log is folded; None: nothing is
    Out: None too for batches without a longest wait and for sessions: one of them may stay open for ever
    """
    from_ms = operator_for(node).open_from_ms(closed_ms, read_ms)
    return None if from_ms is None else day_at(node, from_ms) - dt.timedelta(days=1)


def rows_by_day(
    spark: SparkSession, lake: Lake, node: Node, *, after: dt.date | None, through: dt.date
) -> dict[dt.date, int]:
    """Count the rows of results of each day, from the first that has any; days without rows in between count 0."""
    assert node.day_column is not None
    day = day_of_row(node)
    stored = read(spark, lake.table(node.required_name)).where(day <= F.lit(through))
    if after is not None:
        first_ms = first_ms_of(node, after + dt.timedelta(days=1))
        stored = stored.where(F.col(node.day_column) >= F.timestamp_millis(F.lit(first_ms)))
    counts = {row["day"]: row["count"] for row in stored.groupBy(day.alias("day")).count().collect()}
    first = after + dt.timedelta(days=1) if after is not None else min(counts, default=None)
    return {} if first is None else {each: counts.get(each, 0) for each in _days(first, through)}


def _days(first: dt.date, last: dt.date) -> Iterator[dt.date]:
    return (first + dt.timedelta(days=n) for n in range((last - first).days + 1))
