"""How much waits in each partition: after an increment, and at most on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.operators.tables.latest import columns, union

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

Sizes = dict[str, dict[str, int]]
AFTER = ("ingested_ms", "offset", "sub")  # of a place: its order in the partition


def buffered(
    waits: DataFrame, held: DataFrame | None, before: Mapping[str, Mapping[str, int]]
) -> tuple[int, Sizes]:
    """How many waits an increment ends, and what waits in each partition after it.

    In:     waits   with `__left`, as persisted; held: what was held of their entries; before: the sizes before the increment
    Out:    by partition `records` (entries that wait), `bytes` (of the last record of each), `emitted` and `early` (rows
            since the beginning)
    """
    open_now, gone = F.col("__left").isNull(), F.col("__left").isNotNull()
    counts = waits.groupBy("__partition").agg(
        F.count_if(open_now).alias("records"),
        F.sum(F.when(open_now, F.col("__size_bytes")).otherwise(0)).alias("bytes"),
        F.count_if(gone).alias("emitted"),
        F.count_if(gone & F.col("__early")).alias("early"),
    )
    found = {str(row["__partition"]): row.asDict() for row in counts.collect()}
    was: dict[str, Any] = {}
    if held is not None and found:
        waiting = held.where(F.col("__opened_ms").isNotNull()).groupBy("__partition")
        sums = waiting.agg(F.count(F.lit(1)).alias("records"), F.sum("__size_bytes").alias("bytes"))
        was = {str(row["__partition"]): row.asDict() for row in sums.collect()}
    sizes: Sizes = {partition: dict(known) for partition, known in before.items()}
    for partition, now in found.items():
        known, old = sizes.setdefault(partition, {}), was.get(partition, {})
        for name in ("records", "bytes", "emitted", "early"):
            known[name] = known.get(name, 0) + now[name] - old.get(name, 0)
    return sum(now["emitted"] for now in found.values()), sizes


def peaks(
    assigned: DataFrame,
    held: DataFrame | None,
    waits: DataFrame,
    keys: Sequence[str],
    before: Mapping[str, Mapping[str, int]],
) -> Sizes:
    """The most that waits in each partition after any row of an increment: `records` and `bytes`.

    An update counts from its own place to that of the next in its wait, or to where the wait ends: judged there, after both.
    """
    wait = [*keys, "__opened_offset"]
    place = F.struct(*(F.col(f"__{name}").cast("long").alias(name) for name in AFTER))
    updates = assigned.select(*columns(wait), "__size_bytes", place.alias("__from"))
    if held is not None:
        waiting = held.where(F.col("__opened_ms").isNotNull()).select(*columns(wait), "__size_bytes")
        updates = union([updates, waiting])
    order = Window.partitionBy(*columns(wait)).orderBy(F.col("__from").asc_nulls_first())
    stays = updates.select("*", F.lead("__from").over(order).alias("__to"))
    ends = waits.select(
        *columns(wait), F.struct(*(F.col("__left")[n].alias(n) for n in AFTER)).alias("__end"), "__left"
    )
    stays = stays.join(ends, wait).withColumn(
        "__to", F.coalesce("__to", F.when(F.col("__left").isNotNull(), F.col("__end")))
    )
    moves = [
        stays.select(
            "__partition", F.col(at).alias("__at"), F.lit(sign).alias("__n"), F.col("__size_bytes") * sign
        )
        for at, sign in (("__from", 1), ("__to", -1))
    ]
    moves = [
        move.toDF("__partition", "__at", "__n", "__size_bytes").where("__at IS NOT NULL") for move in moves
    ]
    at = (
        union(moves)
        .groupBy("__partition", "__at")
        .agg(F.sum("__n").alias("records"), F.sum("__size_bytes").alias("bytes"))
    )
    # A tick has no offset and stands after the records of its commit.
    in_order = Window.partitionBy("__partition").orderBy(
        F.col("__at.ingested_ms"), F.col("__at.offset").asc_nulls_last(), F.col("__at.sub")
    )
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sums = at.select("__partition", *(F.sum(name).over(so_far).alias(name) for name in ("records", "bytes")))
    highest = sums.groupBy("__partition").agg(
        F.max("records").alias("records"), F.max("bytes").alias("bytes")
    )
    return {
        str(row["__partition"]): {
            name: row[name] + before.get(str(row["__partition"]), {}).get(name, 0)
            for name in ("records", "bytes")
        }
        for row in highest.collect()
    }
