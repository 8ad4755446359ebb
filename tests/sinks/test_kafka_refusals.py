"""Rows that a Kafka topic does not take are refused one by one; all others arrive. The broker has Kafka's own defaults."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME

import headrace as hr
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker, create_topics
from headrace.observe.fates.refused_rows import refused_rows
from headrace.sinks import Delivery
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import read
from tests.broker.harness import set_topic
from tests.sinks.consumer import arrived

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]
HOUR_MS = 3_600_000
SCHEMA = "id STRING, __deleted BOOLEAN, ms BIGINT, __sequence BIGINT, __place BINARY, __ordinal INT"


def rows_at(
    spark: SparkSession, times_ms: list[int | None], ids: list[str | None] | None = None
) -> DataFrame:
    """One row for each event time."""
    names = ids or [str(number) for number in range(len(times_ms))]
    rows = [(name, False, ms, 1, b"", n) for n, (name, ms) in enumerate(zip(names, times_ms, strict=True))]
    frame = local_frame(spark, rows, SCHEMA)
    return frame.selectExpr("*", "timestamp_millis(ms) AS __timestamp").drop("ms")


def refused_in(spark: SparkSession, to: Delivery) -> dict[int, str]:
    """Reasons by ordinal."""
    return {row["ordinal"]: row["reason"] for row in read(spark, to.refused).collect()}


@pytest.fixture
def topic(kafka: Broker) -> str:
    """A topic with the settings that a broker gives it."""
    name = f"results-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap_servers, {name: 1})
    return name


@pytest.fixture
def to(tmp_path: Path) -> Delivery:
    return Delivery(
        "a_node", ("id",), ("id",), ("id",), Lake(f"file:{tmp_path}").refused("a_node", "kafka-results")
    )


def test_an_event_time_that_the_broker_does_not_take_stops_no_other_row(
    spark: SparkSession, kafka: Broker, topic: str, to: Delivery
) -> None:
    now_ms = int(time.time() * 1000)
    rows = rows_at(spark, [now_ms, now_ms + 2 * HOUR_MS, now_ms + HOUR_MS // 2])
    sink = hr.KafkaSink(topic, options={"bootstrap.servers": kafka.bootstrap_servers})
    for _ in range(2):
        sink.deliver(rows, to)
    assert {record.key for record in arrived(kafka, topic)} == {b"0", b"2"}
    refused = refused_in(spark, to)
    assert refused.keys() == {1}
    assert "more than 3,600,000 ms ahead of the clock" in refused[1]
    (shown,) = refused_rows(Lake(to.refused.partition("/refused/")[0]), "a_node", 1)
    assert (shown.sink, shown.rows, shown.examples) == ("kafka-results", 1, ('{"id":"1"}',))
    assert shown.reason.startswith("the event time lies more than #,#,# ms ahead of the clock")
    set_topic(kafka, topic, {"message.timestamp.before.max.ms": str(HOUR_MS)})
    sink.deliver(rows_at(spark, [now_ms - 2 * HOUR_MS, now_ms], ["old", "new"]), to)
    assert {record.key for record in arrived(kafka, topic)} == {b"0", b"2", b"new"}


def test_an_event_time_is_sent_as_it_is_or_refused(
    spark: SparkSession, kafka: Broker, topic: str, to: Delivery
) -> None:
    times_ms: list[int | None] = [0, -1, -5, 1, None]
    hr.KafkaSink(topic, options={"bootstrap.servers": kafka.bootstrap_servers}).deliver(
        rows_at(spark, times_ms), to
    )
    sent = {record.key: record.timestamp for record in arrived(kafka, topic)}
    none = (TIMESTAMP_CREATE_TIME, -1)
    assert sent == {b"2": (TIMESTAMP_CREATE_TIME, -5), b"3": (TIMESTAMP_CREATE_TIME, 1), b"4": none}
    refused = refused_in(spark, to)
    assert refused.keys() == {0, 1}
    assert "takes 0 for the present" in refused[0]
    assert "takes -1 for no time" in refused[1]


def test_a_row_without_a_key_is_refused_by_a_compacted_topic(
    spark: SparkSession, kafka: Broker, topic: str, to: Delivery
) -> None:
    set_topic(kafka, topic, {"cleanup.policy": "compact"})
    sink = hr.KafkaSink(topic, options={"bootstrap.servers": kafka.bootstrap_servers})
    sink.deliver(rows_at(spark, [1, 2, 3], ["a", None, "c"]), to)
    assert {record.key for record in arrived(kafka, topic)} == {b"a", b"c"}
    assert "has no key, and the topic is compacted" in refused_in(spark, to)[1]
