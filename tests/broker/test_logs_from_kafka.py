"""A log without the bytes of its records is made anew from Kafka, while Kafka has all of them; its stream goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.plan_changes import plan_changes
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.log.history.raw_records import keeping_raw
from headrace.log.site import Site
from headrace.nodes.descriptions.evolution import REBUILT, REFUSED
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.sequence_records import Sequencer
from headrace.spark.brokers.kafka_client import KafkaReader
from headrace.spark.kafka import KafkaSettings
from tests.broker.harness import DECIDED, Running, delete_records, produce
from tests.broker.pipeline import NOON_MS, Record
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Topic

pytestmark = pytest.mark.broker


class DiedError(Exception):
    """A crash."""


def record(partition: int, second: int, *, key: bool = True, at_ms: int | None = None) -> Record:
    """One whose own time lies a minute after Kafka's, backwards in every third. In: key  whether it is one of numbers."""
    at = NOON_MS + 60_000 + (second if second % 3 else -second) * 1_000
    value = json.dumps({"value": 1.5, "at": at}).encode()
    sensor = json.dumps({"sensor": partition if key else "x"}).encode()
    return Record(partition, sensor, value, NOON_MS + second * 1_000 if at_ms is None else at_ms)


def totals(topic: Topic) -> Any:
    counts = (
        topic.group_by("sensor").window(hr.tumbling("10 seconds"), grace="5 seconds").aggregate(n=hr.count())
    )
    return counts.suppress(hr.until_window_closes()).named("counts")


def sequenced(
    topic: Topic, raw: pa.Table, commits: list[tuple[int, dict[int, int]]]
) -> list[tuple[Any, ...]]:
    """What the described topic would have written from the beginning: of each commit its time, and how far it reads."""
    sequencer, state, rows = Sequencer(RecordFormat.of(topic)), keeping_raw(LogState(), topic), list[Any]()
    for at_ms, reached in commits:
        taken = [
            offset < reached.get(p, 0)
            for p, offset in zip(*raw.select([0, 1]).to_pydict().values(), strict=True)
        ]
        made = sequencer.sequence(raw.filter(pa.array(taken)), state, None, at_ms)
        rows, state = rows + made.rows.select(["ingested_at", *DECIDED]).to_pylist(), made.state
    return sorted(tuple(map(repr, row.values())) for row in rows)


def test_another_key_and_event_time_are_read_from_kafka(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    name, settings = new_topic(2), KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
    first = hr.Topic(name, key="sensor STRING", value="value DOUBLE", idle_timeout=None)
    now = replace(
        first, key="sensor BIGINT", value="value DOUBLE, at BIGINT", timestamp="at", keep_raw="kafka"
    )
    before, after = totals(first), totals(now)
    run = Running(spark, lake, kafka.bootstrap_servers, before)
    for start in (0, 30):
        sent = [record(p, n, key=n % 7 > 0) for p in (0, 1) for n in range(start, start + 30)]
        produce(kafka, name, [*sent, record(1, start, at_ms=10**16)])  # Spark cannot read this one
        run.catch_up()
    run.runtime.drain(timeout_seconds=PATIENCE_S)
    old, commits = run.decided(), dict[int, dict[int, int]]()
    places = (
        run.log().where("offset IS NOT NULL").selectExpr("unix_millis(ingested_at)", "partition", "offset")
    )
    for at_ms, partition, offset in places.collect():
        reached = commits.setdefault(at_ms, {})
        reached[partition] = max(reached.get(partition, 0), offset + 1)
    assert len(commits) > 1

    plan = plan_changes(lake, [after], settings)
    assert [(each.outcome, each.from_kafka) for each in plan.topics] == [(REBUILT, True)], str(plan)

    def dies(step: str) -> None:
        if step == "after rows":
            raise DiedError

    with pytest.raises(DiedError):
        ApplyChanges(Site(spark, lake, on_step=dies), [after], kafka=settings).run()
    assert run.decided() == old
    said = str(ApplyChanges(Site(spark, lake), [after], kafka=settings).run())
    assert said.startswith(f"topic {name}: its log was written again\nnode counts: ")

    found = run.log().where("offset IS NOT NULL").select("ingested_at", *DECIDED).toArrow().to_pylist()
    batches = KafkaReader(name, settings).read({0: (0, 59), 1: (0, 61)})
    assert sorted(tuple(map(repr, row.values())) for row in found) == sequenced(
        now, pa.Table.from_batches(batches), sorted(commits.items())
    )
    assert {"dead_letter", "record"} == {row["kind"] for row in found}

    produce(kafka, name, [record(p, n) for p in (0, 1) for n in range(60, 90)])
    run = Running(spark, lake, kafka.bootstrap_servers, after)
    run.catch_up()
    run.runtime.drain(timeout_seconds=PATIENCE_S)
    assert run.results() == run.recomputed() != []
    assert sum(run.fates().values()) == 182

    delete_records(kafka, name, {0: 4})
    again = totals(replace(now, timestamp=None))
    plan = plan_changes(lake, [again], settings)
    assert [each.outcome for each in plan.topics] == [REFUSED]
    assert "Kafka has deleted partition 0 offsets 0 to 3" in plan.topics[0].detail
