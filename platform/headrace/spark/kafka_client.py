"""Records of a topic, read by Kafka's own client in this process: stretches of offsets, or on and on from where a log ends.

It reads what Spark's Kafka source refuses, too. That turns each timestamp into microseconds: above 9.2e15 ms (a producer
that writes nanoseconds) and below -9.2e15 ms it raises, for all that it reads at once. Kafka's client hands over any number.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.errors import TransientError
from headrace.sequence.sequence_records import RECORDS
from headrace.spark.kafka_headers import headers_of
from headrace.spark.kafka_refusals import settings_refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.settings.kafka import KafkaSettings

ROWS_MAX, BYTES_MAX = 10_000, 4 << 20  # of records that are handed on at once
AT_ONCE = 2_000  # messages that the client makes in one call, in which it holds the interpreter
PATIENCE_SECONDS = 60  # without a record
LEAST_FETCH_BYTES = 1 << 20  # librdkafka takes no less for one answer of a broker
SPARK_MS_MAX = (2**63 - 1) // 1000
READING: dict[str, object] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "receive.message.max.bytes": 2**31 - 1,
    "check.crcs": True,
    "log_level": 2,
}
# A client that stays fetches ahead. With its queue full it goes on after 20 ms, in place of a second. After 100 ms, in place
# of half a second, the broker answers a request behind the last record; the answer tells of markers there.
AHEAD: dict[str, object] = {
    "queued.min.messages": 20_000,
    "fetch.queue.backoff.ms": 20,
    "fetch.wait.max.ms": 100,
}
# Errors that stop no reading. Nothing here uses the consumer group; after a lost broker the client connects again by itself.
PASSING = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)


class RecordsNotReadError(TransientError):
    """Kafka's client could not read records that Kafka has."""


class OffsetOutOfRangeError(Exception):
    """Kafka does not have the next offset of a partition."""


def spark_refused(error: BaseException) -> bool:
    """Whether Spark's Kafka source raised because of a timestamp."""
    return "java.lang.ArithmeticException" in str(error)


class RecordBatches:
    """Makes batches of messages of one topic."""

    def __init__(self, topic: str, options: Mapping[str, object]) -> None:
        """In: options  of a client, to read headers once more whose names are not UTF-8."""
        self._topic, self._options = topic, options

    def of(self, messages: Sequence[Message]) -> pa.RecordBatch:
        """The messages as `RECORDS`, in their order."""
        headers = headers_of(messages, self._topic, self._options)
        none: list[list[Any]] = [[]] * len(messages)  # nearly all topics have no headers
        names, values = (
            [[pair[at] for pair in pairs] for pairs in headers] if any(headers) else none for at in (0, 1)
        )
        columns = [
            [*map(Message.partition, messages)],
            [*map(Message.offset, messages)],
            [*map(Message.key, messages)],
            [*map(Message.value, messages)],
            [timestamp for _, timestamp in map(Message.timestamp, messages)],
            names,
            values,
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, RECORDS, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


class KafkaReader:
    """Reads stretches of one topic."""

    def __init__(self, topic: str, settings: KafkaSettings, options: Mapping[str, str] | None = None) -> None:
        """Nothing is asked of the broker yet. In: options  of librdkafka, before the settings."""
        self._topic, self._settings, self._more = topic, settings, dict(options or {})
        self.refusable = 0  # of the records that were read: those whose timestamp Spark refuses

    def read(self, offsets: Mapping[int, tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        """Committed records, as `RECORDS`, by partition and offset.

        In:     offsets  for each partition the first and the last; Kafka has given out all of them
        Raises: RecordsNotReadError
        """
        options = consumer_options(self._topic, self._settings, self._more)
        consumer = new_consumer(self._settings, options)
        batches = RecordBatches(self._topic, options)
        try:
            for partition, (first, last) in sorted(offsets.items()):
                place = TopicPartition(self._topic, partition, first)
                consumer.assign([place])
                yield from map(batches.of, self._pieces(_messages(consumer, place, last)))
        except KafkaException as error:
            raise not_read(self._topic, str(error)) from error
        finally:
            consumer.close()

    def _pieces(self, messages: Iterator[Message]) -> Iterator[list[Message]]:
        waiting: list[Message] = []
        size = 0
        for message in messages:
            waiting.append(message)
            size += len(message.key() or b"") + len(message.value() or b"")
            self.refusable += abs(message.timestamp()[1]) > SPARK_MS_MAX
            if len(waiting) >= ROWS_MAX or size >= BYTES_MAX:
                yield waiting
                waiting, size = [], 0
        if waiting:
            yield waiting


class TopicConsumer:
    """Reads a topic on and on, from explicit offsets. One thread uses it.

    position  the next offset of each partition: after the last record that was taken and, once all are, after what stands
              behind it, such as markers of transactions
    ended     the partitions that are read to the end that Kafka shows, as of the last answer
    is_cut_off  whether the client has lost all brokers since it last had an answer
    """

    def __init__(
        self,
        topic: str,
        settings: KafkaSettings,
        options: Mapping[str, str],
        position: Mapping[int, int],
        *,
        most: int = AT_ONCE,
    ) -> None:
        """Begin to fetch.

        In:     options  of librdkafka, before the settings; most: records that `take` gives at once
        Raises: TerminalError for options that it does not take
        """
        self._at_once = min(most, AT_ONCE)
        self._topic, self.position = topic, dict(position)
        self.ended: set[int] = set()
        self.is_cut_off = False
        known = consumer_options(topic, settings, options)
        ahead = AHEAD | {
            "queued.max.messages.kbytes": settings.queued_kbytes,
            "fetch.max.bytes": max(settings.queued_kbytes << 10, LEAST_FETCH_BYTES),
        }
        given = {name: value for name, value in ahead.items() if name not in options}
        self._consumer = new_consumer(settings, known | given | {"error_cb": self._note})
        self._batches = RecordBatches(topic, known)
        self._consumer.assign(self._places(position))

    def add(self, position: Mapping[int, int]) -> None:
        """Read more partitions, from these offsets."""
        self.position |= position
        self._consumer.incremental_assign(self._places(position))

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close()

    def take(self, seconds: float = 0.0) -> pa.RecordBatch | None:
        """Some of the records that follow, as `RECORDS`, of each partition in its order; None: the client has none now.

        In:     seconds  to wait for one of them, or for an end
        Raises: OffsetOutOfRangeError; RecordsNotReadError
        """
        answers = self._consumer.consume(self._at_once, 0.0)
        if not answers and seconds:
            answers = self._consumer.consume(1, seconds)
        messages: list[Message] = []
        for message in answers:
            if (error := message.error()) is None:
                messages.append(message)
            else:
                self._heed(error, message)
        if not messages:
            return None
        self.is_cut_off = False
        batch = self._batches.of(messages)
        last = dict(zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True))
        for partition, offset in last.items():
            if offset >= self.position.get(partition, 0):
                self.position[partition] = offset + 1
                self.ended.discard(partition)
        return batch

    def reached(self) -> dict[int, int]:
        """For each partition the offset at which Kafka's records end, those of open transactions included, as far as the
        client has been told."""
        ends = {
            place.partition: self._consumer.get_watermark_offsets(place, cached=True)
            for place in self._places(self.position)
        }
        return {p: max(end[1], self.position[p]) if end else self.position[p] for p, end in ends.items()}

    def _heed(self, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            partition, offset = place_of(message)
            self.position[partition] = max(offset, self.position.get(partition, 0))
            self.ended.add(partition)
            self.is_cut_off = False
        elif code == KafkaError._AUTO_OFFSET_RESET:
            raise OffsetOutOfRangeError(error.str())
        elif code not in PASSING and (error.fatal() or not error.retriable()):
            raise not_read(self._topic, error.str())

    def _note(self, error: KafkaError) -> None:
        self.is_cut_off |= error.code() == KafkaError._ALL_BROKERS_DOWN

    def _places(self, position: Mapping[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, p, offset) for p, offset in sorted(position.items())]


def by_partition(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same records by partition and offset. In: batches  of each partition in its order."""
    table = pa.Table.from_batches(batches).combine_chunks()
    partition = table["partition"].to_numpy()
    if len(partition) and partition.min() != partition.max():
        table = table.take(pa.array(np.argsort(partition, kind="stable")))
    return cast("list[pa.RecordBatch]", table.to_batches(max_chunksize=ROWS_MAX))


def place_of(message: Message) -> tuple[int, int]:
    """Partition and offset."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


def consumer_options(topic: str, settings: KafkaSettings, more: Mapping[str, str]) -> dict[str, object]:
    """Options of a client that reads a topic. In: more  of librdkafka, before the settings."""
    return {**settings.client_options(), **more, **READING, "group.id": f"headrace-{topic}"}


def new_consumer(settings: KafkaSettings, options: Mapping[str, object]) -> Consumer:
    """A client that reads. Raises: TerminalError for options with which none can be made."""
    try:
        return Consumer(dict(options))
    except KafkaException as error:
        raise settings_refused(settings.bootstrap_servers, error) from None


def not_read(topic: str, why: str) -> RecordsNotReadError:
    """The client could not read."""
    return RecordsNotReadError(
        f"Topic '{topic}': Kafka's client could not read its records.",
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
