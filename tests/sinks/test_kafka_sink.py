"""The Kafka sink against a real broker, read as a consumer with a replay guard reads it."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Producer

import headrace as hr
from headrace.errors import TerminalError, TransientError
from headrace.local.servers.broker import Broker, create_topics
from headrace.local.servers.topics import records_in
from headrace.sinks import Delivery
from headrace.spark.lake_rows import read
from headrace.spark.one_task import arrow_schema
from headrace.testing import SinkKit
from tests.broker.harness import set_topic
from tests.sinks.consumer import Arrived, arrived, held
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def sink_to(broker: Broker, topic: str, **options: str) -> hr.KafkaSink:
    return hr.KafkaSink(topic, options={"bootstrap.servers": broker.bootstrap_servers, **options})


def numbers(spark: SparkSession, count: int, sequence: int = 1, text: str = "'x'") -> DataFrame:
    return spark.range(count).selectExpr(
        "cast(id % 50 AS STRING) AS id", f"{text} AS text", "false AS __deleted",
        "timestamp_millis(1714564800000 + id) AS __timestamp", f"{sequence}L AS __sequence", "X'' AS __place",
        "int(id) AS __ordinal",
    )  # fmt: skip


def delivery(tmp_path: Path) -> Delivery:
    return Delivery("a_node", ("id",), ("id",), ("id", "text"), f"file:{tmp_path}/refused")


def places(found: list[Arrived]) -> dict[int, list[tuple[int, int]]]:
    return {
        p: [(m.chain[0][2], m.chain[0][3]) for m in found if m.partition == p]
        for p in {m.partition for m in found}
    }


def test_it_keeps_the_protocol_for_a_reader_that_goes_by_position(
    spark: SparkSession, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(3)
    set_topic(kafka, topic, {"max.message.bytes": "1000000"})

    def rows() -> list[dict[str, Any]]:
        return held(kafka, topic)

    too_long = "x" * 2_000_000
    kit = SinkKit(spark, sink_to(kafka, topic), rows, refused=lambda: too_long, any_order=False)
    assert len(kit.run()) == 9


@pytest.mark.long
def test_it_keeps_the_protocol_for_rows_that_are_only_appended(
    spark: SparkSession, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(3)

    def rows() -> list[dict[str, Any]]:
        return [json.loads(each.value or b"") for each in arrived(kafka, topic, guarded=True)]

    kit = SinkKit(spark, sink_to(kafka, topic), rows, any_order=False, appended=True)
    assert len(kit.run()) == 5


def test_a_compacted_topic_is_refused_where_a_key_has_several_rows(
    spark: SparkSession, kafka: Broker, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    topic = new_topic(1)
    set_topic(kafka, topic, {"cleanup.policy": "compact"})
    to, rows = replace(delivery(tmp_path), identity=("__sequence", "__place")), numbers(spark, 3)
    with pytest.raises(TerminalError, match="is compacted") as error:
        sink_to(kafka, topic).deliver(rows, to)
    assert "key=['__sequence', '__place']" in str(error.value), "the way out"
    options = {"bootstrap.servers": kafka.bootstrap_servers}
    hr.KafkaSink(topic, key=("__sequence", "__place"), options=options).deliver(rows, to)
    sink_to(kafka, topic).deliver(rows, delivery(tmp_path))
    assert len(arrived(kafka, topic)) == 6


def test_each_partition_is_in_order_and_a_second_delivery_repeats_it(
    spark: SparkSession, kafka: Broker, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    topic = new_topic(3)
    rows = numbers(spark, 20_000).repartition(7)
    for _ in range(2):
        sink_to(kafka, topic).deliver(rows, delivery(tmp_path))
    found = arrived(kafka, topic)
    assert len(found) == 40_000
    for of_partition in places(found).values():
        half = len(of_partition) // 2
        assert of_partition[:half] == sorted(set(of_partition)) == of_partition[half:]
    assert len(places(found)) == 3
    one = next(m for m in found if m.chain[0][3] == 77)
    assert one.key == b"27"
    assert json.loads(one.value or b"") == {"id": "27", "text": "x"}
    assert one.timestamp == (TIMESTAMP_CREATE_TIME, 1_714_564_800_077)
    assert one.chain == [["a_node", one.partition, 1, 77]]


def test_keys_lie_where_kafkas_own_partitioner_puts_them(
    spark: SparkSession, kafka: Broker, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    ours, theirs = new_topic(5), new_topic(5)
    sink_to(kafka, ours).deliver(numbers(spark, 50), delivery(tmp_path))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2"})
    for number in range(50):
        producer.produce(theirs, b"", str(number).encode())
    assert producer.flush(PATIENCE_S) == 0
    where = [
        {m.key: m.partition for m in arrived(kafka, topic, chained=topic == ours)} for topic in (ours, theirs)
    ]
    assert where[0] == where[1]
    assert len(set(where[0].values())) == 5


def test_a_record_that_the_topic_does_not_take_is_refused_alone(
    spark: SparkSession, kafka: Broker, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    topic = new_topic(1)
    set_topic(kafka, topic, {"max.message.bytes": "5000"})
    to = delivery(tmp_path)
    rows = numbers(spark, 40, text="repeat('x', 4400 + int(id) * 10)")
    for _ in range(2):
        sink_to(kafka, topic).deliver(rows, to)
    found = arrived(kafka, topic)
    passed = {m.chain[0][3] for m in found}
    refused = read(spark, to.refused).orderBy("ordinal").collect()
    assert sorted(passed | {row["ordinal"] for row in refused}) == list(range(40))
    assert 10 < len(passed) < 40
    assert len(refused) == 40 - len(passed)
    assert "takes 5,000" in refused[0]["reason"]
    assert json.loads(refused[0]["row"])["text"].startswith("xxx")


def test_a_missing_topic_and_an_absent_broker_are_waited_for(
    spark: SparkSession, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"later-{uuid.uuid4().hex[:8]}"
    rows, to = numbers(spark, 10), delivery(tmp_path)
    with pytest.raises(TransientError, match=f"Topic '{topic}' does not exist") as missing:
        sink_to(kafka, topic).deliver(rows, to)
    assert "Create it" in str(missing.value)
    create_topics(kafka.bootstrap_servers, {topic: 2})
    sink_to(kafka, topic).deliver(rows, to)
    assert records_in(kafka.bootstrap_servers, topic) == 10
    absent = hr.KafkaSink(topic, options={"bootstrap.servers": "127.0.0.1:1", "sasl.password": "s3cret"})
    monkeypatch.setattr("headrace.spark.kafka.TIMEOUT_SECONDS", 1)
    with pytest.raises(TransientError, match=r"127\.0\.0\.1:1 does not answer") as away:
        absent.deliver(rows, to)
    assert "s3cret" not in f"{away.value!r} {away.value}"


@pytest.mark.long
def test_a_broker_lost_in_the_middle_leaves_no_gap(spark: SparkSession, tmp_path: Path) -> None:
    """What it holds of each partition is the beginning of it; when it is back, the rest follows."""
    broker = Broker(tmp_path / "kafka").start().wait_ready()
    create_topics(broker.bootstrap_servers, {"lost": 2})
    sink = sink_to(broker, "lost", **{"queue.buffering.max.messages": "2000", "batch.num.messages": "100"})
    sink.deliver(numbers(spark, 10), delivery(tmp_path))  # Python and Spark are warm
    rows = numbers(spark, 150_000, sequence=2, text="repeat('x', 200)").persist()
    rows.count()

    def kill_in_the_middle() -> None:
        while records_in(broker.bootstrap_servers, "lost") < 5_000:
            time.sleep(0.01)
        broker.kill()

    killer = threading.Thread(target=kill_in_the_middle)
    killer.start()
    with pytest.raises(TransientError, match="lost in the middle"):
        sink.deliver(rows, delivery(tmp_path))
    killer.join()
    broker.start().wait_ready()
    whole: dict[int, list[tuple[int, int]]] = {}
    made = sink._maker(arrow_schema(rows.schema), delivery(tmp_path), 2).of_frame(rows)
    for row in made.select("partition", "sequence", "ordinal").collect():
        whole.setdefault(row[0], []).append((row[1], row[2]))
    before = {p: [at for at in found if at[0] == 2] for p, found in places(arrived(broker, "lost")).items()}
    assert 0 < sum(map(len, before.values())) < 150_000
    for partition, found in before.items():
        assert found == whole[partition][: len(found)]
    sink.deliver(rows, delivery(tmp_path))
    taken = [m for m in arrived(broker, "lost", guarded=True) if m.chain[0][2] == 2]
    assert places(taken) == whole
    rows.unpersist()
    broker.stop()
