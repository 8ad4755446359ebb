"""Stream time: the running maximum of event time in each partition, carried over log commits.

Law: L3. Cutting the same offsets elsewhere changes no row's stream time within a log commit sequence. A partition that gets
its first event time starts at the lowest stream time recorded before the commit. Dead letters advance nothing, and neither
do replays: one that is dated when it was sent again would close windows early.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headrace.fold.segments import begins, numbered, running_max
from headrace.sequence.decode import NOTHING


def is_new(partition: np.ndarray, offset: np.ndarray, next_offsets: Mapping[int, int]) -> np.ndarray:
    """Which records a log does not hold. In: next_offsets  of its partitions."""
    numbers = np.array(sorted(next_offsets), np.int64)
    from_offset = np.zeros(len(offset), np.int64)
    if len(numbers):
        at = np.minimum(np.searchsorted(numbers, partition), len(numbers) - 1)
        known = np.array([next_offsets[number] for number in numbers.tolist()], np.int64)
        from_offset = np.where(numbers[at] == partition, known[at], 0)
    new: np.ndarray = offset >= from_offset
    return new


def new_in_order(
    partition: np.ndarray, offset: np.ndarray, next_offsets: Mapping[int, int]
) -> np.ndarray | None:
    """The records that the log does not hold yet, by partition and offset, each once; None: all of them, as they stand.

    A repeated micro-batch adds nothing.
    """
    new = is_new(partition, offset, next_offsets)
    same = partition[1:] == partition[:-1]
    if new.all() and (partition[1:] >= partition[:-1]).all() and (offset[1:] > offset[:-1])[same].all():
        return None
    rows = np.flatnonzero(new)
    rows = rows[np.lexsort((offset[rows], partition[rows]))]
    again = np.zeros(len(rows), bool)
    again[1:] = (partition[rows[1:]] == partition[rows[:-1]]) & (offset[rows[1:]] == offset[rows[:-1]])
    return rows[~again]


def assign_stream_time(
    partition: np.ndarray,
    event_ms: np.ndarray,
    counts: np.ndarray,
    stream_ms: Mapping[int, int],
    lowest_ms: int | None,
) -> np.ndarray:
    """The stream time of each record in ms, `NOTHING` where there is none yet.

    In: partition  records are sorted by it and by offset
        counts     which records advance it
        stream_ms  of each partition that has one before the commit
        lowest_ms  where another one starts; None: at nothing
    """
    if not len(partition):
        return np.zeros(0, np.int64)
    first = begins(partition)
    numbers = partition[first].tolist()
    segment = numbered(first)
    known = np.array([stream_ms.get(number, NOTHING) for number in numbers], np.int64)
    start = np.where(known != NOTHING, known, NOTHING if lowest_ms is None else lowest_ms)
    began = running_max(first, counts.astype(np.int64)) > 0
    highest = running_max(first, np.where(counts, event_ms, 0))
    found: np.ndarray = np.where(began, np.maximum(highest, start[segment]), known[segment])
    return found


def last_rows(
    partition: np.ndarray, offset: np.ndarray, stream_ms: np.ndarray
) -> list[tuple[int, int, int | None]]:
    """Partition, offset and stream time of the last record of each partition."""
    last = np.flatnonzero(np.append(partition[1:] != partition[:-1], True)[: len(partition)])
    rows = zip(partition[last].tolist(), offset[last].tolist(), stream_ms[last].tolist(), strict=True)
    return [(number, at, None if ms == NOTHING else ms) for number, at, ms in rows]
