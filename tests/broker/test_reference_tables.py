"""A compacted topic of a real broker, whose newest record is old: windows after a lookup close with their stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.lifecycle.backfill import verify
from headrace.observe.views import Views
from tests.broker.harness import Running, produce, set_topic
from tests.broker.pipeline import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake
    from headrace.local.broker import Broker

pytestmark = pytest.mark.broker

MINUTE, HOUR = 60_000, 3_600_000


@pytest.mark.parametrize("age_ms", [HOUR, 365 * 24 * HOUR], ids=["an hour old", "a year old"])
def test_windows_after_a_lookup_close_with_their_stream(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: Callable[[int], str], age_ms: int
) -> None:
    views = hr.Topic(
        new_topic(1), key="view_id STRING", value="user_id STRING, page STRUCT<path: STRING, ms: BIGINT>"
    )
    users = hr.Topic(new_topic(1), key="user_id STRING", value="country STRING")
    set_topic(kafka, users.name, {"cleanup.policy": "compact"})
    node = (
        views.lookup(users.table(), on="user_id")
        .group_by("country")
        .window(hr.tumbling("5 minutes"), grace="1 minute")
        .aggregate(views=hr.count())
        .suppress(hr.until_window_closes())
        .named("views_per_country")
    )
    start_ms = time.time_ns() // 1_000_000 // (5 * MINUTE) * 5 * MINUTE - 30 * MINUTE
    produce(kafka, users.name, [Record(0, b"ann", b'{"country": "NO"}', start_ms - age_ms)])
    value = b'{"user_id": "ann", "page": {"path": "/", "ms": 3}}'
    times = (start_ms + round(minute * MINUTE) for minute in (0, 1, 4, 6, 12))
    produce(kafka, views.name, [Record(0, f"v{n}".encode(), value, ms) for n, ms in enumerate(times)])
    run = Running(spark, lake, kafka.bootstrap_servers, node)

    def closed() -> list[int]:
        rows = Views(spark, lake).read(node).orderBy("window_start").collect()
        return [row["views"] for row in rows if row["country"] == "NO"]

    try:
        run.poll_until(lambda s: s["stream/views_per_country_stream"].batches > 0 and len(closed()) == 2)
    finally:
        run.runtime.drain(timeout_seconds=60)
    assert closed() == [3, 1]
    assert all(verdict.equal for verdict in verify(spark, lake, node))
