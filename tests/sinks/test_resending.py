"""Two pipelines in a row; the first is killed between a delivery and its commit, and resends: the second is exact."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.observe.views import Views
from tests.broker.harness import Running, produce
from tests.broker.pipeline import minutes
from tests.faults.process import victim
from tests.sinks.consumer import arrived
from tests.sinks.republishing import FIRST, latest_of, sums_of
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node

pytestmark = [pytest.mark.broker, pytest.mark.long]
NewTopic = Callable[[int], str]


def ran(spark: SparkSession, lake: Lake, kafka: Broker, node: Node) -> Running:
    run = Running(spark, lake, kafka.bootstrap_servers, node)
    try:
        run.catch_up()
    finally:
        run.runtime.drain(timeout_seconds=PATIENCE_S)
    return run


def killed(kafka: Broker, lake: Lake, log: Path, topics: tuple[str, str], node: str, at: str) -> None:
    """Die the first time that the step is reached: how many micro-batches there are depends on the machine."""
    topic, results = topics
    script = "tests/sinks/victim.py"
    with victim(kafka, lake, topic, log, at=at, time=1, script=script, more=(results, node)) as process:
        assert process.wait_killed() == -signal.SIGKILL, process.said()


def first_of(kafka: Broker, topics: tuple[str, str], node: str) -> Node:
    topic, results = topics
    return FIRST[node](topic, hr.KafkaSink(results, options={"bootstrap.servers": kafka.bootstrap_servers}))


def test_windows_resent_after_two_kills_are_added_up_once(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topics = new_topic(2), new_topic(3)
    for p in (0, 1):
        produce(kafka, topics[0], minutes(p, 0, 59, value=1.25))
    for _ in range(2):  # the second dies while it repeats what the first had delivered
        killed(kafka, lake, tmp_path / "victim.log", topics, "counts", "after delivery")
    first = ran(spark, lake, kafka, first_of(kafka, topics, "counts"))
    windows = [row.asDict() for row in Views(spark, lake).read(first.node).collect()]
    assert len(windows) == 2 * 29
    sent = arrived(kafka, topics[1])
    assert len(sent) > len(windows)
    second = ran(spark, Lake(f"file:{tmp_path}/second"), kafka, sums_of(topics[1]))
    wanted = [
        (
            sensor,
            sum(1 for w in windows if w["sensor_id"] == sensor),
            sum(w["n"] for w in windows if w["sensor_id"] == sensor),
            sum(w["total"] for w in windows if w["sensor_id"] == sensor),
        )
        for sensor in ("s0", "s1")
    ]
    assert second.results() == wanted == [("s0", 29, 58, 72.5), ("s1", 29, 58, 72.5)]
    assert second.fates() == {"used": len(windows), "replay": len(sent) - len(windows)}


def test_totals_resent_after_a_kill_are_taken_once_and_in_order(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topics = new_topic(2), new_topic(1)
    for p in (0, 1):
        produce(kafka, topics[0], minutes(p, 0, 39))
    killed(kafka, lake, tmp_path / "victim.log", topics, "totals", "after delivery")
    first = ran(spark, lake, kafka, first_of(kafka, topics, "totals"))
    assert first.results() == [("s0", 40, 40.0), ("s1", 40, 40.0)]
    taken, sent = arrived(kafka, topics[1], guarded=True), arrived(kafka, topics[1])
    assert len(sent) > len(taken)
    second = ran(spark, Lake(f"file:{tmp_path}/second"), kafka, latest_of(topics[1]))
    updates = {key: sum(1 for m in taken if m.key == key.encode()) for key in ("s0", "s1")}
    assert second.results() == [("s0", updates["s0"], 40, 40.0), ("s1", updates["s1"], 40, 40.0)]
    assert second.fates() == {"used": len(taken), "replay": len(sent) - len(taken)}
