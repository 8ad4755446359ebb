"""Reads, by Kafka's client, the micro-batches that Spark's Kafka source refuses for a timestamp.

The client reads at least the same records. The next micro-batch probably holds such timestamps, too: the client reads until
it finds none, then Spark is asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from headrace.log.sequencer import Appended
from headrace.spark.kafka_client import KafkaReader, RecordsNotReadError, spark_refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.log.sequencer import Sequencer
    from headrace.spark.kafka import KafkaTopic

logger = structlog.get_logger(__name__)


class RefusedBatches:
    """Reads the refused micro-batches of one topic."""

    def __init__(self, kafka: KafkaTopic, *, offsets_max: int) -> None:
        """In: offsets_max  of a micro-batch of Spark's, and of a log commit."""
        self._kafka, self._offsets_max = kafka, offsets_max
        self._expected = False
        self._reached: Mapping[int, int] | None = None

    def written(self, ended: Mapping[int, int]) -> Mapping[int, int]:
        """How far the log has all records, markers of transactions passed over. In: ended  where Spark's last batch did."""
        reached = self._reached
        if reached is None:
            return ended
        return {p: min(end, reached[p]) for p, end in ended.items() if p in reached}

    def append(
        self,
        sequencer: Sequencer,
        by_spark: Callable[[], Appended],
        position: Callable[[], Mapping[int, int]],
        ended: Callable[[], Mapping[int, int]],
        stops: Callable[[], bool],
    ) -> Appended:
        """Append what the micro-batch under way holds, by Spark or, if it refuses, in this process.

        In:     by_spark  appends it, or raises
                position  where it begins, or before
                ended     where Spark's last micro-batch ended
                stops     asked before each log commit; if it is true, not all may have been appended
        Raises: RecordsNotReadError when Spark's last micro-batch held more than Kafka's client knew of
        """
        self._require_all_read(ended())
        if not self._expected:
            try:
                appended = by_spark()
                self._reached = None
                return appended
            except Exception as error:
                if not spark_refused(error):
                    raise
                logger.warning(
                    "Spark cannot read a timestamp, so Kafka's client reads", topic=self._kafka.name
                )
        return self._by_client(sequencer, position(), stops)

    def _require_all_read(self, ended: Mapping[int, int]) -> None:
        """A partition that was added at that moment may have been known to Spark alone."""
        reached = self._reached
        if reached is None:
            return
        missed = {p: end for p, end in ended.items() if end > reached.get(p, 0)}
        if missed:
            raise RecordsNotReadError(
                f"Topic '{self._kafka.name}': Spark's micro-batch held records that Kafka's client was not told of.",
                detail=f"It ended at {missed}, by partition; the client read through {dict(reached)}.",
                hint="The stream begins again by itself where its log ends.",
            )

    def _by_client(
        self, sequencer: Sequencer, position: Mapping[int, int], stops: Callable[[], bool]
    ) -> Appended:
        reader, sums = KafkaReader(self._kafka.name, self._kafka.settings), [0, 0, 0]
        for piece in self._pieces(position):
            if stops():
                break
            added = sequencer.append(reader.read(piece))
            for place, number in enumerate((added.records, added.dead_letters, added.replays)):
                sums[place] += number
        self._expected = reader.refusable > 0
        return Appended(*sums)

    def _pieces(self, position: Mapping[int, int]) -> Iterator[dict[int, tuple[int, int]]]:
        """For each log commit the first and last offset of each partition.

        Spark does not say where its micro-batch ends. It takes at most `offsets_max` offsets of a partition, or one more,
        because it rounds up. The sequencer skips records read beyond that end in the next micro-batch.
        """
        new = set(self._kafka.partitions()) - position.keys()
        left = {**position, **(self._kafka.earliest(new) if new else {})}
        most = {p: first + self._offsets_max + 1 for p, first in left.items()}
        ends = {p: min(end, most[p]) for p, end in self._kafka.ends(left).items()}
        self._reached = ends
        while left := {p: first for p, first in left.items() if first < ends[p]}:
            share = max(1, self._offsets_max // len(left))
            nexts = {p: min(first + share, ends[p]) for p, first in left.items()}
            yield {p: (first, nexts[p] - 1) for p, first in left.items()}
            left = nexts
