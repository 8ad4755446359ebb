"""Files that leave a table, or are put in the place of others, in one commit: nobody's next commit has to read its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable

from headrace.spark import tables, upkeep
from headrace.spark.actions import append_rows
from headrace.spark.frames import local_frame
from headrace.spark.jvm import java_class
from headrace.spark.newest import Followed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "at BIGINT, name STRING"
MANY = 60  # files, more than Delta keeps a list of
Put = Callable[[int], int]


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    path = f"file:{tmp_path}/state"
    tables.create(spark, path, local_frame(spark, [], SCHEMA).schema)
    return path


@pytest.fixture
def put(spark: SparkSession, path: str) -> Put:
    """Append a row when called; gives the jobs that this took."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()

    def append(at: int) -> int:
        before = int(scheduler.numTotalJobs())
        append_rows(local_frame(spark, [(at, "some")], SCHEMA).coalesce(1), path, {"writer": "test"})
        return int(scheduler.numTotalJobs()) - before

    return append


@contextmanager
def time_zone(spark: SparkSession, name: str) -> Iterator[None]:
    zones = java_class(spark, "java.util.TimeZone")
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(name))
    try:
        yield
    finally:
        zones.setDefault(before)


def test_a_commit_is_one_job_after_files_were_merged_and_after_some_left(
    spark: SparkSession, path: str, put: Put
) -> None:
    followed = Followed(spark, path, tables.read(spark, path).schema)
    assert {put(at) for at in range(MANY)} == {1}
    version, merged, rows = followed.to_merge("at", MANY, whole=False)
    upkeep.rearrange(rows.coalesce(1), path, merged, version, nullcontext())
    assert len(merged) == MANY
    assert {put(at) for at in range(MANY, MANY + 5)} == {1}
    version, gone = followed.wholly_through("at", MANY - 1)
    upkeep.drop(spark, path, gone, version)
    assert len(gone) == 1
    assert put(MANY + 5) == 1
    expected = [(at, "some") for at in range(MANY, MANY + 6)]
    assert sorted(map(tuple, tables.read(spark, path).collect())) == expected
    history = DeltaTable.forPath(spark, path).history().where("operation in ('DELETE', 'OPTIMIZE')").collect()
    assert [row["operation"] for row in history] == ["DELETE", "OPTIMIZE"]
    assert history[0]["operationMetrics"]["numDeletedRows"] == str(MANY)


def test_a_commit_is_one_job_in_any_time_zone(spark: SparkSession, put: Put) -> None:
    with time_zone(spark, "Pacific/Auckland"):
        assert {put(at) for at in range(5)} == {1}
