"""A node that is read by its name is rebuilt: its reader says so, and follows when it starts again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.plan_changes import plan_changes
from headrace.description import Node, output_of
from headrace.lifecycle.backfill import verify
from headrace.log.site import Site
from headrace.nodes.descriptions.evolution import REBUILT
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from headrace.streams import reader_meeting
from headrace.streams.status.stream_status import StreamStatus
from headrace.streams.stream_runtime import StreamRuntime
from tests.runtime.line import Line
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
COUNTS = READINGS.group_by("sensor_id").aggregate(n=hr.count())


def calm(limit: str) -> Node:
    return COUNTS.suppress(hr.until_time_limit(limit)).named("calm")


def named(node: Node) -> hr.Topic:
    """The node by its name."""
    output = output_of(node)
    found = hr.node(node.required_name, schema=f"{output['value']}, {output['key']}")
    assert isinstance(found, hr.Topic)
    return found


def started(spark: SparkSession, lake: Lake, node: Node) -> StreamRuntime:
    kafka = KafkaSettings(bootstrap_servers="localhost:1")
    only = {f"stream/{node.required_name}_stream"}
    return StreamRuntime(spark, lake, [node], kafka=kafka, only=only, trigger_ms=20)


def poll(runtime: StreamRuntime, done: Callable[[StreamStatus], bool]) -> StreamStatus:
    return until(lambda: runtime.poll()[0], done)


def caught_up(runtime: StreamRuntime) -> None:
    """Poll until the node has folded all, and its rebuild, if there is one, was swapped in."""
    (stream,) = runtime._streams
    poll(runtime, lambda now: bool(now.state == "running" and now.batches and now.lag_seconds == 0))
    poll(runtime, lambda now: stream._rebuild is None)


def meet(reader: StreamRuntime, writer: StreamRuntime) -> None:
    poll(reader, lambda now: bool(writer.poll()) and now.state == "running")


def test_a_reader_is_rebuilt_behind_the_node_when_it_starts_again(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_meeting, "MEET_EVERY_SECONDS", 0.1)
    line, views = Line(spark, lake, calm("1 minute")), Views(spark, lake)
    for minute in range(6):
        line.pipe(f"2024-05-01 12:0{minute}:00")
    line.commit()
    copies = named(calm("1 minute")).select("sensor_id", "n").named("copies")

    def rows(node: Node) -> list[tuple[object, ...]]:
        return sorted(map(tuple, views.read(node).select("sensor_id", "n").collect()))

    found = []
    reader = started(spark, lake, copies)
    for limit in ("1 minute", "2 minutes", "3 minutes"):
        writer = started(spark, lake, calm(limit))
        try:
            caught_up(writer)
            if limit == "1 minute":  # the log begins when its first reader has come
                meet(reader, writer)
        finally:
            writer.drain()
        if limit != "1 minute":
            told = poll(reader, lambda now: "was rebuilt" in (now.error or ""))
            assert "Node 'calm' was rebuilt by another description" in (told.error or "")
            reader.drain()
            (plan,) = plan_changes(lake, [copies]).nodes
            assert (plan.outcome, plan.changes.follows, plan.at_start) == (REBUILT, ("calm",), True)
            if limit == "3 minutes":
                ApplyChanges(Site(spark, lake), [copies]).run()
                assert rows(copies) == rows(calm(limit))
            reader = started(spark, lake, copies)
        caught_up(reader)
        assert rows(copies) == rows(calm(limit))
        found.append(rows(copies))
    reader.drain()
    assert found[0] != found[1] != found[2]
    assert all(day.equal for day in verify(spark, lake, copies))
