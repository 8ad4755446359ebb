"""Rows of a log: what was decided about records, in the log's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark.frames import Selection
from headrace.spark.varying import varying

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class LogRows:
    """Makes rows of one log. Columns are made once for each shape of what comes: each costs a call into the JVM."""

    def __init__(self, schema: StructType) -> None:
        """In: schema of the log."""
        self._schema = schema
        self._known: dict[tuple[str, ...], Selection] = {}

    def of(self, decided: DataFrame, at_ms: int) -> DataFrame:
        """Rows as they are committed to a log.

        In:     decided  some of the log's columns, and `__stream_ms`, the stream time in ms; columns that it lacks are null
                at_ms    the commit's `ingested_at`
        Out:    the log's columns; one row per row of `decided`
        """
        names = tuple(decided.columns)
        if names not in self._known:
            self._known[names] = self._columns(names)
        at = F.timestamp_millis(varying(at_ms)).alias("ingested_at")
        return self._known[names].of(decided.withColumn("ingested_at", at))

    def _columns(self, names: tuple[str, ...]) -> Selection:
        given = {
            "ingested_at": F.col("ingested_at"),
            "stream_time": F.timestamp_millis("__stream_ms"),
            "replay": F.col("replay") if "replay" in names else F.lit(False),
        }
        present = {name: F.col(name) for name in names} | given
        columns = (present.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in self._schema)
        return Selection(*columns)
