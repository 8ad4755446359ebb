"""Records of a topic, read by Kafka's own client: ranges of offsets, or on and on from where a log ends.

The run's own process reads so, and each task of Spark. Kafka's client hands over any timestamp; the log judges it.
"""

from __future__ import annotations

import gc
import time
from bisect import bisect_right
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.sequence.sequence_records import NAMES, RECORDS, VALUES
from headrace.settings.kafka import FIELDS
from headrace.spark.brokers.kafka_headers import headers_of
from headrace.spark.brokers.kafka_refusals import not_read, settings_refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.description import Topic
    from headrace.settings.kafka import KafkaSettings
    from headrace.spark.brokers.kafka_headers import Headers

ROWS_MAX, BYTES_MAX = 10_000, 4 << 20  # of records that are handed on at once
AT_ONCE = 2_000  # messages that the client makes in one call, in which it holds the interpreter
PATIENCE_SECONDS = 60  # without a record
# More objects made than freed, after which Python looks for garbage that refers to itself; else it does after 700. A record
# needs three or four until it is in Arrow, none of them garbage: half of the time of reading went into looking at them.
OBJECTS = 200_000
LEAST_FETCH_BYTES = 1 << 20  # librdkafka takes no less for one answer of a broker
READING: dict[str, object] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "receive.message.max.bytes": 2**31 - 1,
    "check.crcs": True,
    "log_level": 2,
}
# A client fetches ahead. With its queue full it goes on after 20 ms, in place of a second.
AHEAD: dict[str, object] = {"queued.min.messages": 20_000, "fetch.queue.backoff.ms": 20}
# When the broker answers a request after the last record, in place of half a second; the answer tells of markers there. A
# client that stays asks again and again, one that reads a range asks once.
STAYING_MS, ONCE_MS = 100, 1
# Errors that stop no reading. Nothing here uses the consumer group; after a lost broker the client connects again by itself.
PASSING = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)


class OffsetOutOfRangeError(Exception):
    """Kafka does not have the next offset of a partition."""


class RecordBatches:
    """Makes batches of messages of one topic."""

    def __init__(self, topic: str, options: Mapping[str, object]) -> None:
        """In: options  of a client, to read headers once more whose names are not UTF-8."""
        self._topic, self._options = topic, options

    def of(self, messages: Sequence[Message]) -> pa.RecordBatch:
        """The messages as `RECORDS`, in their order."""
        columns = [
            [*map(Message.partition, messages)],
            [*map(Message.offset, messages)],
            [*map(Message.key, messages)],
            [*map(Message.value, messages)],
            [*map(itemgetter(1), map(Message.timestamp, messages))],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, RECORDS, strict=False)]
        arrays += _lists_of(headers_of(messages, self._topic, self._options))
        return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def _lists_of(headers: Sequence[Headers]) -> list[pa.Array]:
    """The names and the values of the headers of each record. Python makes no list of its own for a record."""
    ends = np.zeros(len(headers) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, headers), np.int32, len(headers)), out=ends[1:])
    pairs = [*chain.from_iterable(headers)]
    return [
        pa.ListArray.from_arrays(
            ends, pa.array([*map(itemgetter(at), pairs)], RECORDS.field(name).type.value_type)
        )
        for at, name in enumerate((NAMES, VALUES))
    ]


class KafkaReader:
    """Reads ranges of one topic. It goes to tasks."""

    def __init__(self, topic: str, settings: KafkaSettings, options: Mapping[str, str] | None = None) -> None:
        """Nothing is asked of the broker yet. In: options  of librdkafka, before the settings."""
        self._topic = topic
        self._options = consumer_options(topic, settings, options or {}, wait_ms=ONCE_MS)

    @classmethod
    def of(cls, topic: Topic, settings: KafkaSettings) -> KafkaReader:
        """A reader of a described topic, whose own options come before the settings."""
        return cls(topic.name, settings.of(topic.options), client_only(topic))

    def read(self, offsets: Mapping[int, tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        """Committed records, as `RECORDS`, by partition and offset.

        In:     offsets  for each partition the first and the last; Kafka has given out all of them
        Raises: RecordsNotReadError
        """
        consumer = new_consumer(self._options)
        batches = RecordBatches(self._topic, self._options)
        try:
            for partition, (first, last) in sorted(offsets.items()):
                consumer.assign([TopicPartition(self._topic, partition, first)])
                yield from map(batches.of, _joined(_messages(consumer, partition, last)))
        except KafkaException as error:
            raise not_read(self._topic, str(error)) from error
        finally:
            consumer.close()


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
        known = consumer_options(topic, settings, options, wait_ms=STAYING_MS)
        self._consumer = new_consumer(known | {"error_cb": self._note})
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
        ends: list[Message] = []
        for message in answers:
            if (error := message.error()) is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.append(message)
            else:
                self._require_passing(error)
        # Not before: an error drops this answer, and then no position may lie behind its records.
        for end in ends:
            self._note_end(end)
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

    def _note_end(self, message: Message) -> None:
        partition, offset = place_of(message)
        self.position[partition] = max(offset, self.position.get(partition, 0))
        self.ended.add(partition)
        self.is_cut_off = False

    def _require_passing(self, error: KafkaError) -> None:
        """Raises: OffsetOutOfRangeError; RecordsNotReadError for what does not pass by itself."""
        code = error.code()
        if code == KafkaError._AUTO_OFFSET_RESET:
            raise OffsetOutOfRangeError(error.str())
        if code not in PASSING and (error.fatal() or not error.retriable()):
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


def client_only(topic: Topic) -> dict[str, str]:
    """The options of a topic that are no connection's, by librdkafka's names."""
    return {name: value for name, value in topic.options.items() if name not in FIELDS}


def consumer_options(
    topic: str, settings: KafkaSettings, more: Mapping[str, str], *, wait_ms: int
) -> dict[str, object]:
    """Options of a client that reads a topic.

    In: more     of librdkafka, before the settings
        wait_ms  for the answer to a request after the last record
    """
    ahead = AHEAD | {
        "queued.max.messages.kbytes": settings.queued_kbytes,
        "fetch.max.bytes": max(settings.queued_kbytes << 10, LEAST_FETCH_BYTES),
        "fetch.wait.max.ms": wait_ms,
    }
    return {**ahead, **settings.client_options(), **more, **READING, "group.id": f"headrace-{topic}"}


def new_consumer(options: Mapping[str, object]) -> Consumer:
    """A client that reads. The process collects garbage less often from now on.

    Raises: TerminalError for options with which none can be made
    """
    first, *others = gc.get_threshold()
    if 0 < first < OBJECTS:  # 0: somebody has switched it off
        gc.set_threshold(OBJECTS, *others)
    try:
        return Consumer(dict(options))
    except KafkaException as error:
        raise settings_refused(str(options["bootstrap.servers"]), error) from None


def _messages(consumer: Consumer, partition: int, last: int) -> Iterator[list[Message]]:
    """The records of one partition, as they come, up to an offset that Kafka has given out. Raises: KafkaException."""
    deadline, trouble = time.monotonic() + PATIENCE_SECONDS, KafkaError(KafkaError._TIMED_OUT)
    while True:
        answers = consumer.consume(AT_ONCE, 0.0) or consumer.consume(1, 0.5)
        records, end = answers, -1  # end: where Kafka's records end
        odd = any(map(Message.error, answers)) or bool({*map(Message.partition, answers)} - {partition})
        if odd:
            records = [each for each in answers if each.error() is None and each.partition() == partition]
        for message in answers if odd else ():
            if (error := message.error()) is None or message.partition() not in (partition, None, -1):
                continue
            if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise KafkaException(error)
            if error.code() == KafkaError._PARTITION_EOF:
                end = place_of(message)[1]
            else:  # the client itself tries again after most errors
                trouble = error
        if records:
            deadline = time.monotonic() + PATIENCE_SECONDS
            if (offset := place_of(records[-1])[1]) >= last:
                end = last + 1
            if offset > last:
                records = records[: bisect_right([place_of(each)[1] for each in records], last)]
            yield records
        if end > last:
            return
        if time.monotonic() > deadline:
            raise KafkaException(trouble)


def _joined(pieces: Iterator[list[Message]]) -> Iterator[list[Message]]:
    """The same messages, as many at once as share the cost of a batch."""
    waiting: list[Message] = []
    size = 0
    for piece in pieces:
        waiting += piece
        size += sum(map(len, piece))  # of their values
        if len(waiting) >= ROWS_MAX or size >= BYTES_MAX:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting
