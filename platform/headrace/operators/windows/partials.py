"""Partial aggregates: the only thing that a micro-batch appends to the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.aggregates import mergeable
from headrace.operators.rows import KEPT

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate


def partial_aggregates(assigned: DataFrame, node: WindowedAggregate) -> DataFrame:
    """Aggregate rows into panes, and count the rest.

    In:     assigned  as `assign_windows` gives it
    Out:    the group columns, `__topic`, `__partition`, `__fate`, `__pane`, `__from`, the partial columns
            (`__<name>_<suffix>`), `__records`, `__event_ms` and `__stream_ms` (highest). One row per group, pane, first
            window entered and partition for rows that are kept; one row per partition and fate for all others.
    Law:    rows of the output merge: aggregating a log in pieces and merging equals aggregating it whole.
    """
    kept = F.col("__fate") == KEPT
    keys: list[Expr] = [
        *(F.col(name) for name in ("__topic", "__partition", "__fate")),
        *(F.when(kept, F.col(quote(name))).alias(name) for name in node.by),
        F.when(kept, F.col("__pane")).alias("__pane"),
        F.when(kept, F.col("__from")).alias("__from"),
    ]
    partials = [
        expression.alias(f"__{name}_{suffix}")
        for name, aggregate in node.aggregates
        for suffix, expression in mergeable(aggregate, assigned.schema).partial.items()
    ]
    return assigned.groupBy(*keys).agg(
        *partials,
        F.count(F.lit(1)).alias("__records"),
        F.max("__event_ms").alias("__event_ms"),
        F.max("__stream_ms").alias("__stream_ms"),
    )
