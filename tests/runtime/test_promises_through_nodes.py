"""A topic that falls silent holds up no other one, however many nodes and pipelines its promises go through."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.lake import notices
from headrace.log.clock import SystemClock
from headrace.log.sequencer import Sequencer
from headrace.nodes.node_tables import frontier_ms, read_progress
from headrace.spark.kafka import KafkaSettings
from headrace.streams import reader_meeting
from headrace.streams.stream_runtime import StreamRuntime
from headrace.testing.piped import PipedTopic
from headrace.writing.leases.readers import asked_in
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

SILENT, BUSY = (hr.Topic(name, key="key STRING", value="value BIGINT") for name in ("silent", "busy"))
ROWS = "key STRING, value BIGINT"


def pipelines(*, by_name: bool) -> list[list[Node]]:
    """Two nodes one after the other, and a third one that merges them with another topic."""
    first = SILENT.stream.distinct("value", within="1 second").named("first")
    read = hr.node("first", schema=ROWS) if by_name else first
    second = read.distinct("value", within="1 second").named("second")
    read = hr.node("second", schema=ROWS) if by_name else second
    merged = read.select("key", "value").merge(BUSY.stream.select("key", "value"))
    both = merged.group_by("key").batch(max_records=1, collect=["value"]).named("both")
    return [[first], [second], [both]] if by_name else [[first, second, both]]


class Written:
    """The log of a topic that another run writes, which promises only what somebody asks for."""

    def __init__(self, spark: SparkSession, lake: Lake, topic: hr.Topic) -> None:
        self._lake, self._name = lake, topic.name
        self._sequencer = Sequencer(spark, topic, lake.log(topic.name), SystemClock())
        self._piped = PipedTopic(topic, self._sequencer.state.next_offsets)

    def commit(self, value: int) -> None:
        self._piped.add("k", json.dumps({"value": value}), self._sequencer.now_ms(), 0, {})
        self._sequencer.append(self._piped.take_here())

    def promise(self) -> None:
        if asked_in(self._lake, self._name).ordered:
            self._sequencer.promise(self._sequencer.now_ms())


def runs_of(spark: SparkSession, lake: Lake, nodes: Sequence[Node]) -> StreamRuntime:
    only = {f"stream/{node.required_name}_stream" for node in nodes}
    kafka = KafkaSettings(bootstrap_servers="localhost:1")
    return StreamRuntime(spark, lake, nodes, kafka=kafka, only=only, trigger_ms=20)


@pytest.mark.parametrize("by_name", [False, True], ids=["one pipeline", "three pipelines"])
def test_a_silent_topic_holds_up_no_other_one_behind_two_nodes(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, by_name: bool
) -> None:
    monkeypatch.setattr(notices, "LOCAL_SECONDS", 0.05)
    monkeypatch.setattr(reader_meeting, "MEET_EVERY_SECONDS", 0.05)
    silent, busy = (Written(spark, lake, topic) for topic in (SILENT, BUSY))
    silent.commit(0)
    described = pipelines(by_name=by_name)
    runtimes = [runs_of(spark, lake, nodes) for nodes in described]

    def read_ms() -> int:
        for runtime in runtimes:
            runtime.poll()
        silent.promise()
        (both,) = (each for runtime in runtimes for each in runtime._streams if each.name == "both")
        return 0 if both.runner is None else read_progress(lake, both.node).upto_ms.get("busy", 0)

    try:
        for value in range(2):
            busy.commit(value)
            until(read_ms, lambda ms: ms >= frontier_ms(lake, BUSY))
    finally:
        for runtime in runtimes:
            runtime.drain()
