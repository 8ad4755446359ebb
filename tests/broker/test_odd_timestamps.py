"""Timestamps far beyond any time: dead letters like other implausible ones, beside records that count."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.observe.views import Views
from headrace.spark.brokers.kafka_client import KafkaReader
from headrace.spark.kafka import KafkaSettings
from headrace.streams.loops import log_stream
from tests.broker.harness import produce, running, transactional
from tests.broker.pipeline import Record, minutes, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker

NewTopic = Callable[[int], str]
GOOD = b'{"sensor_id": "s0", "value": 1.0}'
NANOSECONDS, LAST = 1_714_564_800_000_000_000, 2**63 - 1
ODD = {1: 9_300_000_000_000_000, 3: LAST, 5: -1, 6: NANOSECONDS}


def test_a_timestamp_beyond_all_times_is_a_dead_letter_and_the_log_goes_on(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(2)
    first = [Record(0, b"s0", GOOD, ODD[n]) if n in ODD else reading(0, n) for n in range(8)]
    transactional(kafka, topic, (first, True), ([reading(0, 9)], False))  # offsets 8 to 10: no records
    produce(kafka, topic, minutes(1, 0, 9))
    monkeypatch.setenv("HEADRACE_KAFKA_SMALL_RECORDS", "0")  # Spark's tasks read
    monkeypatch.setattr(log_stream, "RECORDS_PER_TRIGGER", 6)  # several log commits, several micro-batches
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
        produce(kafka, topic, [*minutes(0, 10, 12), *minutes(1, 10, 19)])
        assert run.catch_up()[f"log/{topic}"].failures == 0
        produce(kafka, topic, [Record(0, b"s0", GOOD, LAST), *minutes(0, 13, 19)])
        assert run.catch_up()[f"log/{topic}"].failures == 0
    assert run.offsets() == {0: [*range(8), *range(11, 22)], 1: [*range(20)]}
    dead = Views(spark, lake).dead_letters(run.node.topics[0], [run.node]).orderBy("offset").collect()
    assert {row["offset"]: row["reason"].partition(" lies more")[0] for row in dead} == {
        1: "timestamp: 9300000000000000 ms",
        3: "timestamp: 9223372036854775807 ms",
        5: "timestamp: before 1970",
        6: "timestamp: 1714564800000000000 ms",
        14: "timestamp: 9223372036854775807 ms",
    }
    assert {(bytes(row["key"]), bytes(row["value"])) for row in dead} == {(b"s0", GOOD)}
    assert run.log().where("kind = 'record'").selectExpr("max(stream_time) = max(timestamp)").first() == (
        True,
    )
    fates = run.fates()
    assert (sum(fates.values()), fates["dead_letter"]) == (39, 5)
    assert run.results() == run.recomputed()
    assert len(run.results()) == 17


def test_the_client_reads_committed_records_of_a_range(kafka: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    values = [b"w", None, b"x"]
    transactional(kafka, topic, ([Record(0, None, value, n + 1) for n, value in enumerate(values)], True))
    reader = KafkaReader(topic, KafkaSettings(bootstrap_servers=kafka.bootstrap_servers))
    rows = [row for batch in reader.read({0: (1, 3)}) for row in batch.to_pylist()]
    nothing: dict[str, object] = {"partition": 0, "key": None, "header_names": [], "header_values": []}
    assert rows == [
        nothing | {"offset": 1, "value": None, "timestamp": 2},
        nothing | {"offset": 2, "value": b"x", "timestamp": 3},
    ]
