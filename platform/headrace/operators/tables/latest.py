"""The latest of several rows of a key."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.rows import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame

RANKED = ("__deleted", "__event_ms", "__at")  # beside the user's columns


def rank(order_by: str) -> Column:
    """What compares two rows of a key: the order of the log, or event time first."""
    return F.struct("__event_ms", "__at") if order_by == "timestamp" else F.col("__at")


def latest(rows: DataFrame, key: Sequence[str], order: Column) -> DataFrame:
    """One row for each key: the one with the highest `order`; the same columns.

    Law: associative, commutative and idempotent, as a maximum is.
    """
    others = [name for name in rows.columns if name not in key]
    found = rows.groupBy(*columns(key)).agg(F.max_by(F.struct(*columns(others)), order).alias("__row"))
    return found.select(*columns(key), *(F.col(f"__row.{quote(name)}").alias(name) for name in others))


def latest_of_increment(
    decided: DataFrame, key: Sequence[str], values: Sequence[str], order: Column
) -> DataFrame:
    """The latest of the rows that are kept, and a count of all.

    In:     decided  rows with `__fate` completed, `__deleted` and `__at`
    Out:    `key`, `__row` (`values` and `RANKED`; values are null where deleted), `__topic`, `__partition`, `__fate`,
            `__records`, `__stream_ms`. One row per key and partition for rows that are kept; one per partition and fate
            for all others.
    """
    kept = F.col("__fate") == KEPT
    alive = (F.when(~F.col("__deleted"), F.col(quote(name))).alias(name) for name in values)
    row = F.struct(*alive, *RANKED)
    keys = [F.when(kept, F.col(quote(name))).alias(name) for name in key]
    # Spark sorts to aggregate structs, by eight bytes of the first column before it looks at rows: names begin alike.
    spread = F.when(kept, F.xxhash64(*columns(key))).alias("__spread")
    found = decided.groupBy(spread, "__topic", "__partition", "__fate", *keys).agg(
        F.max_by(F.when(kept, row), order).alias("__row"),
        F.count(F.lit(1)).alias("__records"),
        F.max("__stream_ms").alias("__stream_ms"),
    )
    return found.drop("__spread")


def alive(rows: DataFrame) -> DataFrame:
    """The rows that are not deleted."""
    return rows.where(~F.col("__deleted")).drop("__deleted")


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns; a column that one of them lacks is null there."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def columns(names: Iterable[str]) -> list[Column]:
    """Columns by name, whatever characters are in it."""
    return [F.col(quote(name)) for name in names]
