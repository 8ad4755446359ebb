"""Kafka's client reads what Spark's source refuses, and notices when it was told of less than Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.log.sequencer import Appended
from headrace.spark.kafka_client import RecordsNotReadError
from headrace.streams import refused_batches
from headrace.streams.refused_batches import RefusedBatches


class KnownTopic:
    """What the client is told of a topic: one partition, of ten records."""

    name, settings = "t", None

    def partitions(self) -> list[int]:
        return [0]

    def earliest(self, partitions: Any) -> dict[int, int]:
        return dict.fromkeys(partitions, 0)

    def ends(self, partitions: Any) -> dict[int, int]:
        return dict.fromkeys(partitions, 10)


class Reader:
    """Finds a timestamp that Spark refuses in all that it reads."""

    refusable = 1

    def __init__(self, *of: Any) -> None: ...

    def read(self, piece: Mapping[int, tuple[int, int]]) -> Mapping[int, tuple[int, int]]:
        return piece


class Log:
    """Remembers which offsets it was given."""

    def __init__(self) -> None:
        self.given: list[Mapping[int, tuple[int, int]]] = []

    def append(self, piece: Mapping[int, tuple[int, int]]) -> Appended:
        self.given.append(piece)
        return Appended(sum(last - first + 1 for first, last in piece.values()), 0, 0)


def refuse() -> Appended:
    raise RuntimeError("java.lang.ArithmeticException: long overflow")


def test_records_of_a_partition_that_spark_alone_knew_of_are_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refused_batches, "KafkaReader", Reader)
    log: Any = Log()
    topic: Any = KnownTopic()
    batches = RefusedBatches(topic, offsets_max=4)

    def append(position: Mapping[int, int], ended: Mapping[int, int]) -> Appended:
        return batches.append(log, refuse, lambda: position, lambda: ended, lambda: False)

    assert append({0: 0}, {}).records == 5
    assert batches.written({0: 4, 1: 3}) == {0: 4}  # Spark alone knew of partition 1
    assert batches.written({0: 7}) == {0: 5}  # the client read no further
    assert append({0: 5}, {0: 4}).records == 5
    assert log.given == [{0: (0, 3)}, {0: (4, 4)}, {0: (5, 8)}, {0: (9, 9)}]
    with pytest.raises(RecordsNotReadError, match=re.escape("It ended at {1: 3}, by partition")):
        append({0: 10}, {0: 10, 1: 3})
