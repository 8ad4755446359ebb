"""Control rows of a log: what people decided while it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.sequence.log_columns import CONTROL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def control_rows(log: DataFrame, action: str) -> list[tuple[int, str]]:
    """Commit time in ms and JSON of a log's control rows of one action, oldest first; one for each decision.

    In: log  a decision may stand in several of its rows, one for each partition, all of one commit
    """
    rows = log.where((F.col("kind") == CONTROL) & (F.get_json_object("control", "$.action") == action))
    found = rows.select(F.unix_millis("ingested_at").alias("ms"), "control").distinct().collect()
    return sorted((row["ms"], row["control"]) for row in found)
