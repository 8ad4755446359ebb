"""A node's loop over logs that another process writes, and what a runner left over from an earlier opening may do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TransientError
from headrace.log.clock import SystemClock
from headrace.log.site import Site
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from headrace.streams.loops.node_stream import NodeStream, Shared
from headrace.streams.stream_runtime import StreamRuntime
from headrace.writing.leases.lease import LeaseLostError
from headrace.writing.scheduling import Turns
from tests.runtime.line import Line
from tests.runtime.supervising import kept_running
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.lake.paths import Lake
    from headrace.sinks import Delivery

pytestmark = pytest.mark.spark

TOTALS = (
    hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None)
    .group_by()
    .aggregate(n=hr.count())
    .named("totals")
)


@pytest.fixture
def line(spark: SparkSession, lake: Lake) -> Line:
    return Line(spark, lake, TOTALS)


@pytest.fixture
def stream(line: Line) -> Iterator[NodeStream]:
    made = NodeStream(
        Site(line.spark, line.lake, SystemClock()), TOTALS, Shared(Turns(1), Turns(1)), trigger_ms=20
    )
    yield made
    made.drain()


def feed(line: Line) -> None:
    line.pipe("2024-05-01 12:00:00")
    line.commit()


def test_commits_of_another_process_are_noticed_and_nothing_is_folded_in_between(
    line: Line, stream: NodeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(line)
    kept_running(stream, lambda: stream.records == 1)
    kept_running(stream, lambda: not stream.due())
    works: list[int] = []
    work = stream.work

    def counted() -> int:
        works.append(work())
        return works[-1]

    monkeypatch.setattr(stream, "work", counted)
    time.sleep(0.5)
    assert works == [], "it looks at versions only"
    feed(line)
    kept_running(stream, lambda: bool(works))
    assert (sum(works), stream.records) == (1, 2)
    assert (stream.state, stream.failures) == ("running", 0)


def test_a_runner_of_an_earlier_opening_commits_nothing(line: Line, stream: NodeStream) -> None:
    feed(line)
    kept_running(stream, lambda: stream.records == 1)
    left_over = stream.runner
    assert left_over is not None
    stream.drain()
    again = NodeStream(
        Site(line.spark, line.lake, SystemClock()), TOTALS, Shared(Turns(1), Turns(1)), trigger_ms=20
    )
    try:
        feed(line)
        with pytest.raises(LeaseLostError, match="was given back"):
            left_over.advance()
        kept_running(again, lambda: again.records == 1)
        assert again.runner is not None
        assert again.runner.progress.batch == 2
    finally:
        again.drain()


class Slow:
    """A sink that a test holds in the middle of a delivery; it notes how many deliver at once."""

    name = "slow"

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.seen: list[tuple[int, int]] = []  # rows, and deliveries under way
        self._inside = 0

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        self._inside += 1
        self.seen.append((rows.count(), self._inside))
        assert self.may_end.wait(PATIENCE_S)
        self._inside -= 1


def test_a_node_whose_micro_batch_is_still_under_way_is_not_opened_beside_it(
    spark: SparkSession, lake: Lake
) -> None:
    sink = Slow()
    node = TOTALS.to(sink)
    line = Line(spark, lake, node)
    stream = NodeStream(Site(spark, lake, SystemClock()), node, Shared(Turns(1), Turns(1)), trigger_ms=20)
    upkeep_begun, upkeep_may_end = threading.Event(), threading.Event()
    try:
        feed(line)
        kept_running(stream, lambda: bool(sink.seen))
        first = stream._lease
        failing = TransientError("The source is away.")
        stream._end_with(failing)
        stream._upkeep.begin(lambda: held(upkeep_begun, upkeep_may_end))
        assert upkeep_begun.wait(PATIENCE_S)
        for _ in range(3):
            stream._retry_at = 0.0
            stream.keep_running()
        assert stream._lease is first, "the lease of the micro-batch under way is kept"
        sink.may_end.set()
        until(lambda: not stream.running)
        stream.keep_running()
        assert stream._lease is first, "upkeep is still under way"
        upkeep_may_end.set()
        feed(line)
        kept_running(stream, lambda: stream.records == 2)
        assert sink.seen == [(1, 1), (1, 1)], "each micro-batch is delivered once, by one thread"
        assert stream.runner is not None
        assert stream.runner.progress.batch == 2
        assert [row["n"] for row in Views(spark, lake).read(node).collect()] == [2]
        assert first is not None
        with pytest.raises(LeaseLostError):
            first.check()
    finally:
        sink.may_end.set()
        upkeep_may_end.set()
        stream.drain()


def held(begun: threading.Event, may_end: threading.Event) -> None:
    begun.set()
    assert may_end.wait(PATIENCE_S)


@pytest.mark.parametrize("own", [True, False], ids=["of this process", "of another process"])
def test_what_a_throttled_node_may_not_fold_yet_is_folded_when_its_interval_begins_though_nothing_comes(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    node = TOTALS.throttle("1 minute")
    line = Line(spark, lake, node)
    stream = NodeStream(Site(spark, lake, line.clock), node, Shared(Turns(1), Turns(1)), trigger_ms=20)
    if own:
        monkeypatch.setattr(stream, "_watched", lambda: ())  # no look at versions: only its log wakes it
    try:
        feed(line)
        kept_running(stream, lambda: stream.records == 1)
        feed(line)
        if own:
            stream.check_now()
        time.sleep(0.5)
        assert stream.records == 1
        line.clock.set(line.clock.now_ms() + 60_000)
        kept_running(stream, lambda: stream.records == 2)
        assert (stream.state, stream.failures) == ("running", 0)
    finally:
        stream.drain()


def test_storage_that_is_away_while_logs_are_looked_for_is_told_by_the_status_and_asked_again(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(line)
    away = True

    def open_table(uri: str) -> lakes.LakeTable:
        if away:
            raise TransientError(f"Storage '{uri}': the store did not do as asked (503).")
        return looked_for(uri)

    looked_for = lakes.open_table
    monkeypatch.setattr(lakes, "open_table", open_table)
    kafka = KafkaSettings(bootstrap_servers="localhost:1")
    runtime = StreamRuntime(
        line.spark, line.lake, [TOTALS], kafka=kafka, trigger_ms=20, only=["stream/totals_stream"]
    )
    until(lambda: "503" in (runtime.poll()[0].error or ""))
    away = False
    until(lambda: runtime.poll()[0].rows_total == 1)
    runtime.drain()
