"""Report each day of a result table once the stream has closed its windows or batches, as a materialized partition."""

from __future__ import annotations

import datetime as dt
import time
from functools import partial
from typing import TYPE_CHECKING

from dagster import AssetMaterialization
from pyspark.sql import functions as F

from headrace.nodes.days import day_of_row, first_ms_of, last_complete_day
from headrace.orchestration.events.carry import materialize
from headrace.orchestration.keys import DATA_VERSION_TAG, stream_key, table_key
from headrace.spark.lake_rows import read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dagster import AssetExecutionContext
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.orchestration.pipeline import Pipeline

RETRY_SECONDS = 60.0


class Tries:
    """Reports of a stream's run to Dagster, which may be away: what fails is logged, and tried again after a minute."""

    def __init__(self, context: AssetExecutionContext, what: str) -> None:
        """In: what  is reported, in words."""
        self._context, self._what, self._retry_at = context, what, 0.0

    def report(self, report: Callable[[], None]) -> None:
        """Report, unless a report failed just before. Never raises."""
        if time.monotonic() < self._retry_at:
            return
        try:
            report()
        except Exception as error:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._context.log.warning(f"{self._what} not reported yet: {error}")


class CompletedDays:
    """The days of one node; one that is completed while the run lasts is reported whatever was before."""

    def __init__(
        self,
        context: AssetExecutionContext,
        pipeline: Pipeline,
        node: Node,
        spark: SparkSession,
        lake: Lake,
    ) -> None:
        """Nothing is read before the first `report`."""
        self._context, self._node, self._spark, self._lake = context, node, spark, lake
        self._key = table_key(node)
        self._first_day = pipeline.days.start.date()
        self._version = pipeline.versions()[stream_key(node)]
        self._checks = pipeline.checks()[self._key]
        self._through: dt.date | None = None
        self._tries = Tries(context, f"{self._key.to_user_string()}: completed days")

    def report(self, closed_ms: int | None, read_ms: int | None = None) -> None:
        """Report what was completed since the last call; costs nothing until a day ends. Never raises."""
        last = last_complete_day(self._node, closed_ms, read_ms)
        known = self._through is not None and last is not None and last <= self._through
        if last is not None and not known:
            self._tries.report(partial(self._report_through, last))

    def _report_through(self, last: dt.date) -> None:
        found = rows_by_day(self._spark, self._lake, self._node, after=self._through, through=last)
        starting = self._through is None
        known = self._context.instance.get_materialized_partitions(self._key) if starting else set()
        for day, rows in found.items():
            if day >= self._first_day and day.isoformat() not in known:
                self._report_day(day, rows)
        self._through = last

    def _report_day(self, day: dt.date, rows: int) -> None:
        completed = AssetMaterialization(
            self._key,
            partition=day.isoformat(),
            description="Everything that began on this day is closed.",
            metadata={"rows": rows, "dagster/partition_row_count": rows, "written by": "the stream"},
            tags={DATA_VERSION_TAG: self._version},
        )
        materialize(self._context, completed, self._checks)


def rows_by_day(
    spark: SparkSession, lake: Lake, node: Node, *, after: dt.date | None, through: dt.date
) -> dict[dt.date, int]:
    """Count the rows of results of each day, from the first that has any; days without rows in between count 0."""
    assert node.day_column is not None
    day = day_of_row(node)
    stored = read_table(spark, lake.table(node.required_name)).where(day <= F.lit(through))
    if after is not None:
        first_ms = first_ms_of(node, after + dt.timedelta(days=1))
        stored = stored.where(F.col(node.day_column) >= F.timestamp_millis(F.lit(first_ms)))
    counts = {row["day"]: row["count"] for row in stored.groupBy(day.alias("day")).count().collect()}
    first = after + dt.timedelta(days=1) if after is not None else min(counts, default=None)
    return {} if first is None else {each: counts.get(each, 0) for each in _days(first, through)}


def _days(first: dt.date, last: dt.date) -> Iterator[dt.date]:
    return (first + dt.timedelta(days=n) for n in range((last - first).days + 1))
