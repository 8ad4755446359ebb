"""The broker of lives hands out records, offsets and ends as Kafka does: one test for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pytest

import headrace as hr
from headrace.settings.kafka import KafkaSettings
from headrace.spark.brokers.kafka_client import TopicConsumer
from headrace.spark.kafka import KafkaTopic, lost_offsets
from tests.broker.harness import delete_records, produce, transactional
from tests.broker.pipeline import Record
from tests.lives.broker import BrokerTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.local.servers.broker import Broker

pytestmark = pytest.mark.broker
BEGIN_MS = 1_700_000_000_000
SENT: list[tuple[int, bytes | None, bytes | None]] = [
    (0, b"a", b'{"value": 1}'),
    (1, None, b"{"),
    (0, b"a", None),
    (1, b"\xff\xfe", b""),
    (0, b"a", b'{"value": 1}'),
]


class Topic(Protocol):
    """A topic of three partitions."""

    def send(self, partition: int, key: bytes | None, value: bytes | None, ms: int) -> None:
        """Send a record."""

    def roll_back(self, partition: int) -> None:
        """Send a record in a transaction that is aborted."""

    def lose(self, partition: int, before: int) -> None:
        """Delete the records before an offset."""

    def read(self, offsets: Mapping[int, int]) -> tuple[list[tuple[Any, ...]], dict[int, int]]:
        """All that comes from offsets on, by partition and offset; and where it ends."""

    def earliest(self) -> dict[int, int]:
        """The first offset still to be had."""


class OfLives:
    """The broker of lives."""

    def __init__(self) -> None:
        topic = hr.Topic("t", key="key STRING", value="value BIGINT")
        self._topic, self._earliest = BrokerTopic(topic, {}), dict.fromkeys(range(3), 0)

    def send(self, partition: int, key: bytes | None, value: bytes | None, ms: int) -> None:
        self._topic.add(key, value, ms, partition, {})

    def roll_back(self, partition: int) -> None:
        self._topic.roll_back(partition)

    def lose(self, partition: int, before: int) -> None:
        self._earliest[partition] = self._topic.lose(partition, 0, before)

    def read(self, offsets: Mapping[int, int]) -> tuple[list[tuple[Any, ...]], dict[int, int]]:
        batches, ends = self._topic.read(offsets, 1, again=False)
        return rows_of(batches), ends

    def earliest(self) -> dict[int, int]:
        return self._earliest


class OfKafka:
    """A topic of a real broker, as a stream reads it."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker, self._name = broker, name
        self._settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)

    def send(self, partition: int, key: bytes | None, value: bytes | None, ms: int) -> None:
        produce(self._broker, self._name, [Record(partition, key, value, ms)])

    def roll_back(self, partition: int) -> None:
        transactional(self._broker, self._name, ([Record(partition, b"gone", b"gone", BEGIN_MS)], False))

    def lose(self, partition: int, before: int) -> None:
        delete_records(self._broker, self._name, {partition: before})

    def read(self, offsets: Mapping[int, int]) -> tuple[list[tuple[Any, ...]], dict[int, int]]:
        begin = dict.fromkeys(range(3), 0) | {**offsets}
        consumer, batches = TopicConsumer(self._name, self._settings, {}, begin), []
        while len(consumer.ended) < len(begin):
            batch = consumer.take(10)
            batches += [] if batch is None else [batch]
        consumer.close()
        return sorted(rows_of(batches)), {p: end for p, end in consumer.position.items() if end}

    def earliest(self) -> dict[int, int]:
        return KafkaTopic(self._name, self._settings).earliest(range(3))


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Each row as a tuple."""
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.fixture(params=["lives", "kafka"])
def topic(request: pytest.FixtureRequest) -> Topic:
    if request.param == "lives":
        return OfLives()
    make: Callable[[int], str] = request.getfixturevalue("new_topic")
    return OfKafka(request.getfixturevalue("kafka"), make(3))


def test_records_stay_and_are_read_from_any_offset_as_they_were_sent(topic: Topic) -> None:
    for number, (partition, key, value) in enumerate(SENT):
        topic.send(partition, key, value, BEGIN_MS + number)
    wanted: list[tuple[Any, ...]] = [
        (partition, offset, key, value, BEGIN_MS + number, [], [])
        for partition in (0, 1)
        for offset, (number, (_, key, value)) in enumerate(
            (number, sent) for number, sent in enumerate(SENT) if sent[0] == partition
        )
    ]
    assert topic.read({}) == (wanted, {0: 3, 1: 2})
    assert topic.read({}) == (wanted, {0: 3, 1: 2}), "reading takes nothing away"
    assert topic.read({0: 2, 1: 2}) == (wanted[2:3], {0: 3, 1: 2})


def test_a_transaction_that_is_rolled_back_takes_two_offsets_and_gives_no_record(topic: Topic) -> None:
    topic.send(0, b"a", b"{}", BEGIN_MS)
    topic.roll_back(0)
    assert topic.read({0: 1}) == ([], {0: 3})
    topic.send(0, b"a", b"{}", BEGIN_MS)
    rows, ends = topic.read({0: 1})
    assert ([row[:2] for row in rows], ends) == ([(0, 3)], {0: 4})


def test_records_that_are_deleted_are_lost_offsets(topic: Topic) -> None:
    for number in range(4):
        topic.send(0, b"a", b"{}", BEGIN_MS + number)
    topic.lose(0, 2)
    assert lost_offsets({0: 0, 1: 0}, topic.earliest()) == {0: (0, 2)}
    rows, ends = topic.read({0: 2})
    assert ([row[:2] for row in rows], ends) == ([(0, 2), (0, 3)], {0: 4})
