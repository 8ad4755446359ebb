"""One small pipeline, run once; every test works on a copy of its lake, so that it may damage it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.description import Topic, WindowedAggregate
from headrace.lake.paths import Lake
from headrace.lifecycle.backfills.backfill_plan import DayVerdict
from headrace.quality import CheckResult, Thresholds, check_log, check_node
from headrace.testing import TestDriver
from tests.lake.other_hands import delete

MINUTE_MS = 60_000
DAY_MINUTES = 24 * 60
FEW, HALF_LATE = Thresholds(), Thresholds(late_ratio_max=0.5)  # so few records make one late record many
EVIL = "<script>alert(1)</script>"

READINGS = Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE")
BY_SENSOR = READINGS.where("value >= 0").group_by("sensor_id")
COUNTS = (
    BY_SENSOR.window(hr.tumbling("2 minutes"), grace="2 minutes")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("reading_counts")
)
HOPS = (
    BY_SENSOR.window(hr.hopping("4 minutes", advance="2 minutes"), grace="0 minutes")
    .aggregate(n=hr.count())
    .named("reading_hops")
)


class Readings(TestDriver):
    """A driver of both nodes that pipes readings."""

    def send(self, minute: float, sensor: str | None, value: object = 1.0, partition: int = 0) -> None:
        """Pipe one reading, or a malformed or missing value as it is."""
        sent = {"sensor_id": sensor, "value": value} if isinstance(value, float) else value
        stamp = int(minute * MINUTE_MS)
        self.pipe("readings", key=sensor, value=sent, timestamp_ms=stamp, partition=partition)  # type: ignore[arg-type]


@dataclass
class Ground:
    """A lake that a test may damage, and the checks upon it."""

    spark: SparkSession
    lake: Lake
    docs: Path

    def log(self, thresholds: Thresholds = FEW) -> dict[str, CheckResult]:
        """Check the log; the results by name."""
        found = check_log(self.spark, self.lake, READINGS, str(self.docs), thresholds=thresholds)
        return {result.name: result for result in found}

    def node(
        self,
        node: WindowedAggregate = COUNTS,
        thresholds: Thresholds = HALF_LATE,
        verdicts: tuple[DayVerdict, ...] | None = (),
    ) -> dict[str, CheckResult]:
        """Check a node, without recomputing days unless `verdicts` is None; the results by name."""
        found = check_node(
            self.spark, self.lake, node, str(self.docs), thresholds=thresholds, verdicts=verdicts
        )
        return {result.name: result for result in found}

    def read(self, path: str) -> DataFrame:
        """A table of the lake."""
        return self.spark.read.format("delta").load(path)

    def append(self, rows: DataFrame, path: str) -> None:
        """Write rows behind everyone's back."""
        rows.write.format("delta").mode("append").save(path)

    def undo_last_commit(self, path: str) -> None:
        """Take a table back to where it was before its last commit, as if that had not happened yet."""
        commits = sorted(Path(path.removeprefix("file:")).glob("_delta_log/*.json"))
        commits[-1].unlink()
        commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
        commits[-1].with_suffix(".crc").unlink(missing_ok=True)

    def delete(self, path: str, condition: str) -> None:
        """Remove rows behind everyone's back."""
        delete(path, condition)


@pytest.fixture(scope="session")
def driver(spark: SparkSession) -> Iterator[Readings]:
    """Two days of readings in two partitions, with bad input, a crash, and open windows at the end."""
    driver = Readings([COUNTS, HOPS], spark)
    for minute in (10, 11, 13):
        driver.send(minute, "s1")
        driver.send(minute, "s2", partition=1)
    driver.cut()
    driver.crash("after outputs")
    for minute in (15, 16):
        driver.send(minute, "s1")
        driver.send(minute, EVIL, partition=1)
    driver.cut()
    driver.send(16, "s1", -1.0)
    driver.send(16, "s1", None)
    driver.send(16, "s1", b"{bad")
    driver.send(1, "s1")
    driver.send(16, "s1", 1e300)
    for partition in (0, 1):
        driver.send(DAY_MINUTES + 20, "s1", partition=partition)
        driver.send(DAY_MINUTES + 30, "s1", partition=partition)
    driver.cut()
    yield driver
    driver.close()


@pytest.fixture
def ground(driver: Readings, tmp_path: Path) -> Ground:
    """A copy of the healthy lake."""
    shutil.copytree(driver._lake.root.removeprefix("file:"), tmp_path / "lake")
    return Ground(driver.spark, Lake(f"file:{tmp_path}/lake"), tmp_path / "docs")


@pytest.fixture
def nothing_yet(driver: Readings, tmp_path: Path) -> Ground:
    """A lake without a table."""
    return Ground(driver.spark, Lake(f"file:{tmp_path}/lake"), tmp_path / "docs")
