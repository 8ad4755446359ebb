"""Figures of a node's page by day and by lateness: where the records of each day went, and how late the late ones were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace.fold.fates import FATES, KEPT, LATE, NOT_RECORDS
from headrace.nodes.rows import row_frames
from headrace.nodes.rows.reader_frames import logs_and_unusable
from headrace.quality.figures.examples import late_examples, unmatched_examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame, SparkSession

    from headrace.lake.paths import Lake
    from headrace.quality.books import Books

DAYS_SHOWN = 31
UNDATED = "no event time"
POSITION = ("topic", "partition", "offset")
FATES_BY_DAY = (KEPT, *FATES[2:])  # which of the kept are still open is known over all days alone
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
BOUNDS = (
    (MINUTE_MS, "less than a minute"),
    (10 * MINUTE_MS, "1 to 10 minutes"),
    (HOUR_MS, "10 minutes to an hour"),
    (DAY_MS, "an hour to a day"),
)
LONGEST = "more than a day"


def evidence_by_day(spark: SparkSession, lake: Lake, books: Books) -> dict[str, Any]:
    """The evidence by day and by lateness, as of the books.

    Out: `by_day`      rows of topic, UTC day of the event time, and records by fate, the newest first
         `days_before` how many rows are older than those
         `lateness`    rows of how late, records and closed windows; empty when nothing is late
         `examples`    late records, and rows without a partner, each with the command that says why
    """
    node = books.node
    if not books.accounts:
        return {"by_day": [], "days_before": 0, "lateness": [], "examples": []}
    logs, unusable = logs_and_unusable(spark, lake, node, books.progress.upto_ms)
    day = F.to_date(F.timestamp_millis("__event_ms")).cast("string")
    records = row_frames.decided(node, logs, unusable).where(~F.col("__fate").isin(*NOT_RECORDS))
    met = (F.count_if(F.col("__fate") == fate).alias(fate) for fate in FATES_BY_DAY)
    counted = records.groupBy("__topic", F.coalesce(day, F.lit(UNDATED)).alias("day")).agg(*met).collect()
    rows = sorted(
        (_row(row.asDict()) for row in counted), key=lambda row: (row["day"], row["topic"]), reverse=True
    )
    late = row_frames.late(node, logs, unusable) if books.total(LATE) else None
    if late is not None and not any(row["fates"][LATE] for row in rows):
        _move_late(rows, late)
    return {
        "by_day": rows[:DAYS_SHOWN],
        "days_before": len(rows) - len(rows[:DAYS_SHOWN]),
        "lateness": [] if late is None else _lateness(late),
        "examples": [*([] if late is None else late_examples(late)), *unmatched_examples(books)],
    }


def _move_late(rows: Sequence[dict[str, Any]], late: DataFrame) -> None:
    """A record is late for sessions with those still open, and not by its own row alone."""
    day = F.to_date("timestamp").cast("string")
    counted = late.groupBy("topic", day.alias("day")).agg(F.countDistinct(*POSITION).alias("records"))
    found = {(row["topic"], row["day"]): row["records"] for row in counted.collect()}
    for row in rows:
        records = found.get((row["topic"], row["day"]), 0)
        row["fates"][LATE] += records
        row["fates"][KEPT] -= records


def _row(counts: dict[str, Any]) -> dict[str, Any]:
    fates = {fate: counts[fate] for fate in FATES_BY_DAY}
    return {"topic": counts["__topic"], "day": counts["day"], "fates": fates, "records": sum(fates.values())}


def _lateness(late: DataFrame) -> list[dict[str, Any]]:
    counted = late.groupBy(_how_late().alias("lateness")).agg(
        F.countDistinct(*POSITION).alias("records"), F.count(F.lit(1)).alias("windows")
    )
    found = {row["lateness"]: row for row in counted.collect()}
    return [
        {"lateness": name, "records": found[name]["records"], "windows": found[name]["windows"]}
        for name in _names()
        if name in found
    ]


def _how_late() -> Expr:
    how: Expr = F.lit(LONGEST)
    for below_ms, name in reversed(BOUNDS):
        how = F.when(F.col("late_by_ms") < below_ms, name).otherwise(how)
    return how


def _names() -> Sequence[str]:
    return [*(name for _, name in BOUNDS), LONGEST]
