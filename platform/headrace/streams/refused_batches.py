"""Reads, by Kafka's client, the micro-batches that Spark's Kafka source refuses for a timestamp.

The client reads the same offsets. The next micro-batch probably holds such timestamps, too: the client reads until it finds
none, then Spark is asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from headrace.log.sequencer import Appended
from headrace.spark.kafka_client import KafkaReader, spark_refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.log.sequencer import Sequencer
    from headrace.spark.kafka import KafkaTopic

logger = structlog.get_logger(__name__)


class RefusedBatches:
    """Reads the refused micro-batches of one topic."""

    def __init__(self, kafka: KafkaTopic, *, offsets_max: int) -> None:
        """In: offsets_max  of a log commit."""
        self._kafka, self._offsets_max = kafka, offsets_max
        self._expected = False

    def append(
        self,
        sequencer: Sequencer,
        by_spark: Callable[[], Appended],
        ends: Mapping[int, int],
        stops: Callable[[], bool],
    ) -> Appended:
        """Append what the micro-batch under way holds, by Spark or, if it refuses, in this process.

        In:     by_spark  appends it, or raises
                ends      where it ends: for each partition the next offset
                stops     asked before each log commit; if it is true, not all may have been appended
        Raises: RecordsNotReadError
        """
        if not self._expected:
            try:
                return by_spark()
            except Exception as error:
                if not spark_refused(error):
                    raise
                logger.warning(
                    "Spark cannot read a timestamp, so Kafka's client reads", topic=self._kafka.name
                )
        return self._by_client(sequencer, ends, stops)

    def _by_client(
        self, sequencer: Sequencer, ends: Mapping[int, int], stops: Callable[[], bool]
    ) -> Appended:
        reader, sums = KafkaReader(self._kafka.name, self._kafka.settings), [0, 0, 0]
        for piece in self._pieces(sequencer.state.next_offsets, ends):
            if stops():
                break
            nexts = {p: last + 1 for p, (_, last) in piece.items()}
            added = sequencer.append(reader.read(piece), ends=nexts)
            for place, number in enumerate((added.records, added.dead_letters, added.replays)):
                sums[place] += number
        self._expected = reader.refusable > 0
        return Appended(*sums)

    def _pieces(
        self, position: Mapping[int, int], ends: Mapping[int, int]
    ) -> Iterator[dict[int, tuple[int, int]]]:
        """For each log commit the first and last offset of each partition."""
        new = ends.keys() - position.keys()
        left = {**position, **(self._kafka.earliest(new) if new else {})}
        while left := {p: first for p, first in left.items() if first < ends.get(p, 0)}:
            share = max(1, self._offsets_max // len(left))
            nexts = {p: min(first + share, ends[p]) for p, first in left.items()}
            yield {p: (first, nexts[p] - 1) for p, first in left.items()}
            left = nexts
