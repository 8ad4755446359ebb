"""Kafka's client and Spark's tasks read the same records: the law of `headrace.streams.topic_reader`, on one topic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from headrace.lake.paths import Lake
from headrace.streams import topic_reader
from headrace.streams.loops import log_stream
from tests.broker.harness import DECIDED, produce, rows_of, running, transactional
from tests.broker.pipeline import NOON_MS, Record, minutes, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.local.servers.broker import Broker

pytestmark = pytest.mark.broker
NewTopic = Callable[[int], str]
GOOD = b'{"sensor_id": "s0", "value": 1.0}'
# What the sequencer makes of the start of a partition depends on commits; the rest of a row on the record alone.
READ = tuple(name for name in DECIDED if name != "stream_time")
# Read by Kafka's client, by Spark, by Spark in many increments, and by each in turn.
WAYS = {"client": (200_000, 500_000), "spark": (0, 500_000), "ranges": (0, 7), "both": (30, 11)}


def send(kafka: Broker, topic: str) -> None:
    """Records of many kinds: of transactions that commit and abort, without key or value, with headers, large ones."""
    produce(kafka, topic, [*minutes(0, 0, 20), *minutes(1, 0, 3), reading(2, 1)])
    transactional(
        kafka,
        topic,
        (minutes(0, 21, 25), True),
        ([reading(1, 9), reading(0, 99)], False),
        ([Record(1, None, GOOD, 1), Record(1, b"s1", None, NOON_MS), Record(1, b"s1", b"{", NOON_MS)], True),
        ([reading(2, 5)] * 3, False),
    )
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "message.max.bytes": 2_000_000})
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("a", None), ("", b"\xff"), ("é", b"")]
    for value in (GOOD, b"", b'{"sensor_id": "' + b"x" * 900_000 + b'", "value": 2}'):
        producer.produce(topic, value, b"s0", partition=2, timestamp=NOON_MS, headers=headers)
    assert producer.flush(60) == 0


def test_whoever_reads_a_topic_the_log_and_the_results_are_the_same(
    spark: SparkSession,
    tmp_path: Path,
    kafka: Broker,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(4)  # nobody writes to the last partition
    send(kafka, topic)
    logs, results, work = {}, {}, {}
    monkeypatch.setattr(topic_reader, "BYTES_MAX", 1 << 20)
    for way, (small, most) in WAYS.items():
        monkeypatch.setenv("HEADRACE_KAFKA_SMALL_RECORDS", str(small))
        monkeypatch.setattr(log_stream, "RECORDS_PER_TRIGGER", most)
        with running(spark, Lake(f"file:{tmp_path}/{way}"), kafka, topic) as run:
            run.catch_up()
            produce(kafka, topic, [reading(3, 30)]) if way == "client" else None
            run.catch_up()
            (log,) = run.runtime._logs
            work[way] = log.reader.by_client.records, log.reader.by_spark.records
            assert log.lag_records() == 0, "markers at the end are no lag"
        logs[way] = rows_of(run.log().where("offset IS NOT NULL").select(*READ))
        results[way] = run.results()
        assert results[way] == run.recomputed()
    number = len(logs["client"])
    assert number == 21 + 4 + 1 + 5 + 3 + 3 + 1
    assert all(log == logs["client"] for log in logs.values())
    assert work["client"] == (number, 0)
    assert work["spark"] == work["ranges"] == (0, number)
    assert sum(work["both"]) == number
    assert min(work["both"]) > 0


def test_large_records_go_to_spark_though_they_are_few(
    spark: SparkSession,
    tmp_path: Path,
    kafka: Broker,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, 200,000 records of any size were read in the run's own process."""
    topic = new_topic(2)
    monkeypatch.setattr(topic_reader, "BYTES_MAX", 1 << 18)
    monkeypatch.setattr(topic_reader, "SMALL_BYTES", 1 << 20)
    monkeypatch.setattr(topic_reader, "FEW_MIN", 10)
    monkeypatch.setenv("HEADRACE_KAFKA_QUEUED_KBYTES", "256")
    large = b'{"sensor_id": "' + b"x" * 10_000 + b'", "value": 2}'
    produce(kafka, topic, [Record(each % 2, b"s0", large, NOON_MS) for each in range(4_000)])
    with running(spark, Lake(f"file:{tmp_path}/lake"), kafka, topic) as run:
        run.catch_up()
        (log,) = run.runtime._logs
        assert log.reader.by_spark.records >= 1_000
        assert log.reader.by_client.records + log.reader.by_spark.records == 4_000
        produce(kafka, topic, [Record(0, b"s0", large, NOON_MS)])
        run.catch_up()
        assert (
            log.reader.by_spark.records < log.reader.by_client.records + log.reader.by_spark.records == 4_001
        )
    assert run.log().where("offset IS NOT NULL").count() == 4_001
