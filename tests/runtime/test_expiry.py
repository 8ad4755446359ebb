"""Expiry frees the state of closed windows, and nobody can tell from the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.observe.views import Views
from headrace.spark.lake_rows import read
from headrace.writing.node_runner import NodeRunner
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

topic = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
node = (
    topic.group_by("sensor_id")
    .window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("counts")
)


def test_expiry_leaves_only_open_windows_in_the_state_and_changes_no_result(
    spark: SparkSession, lake: Lake
) -> None:
    line, views = Line(spark, lake, node), Views(spark, lake)
    for minute in ("00", "01", "02"):
        line.pipe(f"2024-05-01 12:{minute}:00")
        line.commit()
        line.fold()
    before = [sorted(view(node).collect()) for view in (views.read, views.ledger, views.open_windows)]

    line.runner.maintain()

    assert read(spark, lake.state("counts")).count() == 1
    assert [sorted(view(node).collect()) for view in (views.read, views.ledger, views.open_windows)] == before
    assert NodeRunner(spark, node, lake).progress == line.runner.progress


def test_a_stream_goes_on_after_expiry_and_equals_its_backfill(spark: SparkSession, lake: Lake) -> None:
    line, views = Line(spark, lake, node), Views(spark, lake)
    for minute in ("00", "02", "03", "06"):
        line.pipe(f"2024-05-01 12:{minute}:00")
        line.commit()
        line.fold()
        line.runner.maintain()
    assert sorted(views.read(node).collect()) == sorted(views.recompute(node).collect())
    assert [row["n"] for row in views.read(node).orderBy("window_start").collect()] == [1, 2]
