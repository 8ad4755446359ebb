"""What the topics of the peer's jobs say that the results must be, by neither of the systems compared.

Each function takes whole topics, with the columns of Spark's reader, `key` and `value` as text, and gives rows as the peer
writes them: `key`, and the columns of its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from benchmarks.readings import WINDOW_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

GRACE_MS = WINDOW_MS
POSITION = "client STRING, ticker STRING, amount BIGINT"
TICKER = "exchange STRING, name STRING, founded INT"
MISSING = "__missing"


def parsed(latest: DataFrame, schema: StructType | str) -> DataFrame:
    """The columns of values beside their keys."""
    return latest.select("key", F.from_json("value", schema).alias("value")).select("key", "value.*")


def latest_of(records: DataFrame) -> DataFrame:
    """The newest record of each key; none where it is a tombstone."""
    newest = Window.partitionBy("key").orderBy(F.desc("offset"))
    rows = records.withColumn("__number", F.row_number().over(newest))
    return rows.where("__number = 1 AND value IS NOT NULL").drop("__number")


def differences(found: DataFrame, wanted: DataFrame) -> DataFrame:
    """The rows that are not in both; `__missing`: how many times more what is wanted has each, negative where it has fewer.

    Each side is read once, which `exceptAll` in both directions would do twice.
    """
    sides = wanted.withColumn(MISSING, F.lit(1)).unionByName(found.withColumn(MISSING, F.lit(-1)))
    return sides.groupBy(*wanted.columns).agg(F.sum(MISSING).alias(MISSING)).where(F.col(MISSING) != 0)


def windows_of(readings: DataFrame) -> DataFrame:
    """The windows that are closed: a record is late when its partition's stream time is beyond end and grace."""
    stream_ms = F.max("ms").over(Window.partitionBy("partition").orderBy("offset"))
    start = F.col("ms") - F.col("ms") % WINDOW_MS
    closes_ms = F.col("start") + WINDOW_MS + GRACE_MS
    end_ms = readings.groupBy("partition").agg(F.unix_millis(F.max("timestamp")).alias("end_ms"))
    rows = (
        readings.withColumn("ms", F.unix_millis("timestamp"))
        .withColumns({"stream_ms": stream_ms, "start": start})
        .where(closes_ms > F.col("stream_ms"))
        .join(F.broadcast(end_ms), "partition")
        .where(closes_ms <= F.col("end_ms"))
    )
    value = F.get_json_object("value", "$.value").cast("bigint")
    windows = rows.groupBy(F.concat_ws("@", "key", F.col("start").cast("string")).alias("key"))
    return windows.agg(F.count(F.lit(1)).alias("count"), F.sum(value).alias("sum"))


def joined_of(positions: DataFrame, tickers: DataFrame) -> DataFrame:
    """The newest position of each key with the newest row of the ticker that it names."""
    known = parsed(latest_of(tickers), TICKER).withColumnRenamed("key", "ticker")
    rows = parsed(latest_of(positions), POSITION).join(known, "ticker", "left")
    return rows.select("key", "client", "ticker", "amount", "exchange", "name", "founded")


def totals_of(tightenings: DataFrame) -> DataFrame:
    """Sums by key without replays: records whose root has no higher offset than one before them with that key."""
    chain = F.filter("headers", lambda header: header["key"] == "source-chain")[0]["value"].cast("string")

    def root(place: int) -> Column:
        return F.get_json_object(chain, f"$[0][{place}]")

    before = (
        Window.partitionBy("key", "root", "root_partition")
        .orderBy("offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    rows = tightenings.withColumns(
        {"root": root(0), "root_partition": root(1), "root_offset": root(2).cast("bigint")}
    )
    fresh = rows.withColumn("reached", F.max("root_offset").over(before)).where(
        "reached IS NULL OR root_offset > reached"
    )
    count = F.get_json_object("value", "$.count").cast("bigint")
    return fresh.groupBy("key").agg(F.sum(count).alias("sum"))
