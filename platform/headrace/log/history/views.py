"""Views of the log: what was not used, kept with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.sequence.log_columns import DEAD_LETTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REDRIVEN = "headrace-redrive"  # the header of a record that was a dead letter: its topic, partition and offset, as JSON


def dead_letters(log: DataFrame) -> DataFrame:
    """The records that could not be decoded or whose timestamp is implausible.

    Out: topic, partition, offset, timestamp (null if unknown), reason, key and value (raw bytes), headers,
         ingested_at, node (null: the record is dead for every node); one row per record
    """
    return log.where(F.col("kind") == DEAD_LETTER).select(
        *("topic", "partition", "offset", "timestamp", "reason"),
        F.col("raw_key").alias("key"),
        F.col("raw_value").alias("value"),
        *("headers", "ingested_at"),
        F.lit(None).cast("string").alias("node"),
    )


def redriven(log: DataFrame) -> DataFrame:
    """The dead letters of a log that stand in it again.

    Out: partition, offset; one row for each
    """
    named = F.expr(f"try_element_at(filter(headers, each -> each.key = '{REDRIVEN}'), -1).value").cast(
        "string"
    )
    place = F.from_json(named, "ARRAY<STRING>")
    found = log.where(named.isNotNull()).select(
        F.get(place, 0).alias("topic"),
        F.get(place, 1).try_cast("int").alias("partition"),
        F.get(place, 2).try_cast("bigint").alias("offset"),
        F.col("topic").alias("own"),
    )
    return (
        found.where("topic = own AND partition IS NOT NULL AND offset IS NOT NULL")
        .select("partition", "offset")
        .distinct()
    )
