"""Where logs and nodes stand, read from the commits of a lake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.cli.status import table_of
from headrace.log.clock import SystemClock
from headrace.observe.standing import standings
from headrace.observe.tail import Tail
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MINUTE = 60_000

readings = hr.Topic("readings", key="sensor STRING", value="value DOUBLE")
counts = (
    readings.group_by("sensor")
    .window(hr.tumbling("1 minute"), grace="0 minutes")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("counts")
)


def test_a_standing_says_how_far_a_node_has_read_and_what_its_records_became(spark: SparkSession) -> None:
    driver = TestDriver([counts], spark)
    for minute in (1, 3, 2):
        driver.pipe("readings", key="a", value={"value": 1.0}, timestamp_ms=minute * MINUTE)
    driver.cut()
    tail = Tail(driver._lake, counts)
    assert [(row.gone, row.row["n"]) for row in tail.newest(9)] == [(False, 1)]
    assert not [*tail.news()]
    log, node = standings(driver._lake, [counts], SystemClock())
    assert (log.asset, log.stream_ms, log.records) == ("log/readings", 3 * MINUTE, {"delivered": 3})
    assert (node.asset, node.through_ms, node.behind_ms) == ("stream/counts_stream", log.through_ms, 0)
    assert node.stream_ms == 3 * MINUTE
    assert node.records is not None
    assert sum(node.records.values()) == 3
    assert node.records["late"] == 1
    assert not log.running  # no process holds its lease
    driver.pipe("readings", key="a", value={"value": 1.0}, timestamp_ms=9 * MINUTE)
    driver.cut([])  # the log goes on, the node does not
    log, node = standings(driver._lake, [counts], SystemClock())
    assert log.through_ms is not None
    assert node.through_ms is not None
    assert node.behind_ms == log.through_ms - node.through_ms > 0
    driver.cut()
    assert [(row.gone, row.row["n"]) for row in tail.news()] == [(False, 1)]  # the window of minute 3
    assert not [*tail.news()]
    assert json.loads(json.dumps(node.to_json()))["asset"] == "stream/counts_stream"
    assert table_of([log, node]).row_count == 2
    driver.close()


def test_a_node_before_its_first_micro_batch_is_not_said_to_be_stopped(spark: SparkSession) -> None:
    driver = TestDriver([counts], spark)
    driver.pipe("readings", key="a", value={"value": 1.0}, timestamp_ms=MINUTE)
    driver.cut([])
    _, node = standings(driver._lake, [counts], SystemClock())
    assert node.empty == (
        "The node has committed nothing yet: its stream's first micro-batch does. Start the stream if it does not run."
    )
    driver.close()


def test_what_a_step_without_a_name_refuses_is_counted_by_the_node_that_people_see(
    spark: SparkSession,
) -> None:
    rates = hr.Topic("rates", key="sensor STRING", value="rate DOUBLE")
    rated = (
        readings.where("value > 0")
        .lookup(rates.table(), on="sensor", as_of="event", history="1 minute")
        .with_column("worth", "value * rate")
        .named("rated")
    )
    driver = TestDriver([rated], spark)
    driver.pipe("rates", key="a", value={"rate": 2.0}, timestamp_ms=0)
    for minute, value in ((1, 1.0), (9, 1.0), (2, 1.0), (9, -1.0)):
        driver.pipe("readings", key="a", value={"value": value}, timestamp_ms=minute * MINUTE)
    driver.pipe("readings", key="a", value=b"{broken", timestamp_ms=9 * MINUTE)
    driver.pipe("rates", key="a", value={"rate": 3.0}, timestamp_ms=9 * MINUTE)
    driver.cut()
    (stands,) = (each for each in standings(driver._lake, [rated], SystemClock()) if "rated" in each.asset)
    refused = {fate: n for fate, n in (stands.records or {}).items() if n and fate != "kept"}
    assert refused == {"late": 1, "filtered": 1, "dead_letter": 1}
    assert {fate: len(driver.records("rated", fate)) for fate in refused} == refused
    (late,) = driver.late("rated")
    assert (late["topic"], late["offset"], late["late_by_ms"]) == ("readings", 2, 6 * MINUTE)
    driver.close()
