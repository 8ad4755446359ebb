"""Which sliding windows there are, and what is in them: joins of partials with the windows that partials make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.partials import finished_columns, merged_columns
from headrace.operators.sliding.assign import difference_ms, own_end

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.description import WindowedAggregate


def made_by(partials: DataFrame, node: WindowedAggregate, *also: Expr) -> DataFrame:
    """The windows that records make, those that hold no record included.

    In:     partials  kept rows with `__point` and `__from`; also: further columns to keep
    Out:    group columns, `__end` in ms, `also`; one row per partial and window
    """
    own, point = own_end(node, F.col("__point")), F.col("__point")
    ends = F.array(F.when(F.col("__from") <= own, own), point + (1 + difference_ms(node)))
    made = partials.select(*_groups(node), F.explode(ends).alias("__end"), *also)
    return made.where(F.col("__end").isNotNull())


def within(windows: DataFrame, points: DataFrame, node: WindowedAggregate) -> DataFrame:
    """Pairs of a window and a row between its bounds.

    In:     windows  rows with the group columns and `__end`
            points   rows with the group columns and `__point`; no other column is in both
    Law:    a window meets two buckets of event time as wide as it is, so it is compared with the rows of these alone.
    """
    width = difference_ms(node)
    buckets = F.array(F.expr(f"__end div {width} - 1"), F.expr(f"__end div {width}"))
    left = windows.withColumn("__bucket", F.explode(buckets))
    right = points.withColumn("__bucket", F.expr(f"__point div {width}"))
    pairs = left.join(right, [*node.by, "__bucket"])
    return pairs.where(F.col("__point").between(F.col("__end") - width, F.col("__end"))).drop("__bucket")


def merge_windows(
    partials: DataFrame, node: WindowedAggregate, inputs: StructType, *, first_ms: int, last_ms: int | None
) -> DataFrame:
    """The windows that end from `first_ms` through `last_ms` (None: all later ones too).

    In:     partials  as `partial_aggregates` gives them, kept rows only, with `__point` and `__from`
    Out:    group columns, `window_start`, `window_end`, the aggregates, `__timestamp` (the highest event time in the
            window); one row per group and window
    """
    near = F.col("__point") >= first_ms - difference_ms(node) - 1
    ends = F.col("__end") >= first_ms
    if last_ms is not None:
        near, ends = near & (F.col("__point") <= last_ms), ends & (F.col("__end") <= last_ms)
    partials = partials.where(near)
    made = made_by(partials, node).where(ends).distinct()
    entered = within(made, partials, node).where(F.col("__from") <= F.col("__end"))
    return _merge(entered, node, inputs)


def running_windows(partials: DataFrame, node: WindowedAggregate, inputs: StructType) -> DataFrame:
    """Each window after each micro-batch that touched it, or made it of records before.

    In:     partials  rows of the state table, with the micro-batch (`__batch`) that appended them
    Out:    the columns of `merge_windows` and `__batch`; one row per group, window and micro-batch
    """
    groups = [*node.by, "__end"]
    made = made_by(partials, node, F.col("__batch").alias("__made"))
    made = made.groupBy(*(F.col(quote(name)) for name in groups)).agg(F.min("__made").alias("__made"))
    entered = within(made, partials, node).where(F.col("__from") <= F.col("__end"))
    as_of = F.greatest("__batch", "__made").alias("__as_of")
    touched = entered.select(*(F.col(quote(name)) for name in groups), as_of).distinct()
    known = entered.join(touched, groups).where(F.col("__batch") <= F.col("__as_of"))
    return _merge(known, node, inputs, "__as_of").withColumnRenamed("__as_of", "__batch")


def entering_none(partials: DataFrame, node: WindowedAggregate) -> DataFrame:
    """Of partials that do not make a window for themselves, those that entered none of the windows that there are.

    In, Out: rows with the group columns, `__topic`, `__partition`, `__point`, `__from` and `__records`
    """
    old = partials.where(F.col("__from") > own_end(node, F.col("__point")))
    windows = made_by(partials, node).distinct()
    identity = ["__topic", "__partition", "__point", "__from"]
    entered = within(windows, old.select(*_groups(node), *identity), node)
    entered = entered.where(F.col("__from") <= F.col("__end"))
    return old.join(entered.select(*_groups(node), *identity).distinct(), [*node.by, *identity], "left_anti")


def _merge(entered: DataFrame, node: WindowedAggregate, inputs: StructType, *also_by: str) -> DataFrame:
    merged = entered.groupBy(*_groups(node), "__end", *also_by).agg(
        *merged_columns(node.aggregates, inputs), F.max("__event_ms").alias("__event_ms")
    )
    return merged.select(
        *_groups(node),
        F.timestamp_millis(F.col("__end") - difference_ms(node)).alias("window_start"),
        F.timestamp_millis("__end").alias("window_end"),
        *finished_columns(node.aggregates, inputs),
        F.timestamp_millis("__event_ms").alias("__timestamp"),
        *also_by,
    )


def _groups(node: WindowedAggregate) -> list[Expr]:
    return [F.col(quote(name)) for name in node.by]
