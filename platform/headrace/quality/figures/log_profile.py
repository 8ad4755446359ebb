"""The content of a log, in numbers: records, dead letters and their reasons, how far each partition goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.explain.asking import why_not
from headrace.quality.words import moment, span
from headrace.sequence.log_columns import CONTROL, DEAD_LETTER, RECORD, TICK, log_schema
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import read_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Topic
    from headrace.lake.paths import Lake

REASONS_SHOWN = 8


@dataclass(frozen=True)
class LogProfile:
    """One version of a log.

    records     rows with an offset, dead letters included
    reasons     of dead letters, commonest first: how many
    examples    of each reason the command that says what has become of one
    partitions  one row of numbers for each
    """

    rows: DataFrame
    records: int
    dead_letters: int
    reasons: Mapping[str, int]
    examples: Mapping[str, str]
    partitions: tuple[Mapping[str, Any], ...]
    read_to_ms: int | None

    def evidence(self) -> dict[str, Any]:
        """The figures that the page shows beside the checks."""
        return {
            "delivered": self.records,
            "dead_letters": self.dead_letters,
            "reasons": [
                {
                    "reason": reason,
                    "records": number,
                    "command": self.examples[reason],
                }
                for reason, number in self.reasons.items()
            ],
            "partitions": self.partitions,
            "clocks": clocks(self.partitions),
        }


def clocks(partitions: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The stream times of the partitions as shares of one axis, for a picture; None: no partition has one."""
    known = [row for row in partitions if row["stream_ms"] is not None]
    if not known:
        return None
    lowest = min(row["stream_ms"] for row in known)
    end = max(max(row["stream_ms"], row["ingested_ms"] or 0) for row in known)
    begin = lowest - max((end - lowest) // 10, 1)

    def share(ms: int) -> float:
        return float(round(100 * (ms - begin) / (end - begin), 2))

    return {
        "from_time": moment(begin),
        "to_time": moment(end),
        "lowest_time": moment(lowest),
        "lowest_share": share(lowest),
        "partitions": [
            {
                "partition": row["partition"],
                "stream_time": moment(row["stream_ms"]),
                "behind": span(end - row["stream_ms"]),
                "share": share(row["stream_ms"]),
                "is_lowest": row["stream_ms"] == lowest,
            }
            for row in known
        ],
    }


def profile(spark: SparkSession, lake: Lake, topic: Topic) -> LogProfile:
    """Read a topic's log once, as of its newest version."""
    path = lake.log(topic.name)
    if lakes.exists(path):
        rows = read_table(spark, path, lakes.open_table(path).version)
    else:
        rows = local_frame(spark, [], log_schema(topic))
    counts = rows.groupBy("partition").agg(
        *(F.count_if(F.col("kind") == kind).alias(kind) for kind in (RECORD, DEAD_LETTER, TICK, CONTROL)),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.unix_millis(F.max("stream_time")).alias("stream_ms"),
        F.unix_millis(F.max("ingested_at")).alias("ingested_ms"),
    )
    found = sorted((row.asDict() for row in counts.collect()), key=lambda row: row["partition"])
    dead_letters = sum(row[DEAD_LETTER] for row in found)
    reasons = _reasons(rows) if dead_letters else {}
    return LogProfile(
        rows,
        sum(row[RECORD] for row in found) + dead_letters,
        dead_letters,
        {reason: number for reason, (number, _) in reasons.items()},
        {reason: why_not(topic.name, *place) for reason, (_, place) in reasons.items()},
        tuple({**row, "stream_time": moment(row["stream_ms"])} for row in found),
        max((row["ingested_ms"] for row in found), default=None),
    )


def _reasons(rows: DataFrame) -> dict[str, tuple[int, tuple[int, int]]]:
    """For each reason how many dead letters it has, and the place of the first of them."""
    dead = rows.where(F.col("kind") == DEAD_LETTER).groupBy("reason")
    counted = dead.agg(
        F.count(F.lit(1)).alias("count"), F.min(F.struct("partition", "offset")).alias("place")
    )
    common = counted.orderBy(F.col("count").desc(), "reason").limit(REASONS_SHOWN).collect()
    return {
        row["reason"] or "no reason recorded": (row["count"], (row["place"][0], row["place"][1]))
        for row in common
    }
