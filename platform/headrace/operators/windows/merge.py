"""Merge partial aggregates into windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.partials import finished_columns, merged_columns
from headrace.operators.windows.panes import last_window_start, time_windows
from headrace.spark.varying import varying

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.description import WindowedAggregate


def merge_windows(
    partials: DataFrame, node: WindowedAggregate, inputs: StructType, *, first_ms: int, last_ms: int | None
) -> DataFrame:
    """The windows that start from `first_ms` through `last_ms` (None: all later ones too).

    In:     partials  as `partial_aggregates` gives them, kept rows only; several rows of one group and pane merge
            inputs    the schema of the rows that were aggregated
    Out:    group columns, `window_start`, `window_end`, the aggregates, `__timestamp` (the highest event time in the window)
            and `__records` (the records whose last window this is); one row per group and window
    """
    return _merge(_explode_windows(partials, node, first_ms, last_ms), node, inputs)


def running_windows(partials: DataFrame, node: WindowedAggregate, inputs: StructType) -> DataFrame:
    """Each window after each micro-batch that touched it.

    In:     partials  rows of the state table, with the micro-batch (`__batch`) that appended them
    Out:    the columns of `merge_windows` and `__batch`; one row per group, window and micro-batch
    """
    pieces = _explode_windows(partials, node, 0, None)
    window = [*node.by, "__start"]
    touched = pieces.select(
        *(F.col(quote(name)) for name in window), F.col("__batch").alias("__as_of")
    ).distinct()
    known = pieces.join(touched, window).where(F.col("__batch") <= F.col("__as_of"))
    return _merge(known, node, inputs, "__as_of").withColumnRenamed("__as_of", "__batch")


def mergeable_windows(
    partials: DataFrame, node: WindowedAggregate, inputs: StructType, *, exploded: bool = False
) -> DataFrame:
    """All windows, with the partial columns by which they can be merged with further records of theirs.

    In:     partials  as for `merge_windows`, with `__at`, the highest position; `exploded`: windows as this gives them
    Out:    group columns, `window_start`, `window_end`, the aggregates, the partial columns, `__event_ms`, `__at`
    """
    bounds = ["window_start", "window_end"]
    if not exploded:
        starts = F.col("__start"), F.col("__start") + time_windows(node).size_ms
        times = {name: F.timestamp_millis(ms) for name, ms in zip(bounds, starts, strict=True)}
        partials = _explode_windows(partials, node, 0, None).withColumns(times)
    window = [F.col(quote(name)) for name in (*node.by, *bounds)]
    merged = partials.groupBy(*window).agg(
        *merged_columns(node.aggregates, inputs),
        F.max("__event_ms").alias("__event_ms"),
        F.max("__at").alias("__at"),
    )
    partial = [F.col(quote(name)) for name in merged.columns if name.startswith("__")]
    return merged.select(*window, *finished_columns(node.aggregates, inputs), *partial)


def windows_of_partitions(
    partials: DataFrame, node: WindowedAggregate, inputs: StructType, *, first_ms: int
) -> DataFrame:
    """The windows that start from `first_ms`, each partition's by themselves.

    Out:    the columns of `merge_windows` and `__partition`; one row per group, window and partition
    """
    return _merge(_explode_windows(partials, node, first_ms, None), node, inputs, "__partition")


def _merge(pieces: DataFrame, node: WindowedAggregate, inputs: StructType, *also_by: str) -> DataFrame:
    merged = pieces.groupBy(*(F.col(quote(name)) for name in node.by), "__start", *also_by).agg(
        *merged_columns(node.aggregates, inputs),
        F.max("__event_ms").alias("__event_ms"),
        F.sum(F.when(F.col("__start") == F.col("__last"), F.col("__records")).otherwise(0)).alias(
            "__records"
        ),
    )
    return merged.select(
        *(F.col(quote(name)) for name in node.by),
        F.timestamp_millis("__start").alias("window_start"),
        F.timestamp_millis(F.col("__start") + time_windows(node).size_ms).alias("window_end"),
        *finished_columns(node.aggregates, inputs),
        F.timestamp_millis("__event_ms").alias("__timestamp"),
        "__records",
        *also_by,
    )


def _explode_windows(
    partials: DataFrame, node: WindowedAggregate, first_ms: int, last_ms: int | None
) -> DataFrame:
    window = time_windows(node)
    last = last_window_start(window, F.col("__pane"))
    pieces = partials.where(F.col("__pane") >= varying(first_ms)).withColumn("__last", last)
    from_ms, to_ms = F.greatest(F.col("__from"), varying(first_ms)), F.col("__last")
    if last_ms is not None:
        pieces = pieces.where(F.col("__pane") < varying(last_ms + window.size_ms))
        to_ms = F.least(to_ms, varying(last_ms))
    if window.advance_ms == window.size_ms:
        return pieces.withColumn("__start", F.col("__last"))
    starts = F.sequence(from_ms, to_ms, F.lit(window.advance_ms))
    return pieces.where(from_ms <= to_ms).withColumn("__start", F.explode(starts))
