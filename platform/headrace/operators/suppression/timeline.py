"""The suppressor's own stream time and expiry time, in each partition, before and after each row.

The expiry time is the highest that own stream time less the time limit in force has been: waits that were opened at or
before it are over. So a longer limit calls back nothing that has left, and a shorter one is in force for what waits.

Source: Kafka Streams, KTableSuppressProcessorSupplier.java, `expiryTime`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.log.columns import TICK
from headrace.log.limits import LimitsSet
from headrace.operators.limits import entries_of, limits_row, own_limits
from headrace.operators.progress import Tally
from headrace.operators.rows import KEPT
from headrace.spark.varying import varying_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import UntilTimeLimit
    from headrace.operators.limits import InForce

Times = dict[str, int]
Entries = list[LimitsSet]
PLACE = ("ingested_ms", "offset", "sub", "stream_ms")


@dataclass(frozen=True)
class Known:
    """Each partition's own stream time and expiry time before an increment."""

    own_ms: Mapping[str, int] = field(default_factory=dict)
    expiry_ms: Mapping[str, int] = field(default_factory=dict)


def counted(decided: DataFrame, known_ms: Mapping[str, int], name: str) -> tuple[list[Tally], Times, Entries]:
    """The fates of an increment, each partition's own stream time after it, and the limits set in it, in one pass."""
    found = (
        decided.groupBy("__topic", "__partition", "__fate")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.max("__stream_ms").alias("stream_ms"),
            F.max(_time()).alias("time_ms"),
            F.collect_set(limits_row(name)).alias("limits"),
        )
        .collect()
    )
    times = dict(known_ms)
    for row in found:
        if row["time_ms"] is not None:
            partition = str(row["__partition"])
            times[partition] = max(row["time_ms"], times.get(partition, row["time_ms"]))
    tallies = [
        Tally(r["__topic"], r["__partition"], r["__fate"], r["records"], r["stream_ms"]) for r in found
    ]
    return tallies, times, entries_of(row["limits"] for row in found)


def timed(decided: DataFrame, known: Known, policies: InForce[UntilTimeLimit], name: str) -> DataFrame:
    """The rows that move the expiry time or are kept, with `__before_ms` and `__after_ms`: that time before and after each.

    In:     known     each partition's times before these rows
            policies  in force over them; name: of the node whose limits they are
    Out:    times are null where there is none yet. Rows that set limits of the node are among them.
    """
    rows = decided.where(F.col("__fate").isin(KEPT, TICK) | own_limits(name))
    order = Window.partitionBy("__partition").orderBy("__ingested_ms", F.col("__offset").asc_nulls_last())
    through = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    limit_ms = policies.at(lambda policy: policy.limit_ms)
    own = F.greatest(F.max(_time()).over(through), varying_by("__partition", known.own_ms))
    rows = rows.withColumn("__expiry_ms", own - limit_ms)
    before = F.max("__expiry_ms").over(order.rowsBetween(Window.unboundedPreceding, -1))
    expiry = varying_by("__partition", known.expiry_ms)
    times = {"__before_ms": before, "__after_ms": F.max("__expiry_ms").over(through)}
    return rows.withColumns({at: F.greatest(time, expiry) for at, time in times.items()}).drop("__expiry_ms")


def expiry_after(
    times: DataFrame, known: Known, own_ms: Mapping[str, int], policies: InForce[UntilTimeLimit]
) -> Times:
    """Each partition's expiry time after an increment.

    In: times  as `timed` gives them; read only if limits changed on the way
        own_ms  own stream times after the increment
    """
    after = dict(known.expiry_ms)
    if policies.changes:
        found = times.groupBy("__partition").agg(F.max("__after_ms").alias("ms")).where("ms IS NOT NULL")
        return after | {str(row["__partition"]): row["ms"] for row in found.collect()}
    for partition, ms in own_ms.items():
        expiry = ms - policies.last.limit_ms
        after[partition] = max(expiry, after.get(partition, expiry))
    return after


def advances(rows: DataFrame, first_update: Expr) -> DataFrame:
    """The rows that move the expiry time: `__partition`, `__time_ms` (that time) and `__place`.

    In: rows as `timed` gives them
    """
    moved = F.col("__before_ms").isNull() | (F.col("__after_ms") > F.col("__before_ms"))
    sub = F.when(F.col("__fate") == KEPT, first_update).otherwise(0).cast("long")
    return rows.where(moved).select(
        "__partition", F.col("__after_ms").alias("__time_ms"), place(sub).alias("__place")
    )


def place(sub: Expr) -> Expr:
    """Where a row stands in its partition, and the log's stream time there."""
    values = (F.col("__ingested_ms"), F.col("__offset"), sub, F.col("__stream_ms"))
    return F.struct(*(value.cast("long").alias(name) for value, name in zip(values, PLACE, strict=True)))


def _time() -> Expr:
    return F.when(F.col("__fate") == KEPT, F.col("__event_ms")).when(
        F.col("__fate") == TICK, F.col("__stream_ms")
    )
