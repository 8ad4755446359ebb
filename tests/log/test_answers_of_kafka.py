"""Kafka's client may give records, ends of partitions and an error in one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from headrace.errors import HeadraceError
from headrace.sequence.sequence_records import RECORDS
from headrace.settings.kafka import KafkaSettings
from headrace.spark.brokers import kafka_client
from headrace.spark.brokers.kafka_client import TopicConsumer

pytestmark = pytest.mark.fast


@dataclass(frozen=True)
class Answer:
    """A message of the client: a record, or an error. One of the library cannot be made."""

    place: tuple[int, int]
    failure: KafkaError | None = None

    def partition(self) -> int:
        return self.place[0]

    def offset(self) -> int:
        return self.place[1]

    def error(self) -> KafkaError | None:
        return self.failure


class Client:
    """The client: it gives answers one after the other."""

    def __init__(self, *answers: Sequence[Answer]) -> None:
        self.answers = [*answers]

    def assign(self, places: object) -> None: ...

    def consume(self, number: int, seconds: float) -> Sequence[Answer]:
        return self.answers.pop(0)


def batch_of(_: object, messages: Sequence[Answer]) -> pa.RecordBatch:
    columns: dict[str, Any] = dict.fromkeys(RECORDS.names)
    rows = [{**columns, "partition": each.partition(), "offset": each.offset()} for each in messages]
    return pa.RecordBatch.from_pylist(rows, pa.schema([each.with_nullable(True) for each in RECORDS]))


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._AUTO_OFFSET_RESET])
def test_an_error_leaves_the_position_before_the_records_of_its_answer(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of partition 0 was noted, and its records dropped with the error: the log went on behind them."""
    end = Answer((0, 4), KafkaError(KafkaError._PARTITION_EOF))
    answers = (
        [Answer((0, 0)), Answer((0, 1))],
        [Answer((0, 2)), Answer((0, 3)), end, Answer((1, 0), KafkaError(code))],
    )
    monkeypatch.setattr(kafka_client, "new_consumer", lambda _: Client(*answers))
    monkeypatch.setattr(kafka_client.RecordBatches, "of", batch_of)
    consumer = TopicConsumer("t", KafkaSettings(bootstrap_servers="localhost:1"), {}, {0: 0, 1: 0})
    taken = consumer.take()
    assert taken is not None
    assert taken["offset"].to_pylist() == [0, 1]
    with pytest.raises((HeadraceError, kafka_client.OffsetOutOfRangeError)):
        consumer.take()
    assert consumer.position == {0: 2, 1: 0}
    assert not consumer.ended
