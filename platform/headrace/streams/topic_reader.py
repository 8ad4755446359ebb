"""Reads a topic on from where its log ends: little in this process, much as exact ranges in Spark's tasks, by one client.

Law: who reads changes no row. Both give each partition's records in the order of offsets, through an end that is known.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.spark.brokers.kafka_client import (
    KafkaReader,
    OffsetOutOfRangeError,
    TopicConsumer,
    by_partition,
    client_only,
)
from headrace.spark.brokers.kafka_ranges import KafkaRanges
from headrace.spark.brokers.kafka_refusals import RecordsNotReadError, not_read
from headrace.spark.kafka import TOPIC_SECONDS, lost_offsets, require_no_loss, require_same_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.log.record_writer import Records
    from headrace.log.sequencer import Appended, Sequencer
    from headrace.spark.kafka import KafkaTopic

MEANINGS: Mapping[str, str] = {
    "client_increments": "Increments of the log that Kafka's client read in the run's own process, since the run began.",
    "client_records": "The records of these.",
    "spark_increments": "Increments of the log that Spark's tasks read, since the run began.",
    "spark_records": "The records of these.",
}
BYTES_MAX = 64 << 20  # of what the client reads for one commit
# By the mean size of the records that the client read last, a log further behind is for Spark.
SMALL_BYTES = 128 << 20
FEW_MIN = 1_000  # records; what the client reads for a commit is bounded anyway
BEHIND_SECONDS = 0.5  # to wait for more of what Kafka is known to hold; nearly always it comes at once
READ_SECONDS = 2.0  # the longest that the client reads for one commit
# Up to this many, one task is faster than several, which take time to start; it reads one partition after the other.
FEW_RECORDS, FEW_PARTITIONS = 20_000, 8


@dataclass
class Work:
    """The work of one reader since the stream began."""

    increments: int = 0
    records: int = 0


class TopicReader:
    """Reads one topic for its sequencer. One thread reads; others may call `see`.

    position         the next offset of each partition, as the log has it
    more             whether Kafka holds more than the last increment took
    by_client, by_spark  what either has taken
    """

    def __init__(self, spark: SparkSession, topic: Topic, kafka: KafkaTopic, *, most: int) -> None:
        """Nothing is read. In: most  offsets in one log commit."""
        self._spark, self._topic, self._kafka, self._settings = spark, topic, kafka, kafka.settings
        self._small, self._most = kafka.settings.small_records, most
        self.by_client, self.by_spark = Work(), Work()
        self.more = False
        self.position: Mapping[int, int] = {}
        self._consumer: TopicConsumer | None = None
        self._far = False
        self._mean_bytes = 1
        self._next: pa.RecordBatch | None = None
        self._new: frozenset[int] = frozenset()
        self._ends: Mapping[int, int] = {}
        self._trouble: HeadraceError | None = None  # met behind records that were committed first

    def begin(self, position: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Read on from here. In: ends  as Kafka has them now."""
        self.close()
        self.position, self._new, self._trouble = dict(position), frozenset(), None
        self._far = _left(position, ends) > self._few

    def close(self) -> None:
        """Give the client back."""
        self.more = False
        self._leave()

    def _leave(self) -> None:
        """Drop the client, and with it the records that it has fetched ahead: they are read again."""
        self._next = None
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    @property
    def _few(self) -> int:
        """How many records the client reads, at most; of large ones fewer. One large record alone changes little."""
        return min(self._small, max(FEW_MIN, SMALL_BYTES // self._mean_bytes))

    def numbers(self) -> dict[str, int]:
        """The work of both readers, by the names of `MEANINGS`."""
        read = {"client": self.by_client, "spark": self.by_spark}
        increments = {f"{name}_increments": work.increments for name, work in read.items()}
        return increments | {f"{name}_records": work.records for name, work in read.items()}

    def see(self, partitions: Iterable[int]) -> None:
        """The topic has these partitions now."""
        self._new = frozenset(partitions) - self.position.keys()

    def due(self) -> bool:
        """Whether there are records, or markers of transactions. Raises: as `append`."""
        if self._trouble is not None:
            raise self._trouble
        # A partition that is added is read from its start.
        if new := dict.fromkeys(sorted(self._new - self.position.keys()), 0):
            self.position, self._new = {**self.position, **new}, frozenset()
            if self._consumer is not None:
                self._consumer.add(new)
        if self._far or not self._small:  # it is far behind, or was and is not near yet
            self._ends = self._kafka.ends(self.position)
            self._far = _left(self.position, self._ends) > self._few // 2
        if self._far or not self._small:
            return self._far
        if self._next is None:
            self._next = self._take(0.0)
        return self._next is not None or (
            self._consumer is not None and self._consumer.position != self.position
        )

    def append(
        self, sequencer: Sequencer, stops: Callable[[], bool], confirm: Callable[[], None]
    ) -> Appended:
        """Give the sequencer the next increment, which is due.

        In:     stops    asked while Kafka's client reads; if it is true, it reads no further
                confirm  called once the client has read, before anything is written
        Raises: LostOffsetsError, TopicBehindError when Kafka has not got what the log needs; RecordsNotReadError;
                BrokerUnreachableError
        """
        if not self._far:
            return self._append_taken(sequencer, stops, confirm)
        confirm()
        offsets = self._range()
        ends = {p: last + 1 for p, (_, last) in offsets.items()}
        self._name_jobs(offsets)
        ranges = KafkaRanges(self._spark, KafkaReader.of(self._topic, self._settings), offsets)
        number = sum(last - first + 1 for first, last in offsets.values())
        few = number <= FEW_RECORDS and len(offsets) <= FEW_PARTITIONS
        try:
            return self._append(sequencer, ranges, ends, self.by_spark, one_task=few)
        except RecordsNotReadError:
            self._require_offsets()
            raise

    def _append(
        self,
        sequencer: Sequencer,
        records: Records,
        ends: Mapping[int, int],
        work: Work,
        *,
        one_task: bool = False,
    ) -> Appended:
        appended = sequencer.append(records, ends=ends, in_order=True, one_task=one_task)
        self.position = {**self.position, **ends}
        work.increments += 1
        work.records += appended.records
        return appended

    def _range(self) -> dict[int, tuple[int, int]]:
        """For each partition the first and the last offset of the next increment: of each the same part of what is left."""
        left = _left(self.position, self._ends)
        self.more = left > self._most
        part = min(1.0, self._most / left)
        numbers = {p: int((self._ends[p] - first) * part) for p, first in self.position.items()}
        least = {p: int(self._ends[p] > first) for p, first in self.position.items()}
        return {
            p: (first, first + number - 1)
            for p, first in self.position.items()
            if (number := max(numbers[p], least[p])) > 0
        }

    def _name_jobs(self, offsets: Mapping[int, tuple[int, int]]) -> None:
        name = f"log/{self._topic.name}"
        shown = ", ".join(f"{p}: {first}–{last}" for p, (first, last) in sorted(offsets.items()))
        self._spark.sparkContext.setJobGroup(name, f"{name} {shown}")

    def _append_taken(
        self, sequencer: Sequencer, stops: Callable[[], bool], confirm: Callable[[], None]
    ) -> Appended:
        first, self._next = self._next if self._next is not None else self._take(0.0), None
        assert self._consumer is not None
        consumer, ends = self._consumer, self._consumer.reached()
        taken = [] if first is None else [first]
        rows_max, self.more = min(self._few, self._most), False
        rows, size = (first.num_rows, first.nbytes) if first is not None else (0, 0)
        began = fell_at = time.monotonic()
        while (left := _left(consumer.position, ends, consumer.ended)) > 0 and not stops():
            if left > self._few:  # of an open transaction nothing can be read yet
                ends = self._kafka.ends(consumer.position)
                self._far = _left(consumer.position, ends) > self._few
            now = time.monotonic()
            self.more = self._far or rows >= rows_max or size >= BYTES_MAX or now - began > READ_SECONDS
            # A partition whose broker is away holds up no other.
            if self.more or now - fell_at > BEHIND_SECONDS:
                break
            try:
                batch = self._take(BEHIND_SECONDS)
            except HeadraceError as error:
                if not taken:
                    raise
                self._trouble = error
                break
            if batch is not None:
                taken.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
            fell_at = time.monotonic() if _left(consumer.position, ends, consumer.ended) < left else fell_at
        if rows:
            self._mean_bytes = max(1, size // rows)
        records = by_partition(taken) if taken else []
        confirm()
        appended = self._append(sequencer, records, dict(consumer.position), self.by_client)
        if self._far:
            self._leave()
        return appended

    def _take(self, seconds: float) -> pa.RecordBatch | None:
        if self._consumer is None:
            self._consumer = TopicConsumer(
                self._topic.name, self._settings, client_only(self._topic), self.position, most=self._most
            )
        try:
            batch = self._consumer.take(seconds)
        except OffsetOutOfRangeError as error:
            self._require_offsets()
            raise not_read(self._topic.name, str(error)) from error
        if batch is None and self._consumer.is_cut_off:
            self._kafka.partitions(patience_seconds=TOPIC_SECONDS)  # raises in our words, if it is so
            self._consumer.is_cut_off = False
        return batch

    def _require_offsets(self) -> None:
        """Raise LostOffsetsError or TopicBehindError if Kafka has not got what the log needs."""
        needed = self.position
        require_same_topic(self._topic.name, needed, self._kafka.ends(needed))
        require_no_loss(self._topic.name, lost_offsets(needed, self._kafka.earliest(needed)))


def _left(position: Mapping[int, int], ends: Mapping[int, int], ended: Collection[int] = ()) -> int:
    return sum(max(0, ends.get(p, 0) - first) for p, first in position.items() if p not in ended)
