"""The records of rows of a log, read from Kafka a second time.

Law: each row gets the record that Kafka has at its partition and offset, or nothing is returned. So a log that is made anew
from them is the one that Kafka's bytes give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import TerminalError
from headrace.lifecycle.log_repair.kafka_holds import WAY_OUT
from headrace.sequence.sequence_records import RECORDS
from headrace.spark.brokers.kafka_client import KafkaReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description import Topic
    from headrace.settings.kafka import KafkaSettings

SHOWN = 3  # places that an error names
Places = tuple[np.ndarray, np.ndarray]


class KafkaAgain:
    """Reads records of one topic that its log holds."""

    def __init__(self, topic: Topic, settings: KafkaSettings) -> None:
        """Nothing is asked of the broker yet."""
        self._topic, self._settings = topic, settings

    def delivered(self, rows: pa.Table) -> pa.Table:
        """The records of some rows, as `RECORDS`, one for each, in the same order.

        In:     rows  records and dead letters of the log: `partition`, `offset` and `size_bytes`
        Raises: TerminalError naming the places where Kafka has no record, or one of another size
        """
        if not rows.num_rows:
            return RECORDS.empty_table()
        wanted = _places(rows)
        found = self.stretches(_ranges(wanted)).sort_by([("partition", "ascending"), ("offset", "ascending")])
        at, is_there = _match_places(wanted, _places(found))
        self._require(is_there, wanted, "Kafka has no record there any more, as after compaction")
        records = found.take(pa.array(at))
        sizes = pc.add(*(pc.binary_length(records[name]).fill_null(0) for name in ("key", "value")))
        same = pc.equal(sizes, rows["size_bytes"]).to_numpy(zero_copy_only=False)
        self._require(same, wanted, "Kafka has a record of another size there, so it is another topic")
        return records

    def stretches(self, offsets: Mapping[int, tuple[int, int]]) -> pa.Table:
        """All records that Kafka has in some stretches, as `RECORDS`, in any order.

        In: offsets  for each partition the first and the last; none of them lies before the earliest that Kafka has
        """
        if not offsets:
            return RECORDS.empty_table()
        return pa.Table.from_batches(KafkaReader.of(self._topic, self._settings).read(offsets), RECORDS)

    def _require(self, holds: np.ndarray, wanted: Places, why: str) -> None:
        odd = np.flatnonzero(~holds)
        if not len(odd):
            return
        places = [f"partition {wanted[0][row]} offset {wanted[1][row]}" for row in odd[:SHOWN]]
        raise TerminalError(
            f"Topic '{self._topic.name}': its log cannot be made again from Kafka: {why}.",
            detail=", ".join(places) + (f", and {len(odd) - SHOWN:,} more" if len(odd) > SHOWN else ""),
            hint=WAY_OUT,
        )


def _places(rows: pa.Table) -> Places:
    return rows["partition"].to_numpy(), rows["offset"].to_numpy()


def _ranges(places: Places) -> dict[int, tuple[int, int]]:
    """For each partition the first offset and the last."""
    partitions, offsets = places
    of_each = {int(p): offsets[partitions == p] for p in np.unique(partitions)}
    return {p: (int(of.min()), int(of.max())) for p, of in of_each.items()}


def _match_places(wanted: Places, places: Places) -> tuple[np.ndarray, np.ndarray]:
    """Where each wanted place stands among those found, and whether it does. In: places  by partition and offset."""
    at, is_there = np.zeros(len(wanted[0]), np.int64), np.zeros(len(wanted[0]), bool)
    for partition in np.unique(wanted[0]):
        rows = np.flatnonzero(wanted[0] == partition)
        first, end = np.searchsorted(places[0], [partition, partition + 1])
        if first < end:
            near = np.minimum(np.searchsorted(places[1][first:end], wanted[1][rows]), end - first - 1) + first
            at[rows], is_there[rows] = near, places[1][near] == wanted[1][rows]
    return at, is_there
