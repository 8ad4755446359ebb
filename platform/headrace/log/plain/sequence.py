"""Stream time of plain records, partition by partition (the law: `headrace.log.sequence`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.lake.data_file import NOTHING
from headrace.log.plain.decode import OddError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Known:
    """What a log says of its partitions before a commit.

    next_offsets  of each partition: what lies before is in the log already
    stream_ms     of each partition that has one
    lowest_ms     where a new one starts; None: at nothing
    """

    next_offsets: Mapping[int, int]
    stream_ms: Mapping[int, int]
    lowest_ms: int | None


@dataclass(frozen=True)
class Reached:
    """How far a partition was taken; `counted`: whether a record of this commit has moved its stream time."""

    next_offset: int
    stream_ms: int
    counted: bool


class StreamTimes:
    """Follows the partitions that come to one task."""

    def __init__(self, known: Known) -> None:
        """Nothing came yet."""
        self._known = known
        self._reached: dict[int, Reached] = {}

    def is_new(self, partition: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """Which records the log does not hold yet: a repeated micro-batch adds nothing."""
        new = np.ones(len(offset), bool)
        for number in np.unique(partition).tolist():
            new &= (partition != number) | (offset >= self._known.next_offsets.get(number, 0))
        return new

    def assign(
        self, partition: np.ndarray, offset: np.ndarray, event_ms: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """The stream time of each record in ms, `NOTHING` where there is none yet.

        In:     counts  which records move it
        Raises: OddError when the records of a partition do not come in order
        """
        stream_ms = np.empty(len(offset), np.int64)
        for number in np.unique(partition).tolist():
            mine = np.flatnonzero(partition == number)
            before = self._reached.get(number) or self._begin(number)
            if offset[mine[0]] < before.next_offset or np.any(np.diff(offset[mine]) <= 0):
                raise OddError("records out of order")
            start_ms = before.stream_ms
            if not before.counted and start_ms == NOTHING and self._known.lowest_ms is not None:
                start_ms = self._known.lowest_ms
            counted = np.logical_or.accumulate(counts[mine]) | before.counted
            highest_ms = np.maximum.accumulate(np.where(counts[mine], event_ms[mine], NOTHING))
            stream_ms[mine] = np.where(counted, np.maximum(highest_ms, start_ms), before.stream_ms)
            last = mine[-1]
            self._reached[number] = Reached(int(offset[last]) + 1, int(stream_ms[last]), bool(counted[-1]))
        return stream_ms

    def last_rows(self) -> list[tuple[int, int, int | None]]:
        """Partition, offset and stream time of the last record of each partition."""
        return [
            (number, at.next_offset - 1, None if at.stream_ms == NOTHING else at.stream_ms)
            for number, at in self._reached.items()
        ]

    def _begin(self, number: int) -> Reached:
        known = self._known
        return Reached(known.next_offsets.get(number, 0), known.stream_ms.get(number, NOTHING), False)
