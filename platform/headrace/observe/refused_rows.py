"""The rows that the sinks of a node have refused, grouped by sink and reason, with examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.lake import small_files
from headrace.observe.dead_letters import NUMBER
from headrace.spark.lake_rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class RefusedRows:
    """Holds the rows that one sink refuses for one reason, in which numbers are written as `#`.

    examples  the newest, as JSON
    """

    sink: str
    reason: str
    rows: int
    examples: Sequence[str]

    def __str__(self) -> str:
        """A line for the reason, and one for each example."""
        head = f"{self.rows:,} × {self.reason} (sink {self.sink})"
        return "\n".join([head, *(f"  {row}" for row in self.examples)])


def refused_rows(spark: SparkSession, lake: Lake, node: str, examples: int) -> list[RefusedRows]:
    """The refused rows of a node, also of sinks that it had; the reason with most rows comes first."""
    found = [
        each
        for sink in small_files.names(lake.refused(node, "").rstrip("/"))
        if lakes.exists(lake.refused(node, sink))
        for each in _of_sink(spark, lake.refused(node, sink), sink, examples)
    ]
    return sorted(found, key=lambda each: (-each.rows, each.sink, each.reason))


def _of_sink(spark: SparkSession, uri: str, sink: str, examples: int) -> Iterator[RefusedRows]:
    rows = read(spark, uri).withColumn("alike", F.regexp_replace("reason", NUMBER, "#"))
    newest = Window.partitionBy("alike").orderBy(F.desc("sequence"), F.desc("ordinal"))
    numbered = rows.withColumn("number", F.row_number().over(newest))
    shown = F.when(F.col("number") <= examples, F.struct("number", "row"))
    groups = numbered.groupBy("alike").agg(
        F.count("*").alias("rows"), F.sort_array(F.collect_list(shown)).alias("examples")
    )
    for reason, count, newest_rows in groups.collect():
        yield RefusedRows(sink, reason, count, tuple(row for _, row in newest_rows))
