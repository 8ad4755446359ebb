"""A log that was cut, and then lost a commit, is repaired; nodes that read nodes keep the rows from before the cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lifecycle.log_repair.repair import Repair
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from headrace.spark.lake_rows import read
from tests.lake.lost_commits import overwrite, versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.testing import TestDriver
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

MINUTE = 60_000
NOON = 1_714_564_800_000  # 2024-05-01 12:00 UTC
READINGS = hr.Topic("readings", key="sensor STRING", value="value BIGINT", idle_timeout="1 minute")
COUNTS = (
    READINGS.group_by("sensor")
    .window(hr.tumbling("1 minute"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("counts")
)
LONGER = (
    COUNTS.as_stream()
    .group_by("sensor")
    .window(hr.tumbling("3 minutes"), grace="0 seconds")
    .aggregate(n=hr.sum("n"), windows=hr.count())
    .suppress(hr.until_window_closes())
    .named("longer")
)
NODES = [COUNTS, LONGER]


def cut_driver(drive: Drive) -> TestDriver:
    """Two nodes after a cut. Sensor `b` lags by two minutes, in a partition of its own."""
    driver = drive(*NODES)
    for number in range(12):
        driver.pipe("readings", key="a", value={"value": 1}, timestamp_ms=NOON + number * MINUTE)
        at_ms = NOON + (number - 2) * MINUTE
        driver.pipe("readings", key="b", value={"value": 1}, timestamp_ms=at_ms, partition=1)
        driver.cut()
        driver.advance_wall_clock("1 second" if number != 3 else "2 minutes")
        driver.cut()
    cut_ms = driver.now_ms - 8_000
    assert driver.retain("readings", cut_ms).rows > 0
    driver.pipe("readings", key="a", value={"value": 1}, timestamp_ms=NOON + 13 * MINUTE)
    driver.cut()
    return driver


@pytest.mark.long
def test_a_chain_is_as_before_when_a_log_that_was_cut_is_repaired(spark: SparkSession, drive: Drive) -> None:
    driver = cut_driver(drive)
    views, lake = Views(spark, driver._lake), driver._lake

    def tables() -> list[list[str]]:
        frames = [*map(views.read, NODES), *map(views.ledger, NODES), views.late(LONGER)]
        log = read(spark, lake.log(LONGER.topics[0].name)).drop("__file")
        return [sorted(map(str, frame.collect())) for frame in [*frames, log]]

    before = tables()
    assert len(before[1]) > 2
    log = lake.log("readings")
    overwrite(log, versions(log, "log/readings")[-3])
    settings = KafkaSettings(bootstrap_servers="localhost:1")
    done = [str(each) for each in Repair(spark, lake, NODES, READINGS, settings).run()]
    assert [text for text in done if "longer" in text]
    lost_and_new = [({*was} - {*now}, {*now} - {*was}) for was, now in zip(before, tables(), strict=True)]
    assert lost_and_new == [(set(), set())] * len(before)


@pytest.mark.parametrize("table", ["results", "log"])
def test_a_repair_is_refused_where_files_with_rows_from_before_the_cut_are_deleted(
    spark: SparkSession, drive: Drive, table: str
) -> None:
    """No fold of the rest of the log makes these rows; without the files the node's log could not be written again."""
    driver = cut_driver(drive)
    lake = driver._lake
    uri = lake.table("counts") if table == "results" else lake.log(LONGER.topics[0].name)
    small_files.delete(f"{uri}/{min(lakes.open_table(uri).snapshot().files)}")
    overwrite(lake.log("readings"), versions(lake.log("readings"), "log/readings")[-3])
    known = {each: lakes.open_table(each).version for each in (lake.table("counts"), lake.state("counts"))}
    settings = KafkaSettings(bootstrap_servers="localhost:1")
    with pytest.raises(TerminalError, match="its logs no longer lead to all of its rows") as refused:
        list(Repair(spark, lake, NODES, READINGS, settings).run())
    assert "Restore these files from a backup" in str(refused.value)
    lakes.forget()
    assert {each: lakes.open_table(each).version for each in known} == known
