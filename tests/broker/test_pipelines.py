"""Two pipelines over one lake: one reads by its name what the other writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.changing.plan import UNCHANGED
from headrace.changing.plan_changes import plan_changes
from headrace.nodes.descriptions.evolution import REFUSED
from headrace.observe.keyed_reads import KeyedReads
from headrace.observe.sql import LakeSql
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from headrace.streams import reader_meeting
from headrace.streams.stream_runtime import StreamRuntime
from tests.broker.harness import produce
from tests.broker.pipeline import counts_of, minutes
from tests.rows import require_backfilled
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.local.servers.broker import Broker
    from headrace.streams.status.stream_status import StreamStatus

pytestmark = pytest.mark.broker

SCHEMA = "n BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, total DOUBLE, sensor_id STRING"
COUNTS = hr.node("reading_counts", schema=SCHEMA)


@contextmanager
def pipeline(
    spark: SparkSession, lake: Lake, kafka: Broker, nodes: Sequence[Node]
) -> Iterator[StreamRuntime]:
    """A pipeline's stream, drained at the end."""
    settings = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
    runtime = StreamRuntime(spark, lake, nodes, kafka=settings, trigger_ms=100)
    try:
        yield runtime
    finally:
        runtime.drain()


def poll(
    runtime: StreamRuntime, reached: Callable[[dict[str, StreamStatus]], bool]
) -> dict[str, StreamStatus]:
    """Poll until the statuses say so."""
    return until(lambda: {status.asset: status for status in runtime.poll()}, reached)


@pytest.fixture(autouse=True)
def meet_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers and writers look for each other five times a second."""
    monkeypatch.setattr(reader_meeting, "MEET_EVERY_SECONDS", 0.2)


def test_a_node_is_read_by_its_name_from_another_pipeline(
    spark: SparkSession,
    lake: Lake,
    kafka: Broker,
    new_topic: Callable[[int], str],
) -> None:
    topic = new_topic(2)
    written = counts_of(topic)
    few = COUNTS.where("n < 4").named("few")
    per_sensor = COUNTS.group_by("sensor_id").aggregate(windows=hr.count()).named("windows_per_sensor")
    wrong = hr.node("reading_counts", schema="sensor_id STRING, n INT").named("wrong")
    views = Views(spark, lake)
    with pipeline(spark, lake, kafka, [per_sensor, few, wrong]) as reader:
        statuses = {status.asset: status for status in reader.poll()}
        assert {status.state for status in statuses.values()} == {"waiting"}
        assert "Waits for node 'reading_counts', which no pipeline has written" in (
            statuses["stream/few_stream"].error or ""
        )
        for first in (0, 10):
            for partition in (0, 1):
                produce(kafka, topic, minutes(partition, first, first + 9))
            with pipeline(spark, lake, kafka, [written]) as writer:
                writer.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
                poll(reader, lambda now: now["stream/few_stream"].state == "running")
                poll(reader, lambda now: now["stream/few_stream"].lag_seconds == 0)
        statuses = poll(reader, lambda now: now["stream/wrong_stream"].state == "failed")
        assert "has other columns than its reader describes" in (statuses["stream/wrong_stream"].error or "")
        poll(reader, lambda now: now["stream/windows_per_sensor_stream"].lag_seconds == 0)
    given = views.read(written)
    assert sorted(map(tuple, views.read(few).collect())) == sorted(
        map(tuple, given.where("n < 4").select(*few.columns).collect())
    )
    assert {row["sensor_id"]: row["windows"] for row in views.read(per_sensor).collect()} == {
        row["sensor_id"]: row["count"] for row in given.groupBy("sensor_id").count().collect()
    }
    assert given.where("n < 4").count()
    planned = plan_changes(lake, [few, per_sensor, wrong]).nodes
    assert {each.node: each.outcome for each in planned} == {
        "few": UNCHANGED,
        "windows_per_sensor": UNCHANGED,
        "wrong": REFUSED,
    }
    row = views.read(per_sensor).first()
    assert row is not None
    assert KeyedReads(lake).get(per_sensor, row["sensor_id"]) == row.asDict()
    with LakeSql(lake, [few, per_sensor]) as sql:
        (told,) = sql.query("SELECT sum(windows) AS windows FROM windows_per_sensor").to_pylist()
    assert told["windows"] == given.count()
    require_backfilled(spark, lake, written, few, per_sensor)


def test_pipelines_of_one_topic_share_its_log_and_another_run_goes_on_with_it(
    spark: SparkSession,
    lake: Lake,
    kafka: Broker,
    new_topic: Callable[[int], str],
) -> None:
    topic = new_topic(1)
    first, log = counts_of(topic), f"log/{topic}"
    (shared,) = first.topics
    second = shared.group_by().aggregate(n=hr.count()).named("totals")
    produce(kafka, topic, minutes(0, 0, 9))
    with pipeline(spark, lake, kafka, [second]) as other:
        with pipeline(spark, lake, kafka, [first]) as one:
            one.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
            other.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
            reads = poll(other, lambda now: "for another pipeline" in (now[log].error or ""))
            assert (reads[log].state, reads["stream/totals_stream"].state) == ("waiting", "running")
            produce(kafka, topic, minutes(0, 10, 14))
            one.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
            other.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
            assert other.poll()[0].state == "waiting"
            differing = hr.Topic(topic, key="sensor_id STRING", value="value DOUBLE", idle_timeout=None)
            odd = differing.group_by().aggregate(n=hr.count()).named("odd")
            with pipeline(spark, lake, kafka, [odd]) as refused:
                statuses = poll(refused, lambda now: {each.state for each in now.values()} == {"failed"})
            for status in statuses.values():
                assert "is described in another way by the pipeline of reading_counts, totals" in (
                    status.error or ""
                )
                assert 'value: "`sensor_id` STRING, `value` DOUBLE" -> "`value` DOUBLE"' in (
                    status.error or ""
                )
        produce(kafka, topic, minutes(0, 15, 19))
        poll(other, lambda now: now[log].state == "running")
        other.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
    views = Views(spark, lake)
    assert [row["n"] for row in views.read(second).collect()] == [20]
    with pipeline(spark, lake, kafka, [first]) as one:
        one.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
    require_backfilled(spark, lake, first, second)
