"""A topic as a broker has it: records stay, a reader begins at any offset, and some offsets have no record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.lifecycle import redrive
from headrace.log.history.erasure import BLANKED
from headrace.sequence.log_columns import DEAD_LETTER, ERASED
from headrace.settings.kafka import KafkaSettings
from headrace.spark.brokers.topic_limits import TopicLimits
from headrace.testing.piped import PipedTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headrace.description import Topic

NOWHERE = KafkaSettings(bootstrap_servers="localhost:1")
CUT = -1  # stands for the partition
PARTITION, OFFSET = 3, 4  # their places in a row of `PipedTopic`


class BrokerTopic(PipedTopic):
    """Keeps all records, in the order in which they were sent.

    cut  partition and offset of each record that a person has had cut off the log; CUT and the moment of each such act
    """

    def __init__(self, topic: Topic, next_offsets: Mapping[int, int]) -> None:
        """Continue as `PipedTopic` does."""
        super().__init__(topic, next_offsets)
        self.cut: set[tuple[int, int]] = set()

    def roll_back(self, partition: int) -> None:
        """A transaction takes an offset for its record and one for its marker; neither arrives."""
        self._next_offset[partition] += 2

    def send_again(self, partition: int) -> None:
        """The producer of a partition sends its last record once more."""
        last = next((row for row in reversed(self._rows) if row[PARTITION] == partition), None)
        if last is not None:
            self._rows.append((*last[:OFFSET], self._next_offset[partition], *last[OFFSET + 1 :]))
            self._next_offset[partition] += 1

    def lose(self, partition: int, first: int, records: int) -> int:
        """The broker deletes so many records from an offset on. Out: the first offset still to be had"""
        there = sorted(
            row[OFFSET] for row in self._rows if row[PARTITION] == partition and row[OFFSET] >= first
        )
        end = [*there, self._next_offset[partition]][min(records, len(there))]
        self._rows = [
            row for row in self._rows if row[PARTITION] != partition or not first <= row[OFFSET] < end
        ]
        return int(end)

    @property
    def sent(self) -> list[tuple[int, int]]:
        """Partition and offset of each record that a reader gets."""
        return [row[PARTITION:][:2] for row in self._rows]

    def unread(self, next_offsets: Mapping[int, int]) -> frozenset[int]:
        """The partitions that a reader has not read to their ends."""
        return frozenset(p for p, end in self._next_offset.items() if end > next_offsets.get(p, 0))

    def read(
        self, next_offsets: Mapping[int, int], pieces: int, *, again: bool
    ) -> tuple[list[pa.RecordBatch], dict[int, int]]:
        """One of so many pieces of what comes after the offsets, and where it ends.

        In: again  the record before each offset, too: a process that died may have read so far
        """
        rest = [row for row in self._rows if row[OFFSET] >= next_offsets.get(row[PARTITION], 0)]
        piece = rest[: -(-len(rest) // pieces)]
        ends = (
            dict(self._next_offset)
            if len(piece) == len(rest)
            else {row[PARTITION]: row[OFFSET] + 1 for row in piece}
        )
        before: list[tuple[Any, ...]] = []
        if again:
            before = [row for row in self._rows if row[OFFSET] == next_offsets.get(row[PARTITION], 0) - 1]
        kept, self._rows = self._rows, [*before, *piece]
        try:
            return self.take_here(), ends
        finally:
            self._rows = kept


class ToBroker(redrive.Redrive):
    """Sends dead letters to the broker of a life."""

    def __init__(self, spark: SparkSession, lake: Any, topic: Any, broker: BrokerTopic) -> None:
        super().__init__(spark, lake, topic, NOWHERE)
        topic_now = {"_limits": TopicLimits(), "_partitions": frozenset(broker.next_offsets)}
        self.__dict__ |= {"_producer": Producer(broker), **topic_now}


@dataclass
class Producer:
    """Stands where a producer of librdkafka stands."""

    broker: BrokerTopic

    def produce(self, topic: str, *, on_delivery: Any, timestamp: int, partition: int, **record: Any) -> None:
        """Send a record."""
        headers = dict(record["headers"])
        self.broker.add(record["key"], record["value"], timestamp, partition, headers)
        on_delivery(None, None)

    def flush(self, seconds: float) -> int:
        """All of them are there."""
        return 0


def is_of_key(row: Mapping[str, Any], key: str) -> bool:
    """Whether a row of a log came under a key."""
    if row["kind"] == DEAD_LETTER:
        return bool(row["raw_key"] == key.encode())
    return bool(row["key"] == {"key": key})


def blanked(row: Mapping[str, Any]) -> dict[str, Any]:
    """What an erased row of a log still says: its place and times."""
    return {**row, **{name: None for name in BLANKED if name in row}, "reason": ERASED}
