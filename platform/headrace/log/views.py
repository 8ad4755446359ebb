"""Views of the log: what was not used, kept with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.sequence.log_columns import DEAD_LETTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
