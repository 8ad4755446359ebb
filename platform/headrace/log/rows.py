"""Rows of a log: what was decided about records, in the log's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark.varying import varying

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def log_rows(decided: DataFrame, schema: StructType, at_ms: int) -> DataFrame:
    """Rows as they are committed to a log.

    In:     decided  some of the log's columns, and `__stream_ms`, the stream time in ms; columns that it lacks are null
            schema   of the log
            at_ms    the commit's `ingested_at`
    Out:    the log's columns; one row per row of `decided`
    """
    given = {
        "ingested_at": F.timestamp_millis(varying(at_ms)),
        "stream_time": F.timestamp_millis("__stream_ms"),
        "replay": F.col("replay") if "replay" in decided.columns else F.lit(False),
    }
    present = {name: F.col(name) for name in decided.columns} | given
    return decided.select(*(present.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in schema))
