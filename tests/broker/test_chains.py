"""A node that reads a node, over a real broker: killed where it stands and started again, it misses nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from headrace.streams.stream_runtime import StreamRuntime
from tests.broker.harness import produce
from tests.broker.pipeline import minutes
from tests.rows import require_backfilled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake
    from headrace.local.servers.broker import Broker

pytestmark = pytest.mark.broker


def test_alerts_on_final_counts_follow_them_over_a_restart(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(2)
    readings = hr.Topic(
        topic, key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
    )
    windows = (
        readings.group_by("sensor_id")
        .window(hr.tumbling("2 minutes"), grace="1 minute")
        .aggregate(n=hr.count())
        .suppress(hr.until_window_closes())
    )
    counts = windows.named("counts")
    alerts = counts.as_stream().where("n < 4").named("alerts")
    same = windows.where("n < 4").named("alerts_of_a_step_without_a_name")
    settings = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
    for first in (0, 10):
        for partition in (0, 1):
            produce(kafka, topic, minutes(partition, first, first + 9))
        runtime = StreamRuntime(spark, lake, [alerts, counts, same], kafka=settings, trigger_ms=100)
        try:
            shown = [status.name for status in runtime.run_until_caught_up(120)]
        finally:
            runtime.drain()
    assert shown == [topic, "counts", "alerts", same.required_name]
    views = Views(spark, lake)
    told = sorted(tuple(row) for row in views.read(alerts).collect())
    assert told
    assert told == sorted(
        tuple(row) for row in views.read(counts).where("n < 4").select(*alerts.columns).collect()
    )
    assert told == sorted(tuple(row) for row in views.read(same).collect())
    require_backfilled(spark, lake, counts, alerts)
