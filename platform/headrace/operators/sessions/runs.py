"""Runs: records of a group that follow one another within the gap, aggregated before the fold sees them.

Law: folding a run as one interval, at the stream time of its first record, equals folding its records one by one. Each
record of a run is on time and at or after the one before it, at most `gap` later, while that one's session is open. So
it joins this session; another session within `gap` of it is within `gap` of the run's first record too, or ends later
and is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import SessionWindows, quote
from headrace.operators.partials import partial_aggregates
from headrace.spark.varying import varying_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate
    from headrace.operators.partials import Aggregates


def session_windows(node: WindowedAggregate) -> SessionWindows:
    """The node's windows, which are sessions."""
    assert isinstance(node.window, SessionWindows)
    return node.window


def runs_of(
    decided: DataFrame, node: WindowedAggregate, aggregates: Aggregates, known_ms: Mapping[str, int]
) -> DataFrame:
    """Aggregate runs, and count the rows that are not kept.

    In:     decided   rows as `decide_by_group` gives them, of whole log commits
            known_ms  for each partition its stream time before these rows
    Out:    as `partial_aggregates`, one row per run: with `__start_ms` and `__end_ms` (first and last event), `__offset`
            (the lowest), `__old` (judged alone it is late; then the run is one record) and `__before_ms`: sessions that
            close at or before this stream time closed before the run
    """
    gap_ms, wait_ms = session_windows(node).gap_ms, node.longest_wait_ms
    event_ms, before_ms = F.col("__event_ms"), F.col("__before_ms")
    rows = _with_before(decided, node, known_ms)
    rows = rows.withColumn("__old", event_ms + wait_ms <= F.col("__stream_ms"))
    group = (*(F.col(quote(name)) for name in node.by), F.col("__partition"), F.col("__fate"))
    in_order = Window.partitionBy(*group).orderBy("__offset")
    last_ms = F.lag("__event_ms").over(in_order)
    continues = (
        ~F.col("__old")
        & ~F.lag("__old").over(in_order)
        & event_ms.between(last_ms, last_ms + gap_ms)
        & (last_ms + wait_ms > before_ms)
    )
    rows = rows.withColumn("__begins", F.when(continues, 0).otherwise(1))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    rows = rows.withColumn("__run", F.sum("__begins").over(so_far))
    also = {
        "__start_ms": F.min("__event_ms"),
        "__offset": F.min("__offset"),
        "__old": F.max("__old"),
        "__before_ms": F.min("__before_ms"),
    }
    runs = partial_aggregates(rows, node.by, aggregates, also_by={"__run": F.col("__run")}, also=also)
    return runs.drop("__run").withColumnRenamed("__event_ms", "__end_ms")


def _with_before(decided: DataFrame, node: WindowedAggregate, known_ms: Mapping[str, int]) -> DataFrame:
    """Add the stream time at which a row finds sessions closed: its own or, where the row raises it, one before.

    It matters without grace alone, to a session that ends exactly `gap` before the record that raises stream time.
    """
    stream_ms = F.col("__stream_ms")
    if node.grace_ms:
        return decided.withColumn("__before_ms", stream_ms)
    alike = Window.partitionBy("__partition", "__stream_ms")
    first = F.row_number().over(alike.orderBy("__ingested_ms", F.col("__offset").asc_nulls_first())) == 1
    risen = F.coalesce(varying_by("__partition", known_ms) < stream_ms, F.lit(True))
    raises = first & risen & (F.col("__event_ms") == stream_ms)
    return decided.withColumn("__before_ms", F.when(raises, stream_ms - 1).otherwise(stream_ms))
