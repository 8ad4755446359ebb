"""Every kind of table is read by Spark with Delta, by DuckDB and by delta-rs, and its change feed by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import duckdb_extension_delta
import pytest
from deltalake import DeltaTable

import headrace as hr
from headrace.sinks import Delivery
from headrace.sinks.refusals import record_refusals
from headrace.spark.frames import local_frame
from tests.lake.test_s3 import extension
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

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
LATEST = READINGS.table("timestamp").named("latest")


@pytest.fixture
def written(spark: SparkSession, lake: Lake) -> Lake:
    """A log, and nodes with results that are appended, results that are revised, states and parts; refused rows."""
    lines = [Line(spark, lake, node) for node in (COUNTS, TOTALS, LATEST)]
    for cut in range(2):
        for minute in range(4):
            lines[0].pipe(f"2024-05-01 12:{4 * cut + minute:02}:00", f"s{minute % 2}")
        lines[0].pipe(f"2024-05-01 12:{4 * cut + 3:02}:30", f"gone{cut}", None)
        lines[0].commit()
        for line in lines:
            line.fold()
        for line in lines[1:]:
            line.runner.maintain()
    rows = local_frame(spark, [("s1", 1, 1, 0)], "sensor_id STRING, n INT, __sequence BIGINT, __ordinal INT")
    delivery = Delivery("counts", ("sensor_id",), ("sensor_id",), ("n",), lake.refused("counts", "refusing"))
    record_refusals(rows, delivery, [(1, 0, "no")], "the store")
    return lake


def test_all_read_the_same_rows_of_every_table(spark: SparkSession, written: Lake) -> None:
    paths = sorted(log.parent for log in Path(written.root.removeprefix("file:")).rglob("_delta_log"))
    kinds = {path.relative_to(written.root.removeprefix("file:")).parts[0] for path in paths}
    assert kinds == {"logs", "tables", "state", "refused"}
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as reader:
        reader.load_extension(extension(duckdb_extension_delta))
        for path in paths:
            by_spark = spark.read.format("delta").load(f"file:{path}").count()
            (by_duckdb,) = reader.execute(f"SELECT count(*) FROM delta_scan('{path}')").fetchone() or (None,)
            assert by_spark == by_duckdb == DeltaTable(path).to_pyarrow_table().num_rows, path


def test_the_change_feed_tells_each_change_of_revised_results_once(
    spark: SparkSession, written: Lake
) -> None:
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    rows = feed.load(written.table("totals")).orderBy("_commit_version").collect()
    told = [(row["sensor_id"], row["_change_type"], row["n"]) for row in rows]
    assert sorted(told) == [
        ("s0", "insert", 2),
        ("s0", "update_postimage", 4),
        ("s0", "update_preimage", 2),
        ("s1", "insert", 2),
        ("s1", "update_postimage", 4),
        ("s1", "update_preimage", 2),
    ]
