"""How logs and nodes share the cores: a log commits when its node is ready, and waits for none for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.streams import stream_runtime as stream
from headrace.writing import scheduling
from tests.broker.harness import Running, produce, running
from tests.broker.pipeline import minutes
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker

NewTopic = Callable[[int], str]


def commits(run: Running) -> int:
    """How often the log has committed."""
    return run.log_status().batches


def fetched(run: Running) -> dict[int, int]:
    """For each partition how far Kafka's client has asked, beyond what the log has read."""
    (log,) = run.runtime._logs
    return {} if log.reader._consumer is None else log.reader._consumer.reached()


class Node:
    """Stays in its next micro-batch, once it is told to, until it is let go."""

    def __init__(self) -> None:
        self.held, self.begun, self.free = False, threading.Event(), threading.Event()

    def __call__(self, asset: str, step: str) -> None:
        if self.held and asset.startswith("stream/") and step == "before outputs":
            self.begun.set()
            assert self.free.wait(PATIENCE_S)


@contextmanager
def busy_node(spark: SparkSession, lake: Lake, kafka: Broker, topic: str) -> Iterator[tuple[Running, Node]]:
    """A log and its node, which is in the micro-batch of the second record."""
    node = Node()
    with running(spark, lake, kafka, topic, on_step=node) as run:
        produce(kafka, topic, minutes(0, 0, 0))
        run.catch_up()
        node.held = True
        produce(kafka, topic, minutes(0, 1, 1))
        run.poll_until(lambda _: node.begun.is_set())
        try:
            yield run, node
        finally:
            node.free.set()
        run.catch_up()
    assert run.offsets() == {0: [*range(8)]}
    assert run.results() == run.recomputed()


@pytest.mark.parametrize("cores", [pytest.param(1, marks=pytest.mark.long), 2])
def test_while_its_node_is_busy_a_log_commits_once_where_a_core_is_to_spare_and_then_all_that_came_at_once(
    spark: SparkSession,
    lake: Lake,
    kafka: Broker,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
) -> None:
    monkeypatch.setattr(scheduling, "REST_SECONDS", PATIENCE_S)
    monkeypatch.setattr(scheduling, "TURN_SECONDS", PATIENCE_S)
    monkeypatch.setattr(stream, "cores_of", lambda session: cores)
    topic = new_topic(1)
    with busy_node(spark, lake, kafka, topic) as (run, node):
        before = commits(run)
        produce(kafka, topic, minutes(0, 2, 2))
        if cores > 1:
            run.poll_until(lambda _: commits(run) > before)
        for minute in range(3, 8):
            produce(kafka, topic, minutes(0, minute, minute))
            time.sleep(0.5)
        until(lambda: fetched(run) == {0: 8})
        assert commits(run) == before + cores - 1
        node.free.set()
        run.catch_up()
        assert commits(run) == before + cores


def test_a_node_that_does_not_end_holds_its_log_up_for_no_longer_than_the_rest(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "REST_SECONDS", 0.2)
    topic = new_topic(1)
    with busy_node(spark, lake, kafka, topic) as (run, _):
        for minute in range(2, 8):
            before = commits(run)
            produce(kafka, topic, minutes(0, minute, minute))
            run.poll_until(lambda _, at=before: commits(run) > at)  # type: ignore[misc]
