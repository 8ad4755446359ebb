"""The log's order: number emitted rows by their place in it, and by nothing that a micro-batch decides; sort by it."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate


def numbered(emitted: DataFrame, logs: Mapping[str, DataFrame], at: str) -> DataFrame:
    """Add `__sequence` (the log commit, as `ingested_at` in ms) and `__ordinal` (the place within that commit).

    In:     emitted  rows with `at`, the position of a record of these logs (see `rows.position`)
            logs     for each topic the increment that holds those records
    Law:    increases in the log's order. Offsets of a partition within one commit are a block; blocks follow one another
            in the order of topic and partition, so the ordinal needs no sort of the records.
    """
    offsets = [
        log.where(F.col("offset").isNotNull()).select(
            F.unix_millis("ingested_at").alias("__ingested_ms"),
            F.col("topic").alias("__topic"),
            F.col("partition").alias("__partition"),
            F.col("offset").alias("__offset"),
        )
        for log in logs.values()
    ]
    block = ("__ingested_ms", "__topic", "__partition")
    blocks = reduce(lambda left, right: left.unionByName(right), offsets).groupBy(*block)
    ranges = blocks.agg(F.min("__offset").alias("__first"), F.max("__offset").alias("__last"))
    width = F.col("__last") - F.col("__first") + 1
    before = Window.partitionBy("__ingested_ms").orderBy("__topic", "__partition")
    begun = F.coalesce(F.sum(width).over(before.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    begins = ranges.select(*block, (begun - F.col("__first")).alias("__begins"))
    placed = emitted.select("*", *(F.col(f"{at}.{name}").alias(name) for name in (*block, "__offset")))
    return placed.join(F.broadcast(begins), list(block)).select(
        *(F.col(f"`{name}`") for name in emitted.columns),
        F.col("__ingested_ms").alias("__sequence"),
        (F.col("__begins") + F.col("__offset")).cast("int").alias("__ordinal"),
    )


def in_order_of_ends(results: DataFrame, node: WindowedAggregate) -> DataFrame:
    """Closed windows as sinks get them: in the order of their ends, in which the lowest stream time closes them.

    In:     results  columns of the node's table and `__timestamp`, with all windows of one end or none of them
    Out:    as `Folded.emitted`
    Law:    a window's place does not depend on the increment that closed it; windows of one end are counted by group.
    """
    by_group = [F.col(quote(name)) for name in node.by]
    ordinal = F.row_number().over(Window.partitionBy("window_end").orderBy(*by_group)) - 1
    return results.select(
        *(F.col(quote(name)) for name in node.columns),
        F.lit(False).alias("__deleted"),
        F.col("__timestamp"),
        F.unix_millis("window_end").alias("__sequence"),
        ordinal.alias("__ordinal"),
    )


def in_order(frame: DataFrame, name: str, place: Sequence[str]) -> Expr:
    """An array of structs that begin with the fields `place`, which tell them apart, in the order of these."""
    array_type = frame.schema[name].dataType
    assert isinstance(array_type, T.ArrayType)
    if not _holds_map(array_type):
        return F.sort_array(name)

    def at(record: Expr) -> Expr:
        return F.struct(*(record[field] for field in place))

    return F.array_sort(name, lambda left, right: F.when(at(left) < at(right), -1).otherwise(1))


def _holds_map(data_type: T.DataType) -> bool:
    match data_type:
        case T.MapType():
            return True
        case T.ArrayType():
            return _holds_map(data_type.elementType)
        case T.StructType():
            return any(_holds_map(field.dataType) for field in data_type.fields)
        case _:
            return False
