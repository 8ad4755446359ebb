"""Tables: what other readers of Delta find, deletes that are remembered, and a crash in the fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.lake.care.merge import upsert
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import Backfill
from headrace.nodes.node_tables import base_of
from headrace.observe.local_views import LocalViews
from headrace.writing.node_runner import NodeRunner
from tests.rows import columns, file_rows, in_order
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Table
    from headrace.lake import TableWriter

pytestmark = pytest.mark.spark

READINGS = hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE")
BY_TIME = READINGS.table("timestamp").named("by_time")


def fed(line: Line, *records: tuple[str, int, float | None]) -> None:
    """One commit and one micro-batch of (sensor, second, value)."""
    for sensor, second, value in records:
        line.pipe(f"2024-05-01 12:00:{second:02}", sensor=sensor, value=value)
    line.commit()
    line.fold()


def read(line: Line, node: Table) -> list[tuple[object, ...]]:
    return in_order(LocalViews(line.spark, line.lake).read(node), *node.columns)


def base(line: Line) -> list[tuple[object, ...]]:
    """The table as a foreign reader finds it."""
    return sorted(columns(file_rows(line.table), "sensor_id", "value"))


def test_a_delete_is_remembered_beside_the_table_and_an_older_record_does_not_come_back(
    spark: SparkSession, lake: Lake
) -> None:
    line = Line(spark, lake, BY_TIME)
    fed(line, ("s1", 10, 1.0), ("s2", 10, 2.0))
    line.runner.maintain()
    fed(line, ("s1", 30, None))
    line.runner.maintain()
    assert base(line) == [("s2", 2.0)]
    fed(line, ("s1", 20, 5.0))
    assert read(line, BY_TIME) == [("s2", 2.0)]
    line.runner.maintain()
    assert base(line) == [("s2", 2.0)]
    assert Backfill(spark, lake, BY_TIME).run()[0].equal
    fed(line, ("s1", 30, 7.0))  # no older, and further on in the log
    line.runner.maintain()
    assert base(line) == [("s1", 7.0), ("s2", 2.0)]
    changed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    kinds = changed.load(line.table).groupBy("_change_type").agg(F.count(F.lit(1)).alias("rows")).collect()
    assert {row["_change_type"]: row["rows"] for row in kinds} == {"insert": 3, "delete": 1}


def test_a_crash_in_the_fold_loses_no_delete(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(spark, lake, BY_TIME)
    fed(line, ("s1", 10, 1.0), ("s2", 10, 2.0))
    line.runner.maintain()
    fed(line, ("s1", 30, None), ("s2", 5, 9.0))

    def killed_at_the_results(writer: TableWriter, **merge: Any) -> int:
        if writer.uri == line.table:
            raise KeyboardInterrupt
        return upsert(writer, **merge)

    with monkeypatch.context() as crash:
        crash.setattr("headrace.nodes.bases.upsert", killed_at_the_results)
        with pytest.raises(KeyboardInterrupt):
            line.runner.maintain()
    assert base(line) == [("s1", 1.0), ("s2", 2.0)]
    assert read(line, BY_TIME) == [("s2", 2.0)]
    line.runner = NodeRunner(spark, BY_TIME, lake)
    assert line.runner.unfolded == 1
    fed(line, ("s1", 20, 5.0))
    line.runner.maintain()
    assert base(line) == read(line, BY_TIME) == [("s2", 2.0)]
    assert base_of(lake, BY_TIME).batch == 3


def test_by_position_in_one_topic_the_last_record_counts(spark: SparkSession, lake: Lake) -> None:
    node = READINGS.table().named("latest")
    line = Line(spark, lake, node)
    fed(line, ("s1", 10, 1.0), ("s2", 10, 2.0), ("s1", 30, None))
    line.runner.maintain()
    fed(line, ("s1", 20, 5.0), ("s2", 40, None))
    line.runner.maintain()
    assert base(line) == read(line, node) == [("s1", 5.0)]
