"""Kafka's client reads what Spark's source refuses: the same offsets, in log commits of bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.log.sequencer import Appended
from headrace.streams import refused_batches
from headrace.streams.refused_batches import RefusedBatches


class KnownTopic:
    """A topic whose partition 1 begins at offset 2."""

    name, settings = "t", None

    def earliest(self, partitions: Any) -> dict[int, int]:
        return {p: 2 * p for p in partitions}


class Reader:
    """Finds a timestamp that Spark refuses in all that it reads."""

    refusable = 1

    def __init__(self, *of: Any) -> None: ...

    def read(self, piece: Mapping[int, tuple[int, int]]) -> Mapping[int, tuple[int, int]]:
        return piece


class Log:
    """Remembers the offsets that it appends, and stands at the ends of the last append."""

    def __init__(self) -> None:
        self.pieces: list[Mapping[int, tuple[int, int]]] = []
        self.state = SimpleNamespace(next_offsets={0: 0})

    def append(self, piece: Mapping[int, tuple[int, int]], *, ends: Mapping[int, int]) -> Appended:
        self.pieces.append(piece)
        self.state = SimpleNamespace(next_offsets=self.state.next_offsets | ends)
        return Appended(sum(last - first + 1 for first, last in piece.values()), 0, 0)


def refuse() -> Appended:
    raise RuntimeError("java.lang.ArithmeticException: long overflow")


def test_the_client_reads_the_micro_batch_to_its_end_a_partition_that_is_new_included(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refused_batches, "KafkaReader", Reader)
    log: Any = Log()
    topic: Any = KnownTopic()
    batches = RefusedBatches(topic, offsets_max=4)
    assert batches.append(log, refuse, {0: 5}, lambda: False).records == 5
    assert log.pieces == [{0: (0, 3)}, {0: (4, 4)}]
    assert batches.append(log, refuse, {0: 10, 1: 3}, lambda: False).records == 6
    assert log.pieces[2:] == [{0: (5, 6), 1: (2, 2)}, {0: (7, 9)}]
    assert log.state.next_offsets == {0: 10, 1: 3}


def test_nothing_is_read_once_the_stream_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_batches, "KafkaReader", Reader)
    log: Any = Log()
    topic: Any = KnownTopic()
    stops = iter([False, True])
    assert RefusedBatches(topic, offsets_max=4).append(log, refuse, {0: 9}, lambda: next(stops)).records == 4
    assert log.state.next_offsets == {0: 4}
