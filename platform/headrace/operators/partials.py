"""Partial aggregates: the only thing that a micro-batch appends to the state of an aggregate."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.log.columns import DEAD_LETTER
from headrace.operators.aggregates import in_groups, mergeable
from headrace.operators.rows import KEPT, position

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.description import Aggregate
    from headrace.operators.aggregates import Over

    Aggregates = Sequence[tuple[str, Aggregate]]


def unusable(inputs: StructType, by: Sequence[str], aggregates: Aggregates) -> Expr:
    """Why a row cannot enter any group: a group column is null, or an input is out of range; else null."""
    cases = [(F.col(quote(name)).isNull(), f"group: {name} is null") for name in by]
    for name, aggregate in aggregates:
        out_of_range = mergeable(aggregate, inputs).unusable
        if out_of_range is not None:
            cases.append((out_of_range, f"out of range: {aggregate.column} for {aggregate.kind} {name}"))
    nothing = F.lit(None).cast("string")
    return reduce(lambda rest, case: F.when(case[0], case[1]).otherwise(rest), reversed(cases), nothing)


def decide_by_group(rows: DataFrame, by: Sequence[str], aggregates: Aggregates) -> DataFrame:
    """Complete `__fate` and `__reason`: every record that has a group and usable inputs is kept.

    In, Out: rows as `rows_of` gives them
    """
    cannot = unusable(rows.schema, by, aggregates)
    reason = F.when(F.col("__fate").isNull(), cannot).otherwise(F.col("__reason"))
    rows = rows.withColumn("__reason", reason)
    fate = F.when(F.col("__reason").isNotNull(), DEAD_LETTER).otherwise(KEPT)
    return rows.withColumn("__fate", F.coalesce("__fate", fate))


def partial_aggregates(
    decided: DataFrame,
    by: Sequence[str],
    aggregates: Aggregates,
    *,
    also_by: Mapping[str, Expr] | None = None,
    also: Mapping[str, Expr] | None = None,
    placed: bool = False,
) -> DataFrame:
    """Aggregate the rows that are kept, and count the rest.

    In:     decided  rows with `__fate` completed
            also_by  more columns to group kept rows by; `also`: more columns to aggregate
            placed   add `__at`, the position of the last row that is kept
    Out:    `by`, `__topic`, `__partition`, `__fate`, `also_by`, the partial columns (`__<name>_<suffix>`), `__records`,
            `__event_ms` and `__stream_ms` (highest), `also`, `__at`. One row per group and partition for rows that are kept;
            one row per partition and fate for all others.
    Law:    rows of the output merge: aggregating a log in pieces and merging equals aggregating it whole.
    """
    kept = F.col("__fate") == KEPT
    keys: list[Expr] = [
        *(F.col(name) for name in ("__topic", "__partition", "__fate")),
        *(F.when(kept, F.col(quote(name))).alias(name) for name in by),
        *(F.when(kept, expression).alias(name) for name, expression in (also_by or {}).items()),
    ]
    # In a partition commit times and offsets rise together. To aggregate structs Spark sorts, for numbers it hashes.
    last = {name: F.max(name).alias(name) for name in ("__ingested_ms", "__offset") if placed}
    partials = decided.groupBy(*keys).agg(
        *partial_columns(aggregates, decided.schema),
        F.count(F.lit(1)).alias("__records"),
        F.max("__event_ms").alias("__event_ms"),
        F.max("__stream_ms").alias("__stream_ms"),
        *(expression.alias(name) for name, expression in (also or {}).items()),
        *last.values(),
    )
    return partials.withColumn("__at", F.when(kept, position())).drop(*last) if placed else partials


def kept_partials(partials: DataFrame) -> DataFrame:
    """Those of the rows that are kept, without `__fate`."""
    return partials.where(F.col("__fate") == KEPT).drop("__fate")


def partial_columns(aggregates: Aggregates, inputs: StructType) -> list[Expr]:
    """Aggregate functions that make partial columns, `__<name>_<suffix>`, of rows."""
    return [
        expression.alias(f"__{name}_{suffix}")
        for name, aggregate in aggregates
        for suffix, expression in mergeable(aggregate, inputs).partial.items()
    ]


def merged_columns(aggregates: Aggregates, inputs: StructType, over: Over = in_groups) -> list[Expr]:
    """Aggregate functions that combine partial columns, under their own names; `over`: in groups or over a window."""
    return [
        merge(F.col(quote(f"__{name}_{suffix}")), over).alias(f"__{name}_{suffix}")
        for name, aggregate in aggregates
        for suffix, merge in mergeable(aggregate, inputs).merge.items()
    ]


def finished_columns(aggregates: Aggregates, inputs: StructType) -> list[Expr]:
    """The aggregates by name, from merged partial columns."""
    return [
        expressions.finish({s: F.col(quote(f"__{name}_{s}")) for s in expressions.merge}).alias(name)
        for name, expressions in ((name, mergeable(aggregate, inputs)) for name, aggregate in aggregates)
    ]
