"""Batches of two topics of a real broker, one of which is silent: it holds back neither a deadline nor a drain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.observe.local_views import LocalViews
from tests.broker.harness import Running, produce
from tests.broker.pipeline import Record, minutes, reading
from tests.rows import require_backfilled
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker


@pytest.mark.long
def test_a_silent_topic_holds_back_neither_a_deadline_nor_a_drain(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    busy, silent = (
        hr.Topic(new_topic(1), key="sensor_id STRING", value="sensor_id STRING, value DOUBLE") for _ in "12"
    )
    merged = busy.merge(silent).group_by().batch(max_records=4, max_wait="6 seconds", collect=["value"])
    node = merged.named("reading_batches")
    run = Running(spark, lake, kafka.bootstrap_servers, node)

    def closed() -> Counter[tuple[str, str, int]]:
        rows = LocalViews(spark, lake).read(node).to_pylist()
        return Counter((row["sensor_id"], row["closed_by"], row["records"]) for row in rows)

    try:
        produce(kafka, busy.name, [*minutes(0, 0, 4), reading(0, 0, sensor="idle")])
        run.poll_until(lambda s: s["stream/reading_batches_stream"].batches > 0 and len(closed()) == 3)
        assert closed()["idle", "wait", 1] == 1
        produce(kafka, silent.name, [Record(0, b"s1", b'{"value": 1.0}', 0)])
        produce(kafka, busy.name, [reading(0, 9, sensor="s2")])
        run.poll_until(lambda s: sum(status.rows_total for status in s.values() if status.kind == "log") == 8)
    finally:
        run.runtime.drain(timeout_seconds=PATIENCE_S, close_batches=True)
    assert Counter(sensor for sensor, *_ in closed().elements())["s1"] == 1
    assert sum(records for *_, records in closed().elements()) == 8, "nothing is left open"
    assert run.fates().keys() == {"used"}
    require_backfilled(spark, lake, node)
