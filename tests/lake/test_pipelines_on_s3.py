"""Whole pipelines with their lake on a real S3 server: the same tables as on a local disk, through crashes and upkeep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Row

import headrace as hr
from headrace import lake as lakes
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import Backfill
from headrace.lifecycle.maintenance import Maintenance
from headrace.observe.keyed_reads import KeyedReads
from headrace.observe.sql import LakeSql
from headrace.observe.views import Views
from headrace.writing.node_runner import NodeRunner
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.description import Node

pytestmark = [pytest.mark.spark, pytest.mark.s3]

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
BY_SENSOR = READINGS.group_by("sensor_id")
COUNTS = (
    BY_SENSOR.window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("counts")
)
TOTALS = BY_SENSOR.aggregate(n=hr.count(), total=hr.sum("value")).named("totals")
BATCHES = BY_SENSOR.batch(max_records=3, max_wait="1 hour", collect=["value"]).named("batches")


class KilledError(Exception):
    """Raised where the test lets a micro-batch die."""


def live(spark: SparkSession, lake: Lake, node: Node) -> list[tuple[object, ...]]:
    """Readings in three cuts; the second micro-batch dies after its outputs; folds and maintenance; the rows of the table."""
    line, armed = Line(spark, lake, node), [True]

    def die_once(step: str) -> None:
        if step == "after outputs" and armed:
            armed.clear()
            raise KilledError

    for cut in range(3):
        for minute in range(4):
            line.pipe(
                f"2024-05-01 12:{4 * cut + minute:02}:00",
                f"s{minute % 2}",
                0.1 * minute,
                partition=minute % 2,
            )
        line.commit()
        if cut == 1:
            line.runner = NodeRunner(spark, node, lake, on_step=die_once)
            with pytest.raises(KilledError):
                line.fold()
            line.runner = NodeRunner(spark, node, lake)
        line.fold()
        line.runner.maintain()
    assert all(verdict.equal for verdict in Backfill(spark, lake, node).run())
    return sorted(map(tuple, Views(spark, lake).read(node).collect()), key=str)


@pytest.mark.parametrize(
    "node",
    [COUNTS, *(pytest.param(node, marks=pytest.mark.long) for node in (TOTALS, BATCHES))],
    ids=lambda node: node.required_name,
)
def test_the_tables_are_those_of_a_local_disk(
    spark: SparkSession, s3_root: str, tmp_path: Path, node: Node
) -> None:
    there, here = (Lake(root) for root in (f"{s3_root}/{node.required_name}", f"file:{tmp_path}"))
    rows = live(spark, there, node)
    assert rows == live(spark, here, node) != []
    done = list(Maintenance(spark, there, [node], patience_seconds=0).run())
    assert not any(each.skipped for each in done)
    table = Views(spark, there).read(node)
    assert sorted(map(tuple, table.collect()), key=str) == rows
    with LakeSql(there, [node]) as sql:
        assert sql.query(f"SELECT count(*) AS n FROM {node.required_name}").to_pylist() == [{"n": len(rows)}]
    if node is TOTALS:
        kept, shown = KeyedReads(there), table.select("sensor_id", "n", "total").collect()
        for each in map(Row.asDict, shown):
            found = kept.get(node, each["sensor_id"])
            assert found is not None
            assert {name: found[name] for name in each} == each


def test_an_overtaken_sequencer_adds_nothing(spark: SparkSession, s3_root: str) -> None:
    lake = Lake(s3_root)
    old = Line(spark, lake, COUNTS)
    old.pipe("2024-05-01 12:00:00")
    old.commit()
    lakes.forget()  # the newer one runs in another process
    new = Line(spark, lake, COUNTS)
    assert new.sequencer.state.batch == 1
    old.pipe("2024-05-01 12:01:00")
    with pytest.raises(lakes.FencedError, match="a newer appender"):
        old.commit()
    new.pipe("2024-05-01 12:01:00", "s2")
    new.commit()
    log = spark.read.format("delta").load(lake.log("readings").replace("s3://", "s3a://"))
    assert sorted(row["offset"] for row in log.where("offset IS NOT NULL").collect()) == [0, 1]
