"""A node moves from one run to another, and the log of its topic with it: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from headrace.streams.stream_runtime import StreamRuntime
from tests.broker.harness import produce, rows_of
from tests.broker.pipeline import counts_of, minutes
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node

pytestmark = pytest.mark.broker
MINUTES = 10  # of each part, in each of two partitions


def test_a_node_and_its_log_move_to_another_run_and_the_rest_stays_behind(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(2)
    counts = counts_of(topic)
    totals = counts.topics[0].group_by("sensor_id").aggregate(n=hr.count()).named("reading_totals")

    @contextmanager
    def hosting(*nodes: Node) -> Iterator[StreamRuntime]:
        settings = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
        runtime = StreamRuntime(spark, lake, nodes, kafka=settings, trigger_ms=100)
        try:
            yield runtime
        finally:
            runtime.drain(PATIENCE_S)

    def send(part: int) -> None:
        for partition in (0, 1):
            produce(kafka, topic, minutes(partition, part * MINUTES, (part + 1) * MINUTES - 1))

    def states(runtime: StreamRuntime) -> dict[str, str]:
        return {status.asset: status.state for status in runtime.poll()}

    send(0)
    with hosting(counts, totals) as before, hosting(totals) as moved:
        before.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
        assert states(moved) == {f"log/{topic}": "waiting", "stream/reading_totals_stream": "waiting"}
        assert all(f"process {os.getpid()} on" in (status.error or "") for status in moved.poll())
        send(1)
        before.drain(PATIENCE_S)
        moved.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
        send(2)
        with hosting(counts) as stayed:
            until(
                lambda: {**states(moved), **states(stayed)},
                lambda _: taken(spark, lake, counts) >= 3 * 2 * MINUTES,
            )
            assert states(stayed) == {f"log/{topic}": "waiting", "stream/reading_counts_stream": "running"}
            moved.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
    views = Views(spark, lake)
    for node in (counts, totals):
        assert taken(spark, lake, node) == 3 * 2 * MINUTES
        assert rows_of(views.read(node)) == rows_of(views.recompute(node))
    assert [row["n"] for row in views.read(totals).collect()] == [3 * MINUTES] * 2


def taken(spark: SparkSession, lake: Lake, node: Node) -> int:
    """How many records a node has taken."""
    (row,) = Views(spark, lake).ledger(node).groupBy().sum("records").collect()
    return int(row[0] or 0)
