"""Upkeep of a node's tables beside its micro-batches: it holds none up, and one that fails is tried again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.lake.care.merge import upsert
from headrace.log.clock import SystemClock
from headrace.log.site import Site
from headrace.nodes.node_tables import base_of
from headrace.spark.lake_rows import read
from headrace.streams.loops.node_stream import NodeStream, Shared
from headrace.writing.scheduling import Turns
from tests.runtime.line import Line
from tests.runtime.supervising import kept_running
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

TOTALS = (
    hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None)
    .group_by()
    .aggregate(n=hr.count())
    .named("totals")
)


class Streamed:
    """A log fed by hand, and a stream that folds it whenever it is looked at."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.line, self.lake, self.fed, self.upkeep = Line(spark, lake, TOTALS), lake, 0, Turns(1)
        site = Site(spark, lake, SystemClock())
        self.stream = NodeStream(site, TOTALS, Shared(Turns(1), self.upkeep), trigger_ms=100)

    def feed(self) -> None:
        self.line.pipe("2024-05-01 12:00:00")
        self.line.commit()
        self.fed += 1

    def until(self, done: Callable[[], bool]) -> None:
        kept_running(self.stream, done)

    def folded(self) -> int:
        return base_of(self.lake, TOTALS).batch

    def oldest_change(self) -> int | None:
        changes = read(self.line.spark, self.lake.state("totals")).where("__table = 'results'")
        row = changes.agg(F.min("__batch")).first()
        assert row is not None
        oldest: int | None = row[0]
        return oldest


@pytest.fixture
def streamed(spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Streamed]:
    monkeypatch.setattr("headrace.streams.node_upkeep.FOLD_SECONDS", 0.0)
    running = Streamed(spark, lake)
    yield running
    running.stream.drain()


def test_micro_batches_go_on_while_results_are_folded(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    folding, go_on = threading.Event(), threading.Event()

    def held_up(*arguments: Any, **named: Any) -> int:
        folding.set()
        assert go_on.wait(PATIENCE_S)
        return upsert(*arguments, **named)

    monkeypatch.setattr("headrace.nodes.bases.upsert", held_up)
    try:
        for _ in range(3):
            streamed.feed()
            streamed.until(lambda: streamed.stream.records == streamed.fed)
        streamed.until(folding.is_set)
        assert streamed.folded() == 0
    finally:
        go_on.set()
    streamed.until(lambda: streamed.folded() == 3)
    streamed.feed()
    streamed.until(lambda: streamed.folded() == 4)
    streamed.until(lambda: streamed.oldest_change() == 4)
    assert streamed.stream.failures == 0


def test_one_node_at_a_time_folds_its_results(streamed: Streamed) -> None:
    with streamed.upkeep.taken(lambda: False):  # by another node
        streamed.feed()
        streamed.until(lambda: streamed.stream.records == 1)
        streamed.until(lambda: streamed.stream._upkeep.under_way)
        streamed.feed()
        streamed.until(lambda: streamed.stream.records == 2)
        assert streamed.folded() == 0
    streamed.until(lambda: streamed.folded() == 2)


def test_a_fold_that_fails_ends_the_query_and_is_tried_again(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([OSError("the disk was away")])

    def failing_once(*arguments: Any, **named: Any) -> int:
        for error in failures:
            raise error
        return upsert(*arguments, **named)

    monkeypatch.setattr("headrace.nodes.bases.upsert", failing_once)
    streamed.feed()
    streamed.until(lambda: "the disk was away" in str(streamed.stream.error))
    streamed.until(lambda: streamed.folded() == 1)
    assert streamed.stream.state == "running"
