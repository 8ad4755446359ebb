"""The monotone guard: on each path positions only rise, so what does not lie beyond the highest was seen before.

A path is the source chain's (topic, partition) pairs and the record's own; a position on it is the root offset and
then the ordinals in chain order, compared lexicographically. Another path has a guard of its own.

Law: `replay` is false exactly for the records whose position lies beyond every earlier one of their path, earlier by
offset: a path ends in one partition, so how the log was cut does not show. Dead letters advance nothing.
State: one position for each path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description.replay import MONOTONE
from headrace.log.chain import root_of
from headrace.log.columns import RECORD
from headrace.spark.frames import local_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, Row, SparkSession

Position = tuple[int, tuple[int, ...]]
POSITION = ("root_offset", "ordinals")
CARRIED = "path STRING, __carried STRUCT<root_offset: BIGINT, ordinals: ARRAY<INT>>, __number BIGINT"


@dataclass(frozen=True)
class MonotoneGuard:
    """The highest position seen on each path."""

    highest: Mapping[str, Position] = field(default_factory=dict)
    mode = MONOTONE

    def judge(self, decoded: DataFrame) -> DataFrame:
        """Add `replay`, and `__seen` for `after`: on the last record of each path, the highest position so far.

        In:  decoded  one row per record, with the chain's columns; null in dead letters
        Out: one row per record; rows change tasks only if Spark does not know that each partition lies in one
        """
        frame = decoded.withColumn("__position", F.struct(*POSITION))
        frame = frame.join(F.broadcast(self._carried(decoded.sparkSession)), "path", "left")
        # A known path is told by its number, which sorts sooner than its name; a hash sorts new ones.
        number, new = (
            F.coalesce("__number", F.xxhash64("path")),
            F.when(F.col("__number").isNull(), F.col("path")),
        )
        ordered = Window.partitionBy(number, new, "partition").orderBy("offset")
        before = F.max("__position").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
        last = F.lead("offset").over(ordered).isNull() & F.col("path").isNotNull()
        before = F.greatest(before, "__carried").alias("__before")
        frame = frame.select("*", before, last.alias("__last_of_path"))
        highest = F.greatest("__before", "__position")
        return frame.select(
            *decoded.columns,
            (
                F.col("path").isNotNull() & F.coalesce(F.col("__position") <= F.col("__before"), F.lit(False))
            ).alias("replay"),
            F.when(
                F.col("__last_of_path"), F.struct("path", *(highest[name].alias(name) for name in POSITION))
            ).alias("__seen"),
        )

    def after(self, seen: Iterable[Row]) -> MonotoneGuard:
        """The guard after a commit, from what `judge` marked or `seen_in` found."""
        highest = dict(self.highest)
        for row in seen:
            position = (row["root_offset"], tuple(row["ordinals"]))
            highest[row["path"]] = max(position, highest.get(row["path"], position))
        return MonotoneGuard(highest)

    def seen_in(self, rows: DataFrame) -> list[Row]:
        """What a stretch of the log shows to `after`."""
        records = rows.where((F.col("kind") == RECORD) & F.col("path").isNotNull())
        position = F.max(F.struct(*POSITION)).alias("position")
        return records.groupBy("path").agg(position).select("path", "position.*").collect()

    def roots(self) -> set[tuple[str, int]]:
        """The root partitions that the guard knows."""
        return {root_of(path) for path in self.highest}

    def without(self, roots: set[tuple[str, int]]) -> MonotoneGuard:
        """The guard, everything about these root partitions forgotten."""
        return MonotoneGuard({path: at for path, at in self.highest.items() if root_of(path) not in roots})

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON document."""
        return {
            "mode": self.mode,
            "highest": {path: [at[0], list(at[1])] for path, at in self.highest.items()},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> MonotoneGuard:
        """The guard that `to_json` wrote."""
        return cls({path: (at[0], tuple(at[1])) for path, at in document["highest"].items()})

    def _carried(self, spark: SparkSession) -> DataFrame:
        """The state: one row per path, with `__carried`, its highest position, and `__number`."""
        rows = [(path, at, number) for number, (path, at) in enumerate(self.highest.items())]
        return local_frame(spark, rows, CARRIED)
