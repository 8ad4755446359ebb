"""Records that Spark's Kafka source refuses, read by Kafka's own client in this process.

Spark's source turns each timestamp into microseconds. Above 9.2e15 ms (a producer that writes nanoseconds) and below
-9.2e15 ms it raises, for the whole micro-batch and in each attempt. Kafka's client hands over any number.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.errors import TransientError
from headrace.sequence.sequence_records import RECORDS
from headrace.spark.kafka_headers import headers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from confluent_kafka import Message

    from headrace.spark.kafka import KafkaSettings

ROWS_MAX, BYTES_MAX = 10_000, 4 << 20  # of records that are handed on at once
PATIENCE_SECONDS = 60  # without a record
SPARK_MS_MAX = (2**63 - 1) // 1000
READING = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "receive.message.max.bytes": 2**31 - 1,
    "log_level": 2,
}


class RecordsNotReadError(TransientError):
    """Kafka's client could not read records that Kafka has."""


def spark_refused(error: BaseException) -> bool:
    """Whether Spark's Kafka source raised because of a timestamp."""
    return "java.lang.ArithmeticException" in str(error)


class KafkaReader:
    """Reads stretches of one topic."""

    def __init__(self, topic: str, settings: KafkaSettings) -> None:
        """Nothing is asked of the broker yet."""
        self._topic, self._settings = topic, settings
        self.refusable = 0  # of the records that were read: those whose timestamp Spark refuses

    def read(self, offsets: Mapping[int, tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        """Committed records, as `RECORDS`, by partition and offset.

        In:     offsets  for each partition the first and the last; Kafka has given out all of them
        Raises: RecordsNotReadError
        """
        consumer = Consumer(self._options)
        try:
            for partition, (first, last) in sorted(offsets.items()):
                place = TopicPartition(self._topic, partition, first)
                consumer.assign([place])
                yield from self._batches(_messages(consumer, place, last))
        except KafkaException as error:
            raise self._not_read(str(error)) from error
        finally:
            consumer.close()

    @property
    def _options(self) -> dict[str, object]:
        return self._settings.client_options() | READING | {"group.id": f"headrace-{self._topic}"}

    def _batches(self, messages: Iterator[Message]) -> Iterator[pa.RecordBatch]:
        waiting: list[Message] = []
        size = 0
        for message in messages:
            waiting.append(message)
            size += len(message.key() or b"") + len(message.value() or b"")
            self.refusable += abs(message.timestamp()[1]) > SPARK_MS_MAX
            if len(waiting) >= ROWS_MAX or size >= BYTES_MAX:
                yield self._batch_of(waiting)
                waiting, size = [], 0
        if waiting:
            yield self._batch_of(waiting)

    def _batch_of(self, messages: Sequence[Message]) -> pa.RecordBatch:
        headers = headers_of(messages, self._topic, self._options)
        columns = [
            [message.partition() for message in messages],
            [message.offset() for message in messages],
            [message.key() for message in messages],
            [message.value() for message in messages],
            [message.timestamp()[1] for message in messages],
            [[name for name, _ in pairs] for pairs in headers],
            [[value for _, value in pairs] for pairs in headers],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, RECORDS, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)

    def _not_read(self, why: str) -> RecordsNotReadError:
        return RecordsNotReadError(
            f"Topic '{self._topic}': Kafka's client could not read its records.",
            detail=why,
            hint="The stream tries again by itself. If the broker is reachable, look at its log.",
        )


def _messages(consumer: Consumer, place: TopicPartition, last: int) -> Iterator[Message]:
    """The records of one partition, up to an offset that Kafka has given out."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        message = consumer.poll(0.5)
        error = None if message is None else message.error()
        if message is None or (error is not None and not _is_final(error)):
            if time.monotonic() > deadline:  # librdkafka itself tries again after most errors
                raise KafkaException(error or KafkaError(KafkaError._TIMED_OUT))
            continue
        if message.partition() != place.partition:
            continue
        offset = message.offset()
        assert offset is not None
        if error is None and offset <= last:
            deadline = time.monotonic() + PATIENCE_SECONDS
            yield message
        elif error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if offset >= last + (error is not None):
            return


def _is_final(error: KafkaError) -> bool:
    return error.fatal() or error.code() in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET)
