"""Cut the records of all groups into batches at once: in each round every group's next batch, by NumPy.

There are as many rounds as the group with most batches has, each of work in proportion to the groups that have one left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.spark.one_task import NotCertainError

NEVER = np.iinfo(np.int64).max
ROUNDS_MAX = 20_000  # beyond it Spark is sooner done
KEYS_MAX = 1 << 62


@dataclass(frozen=True)
class Limits:
    """What a batch may hold (see `headrace.description.Batches`)."""

    max_records: int | None
    max_wait_ms: int | None
    max_bytes: int | None


@dataclass(frozen=True)
class Opened:
    """The batches that were open before.

    row  of each group which of these is its, -1: none
    """

    row: np.ndarray
    opened_ms: np.ndarray
    records: np.ndarray
    bytes: np.ndarray


@dataclass(frozen=True)
class CutBatches:
    """Batches, by group and by the order of their records.

    begin, end  which records are new in it
    before      which of the batches that were open before is, or was, its group's; -1: none
    held        whether it is that one
    last        whether it is the last of its group
    closed_by   by which of the reasons (`columnar.REASONS`); -1: it is open
    """

    group: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    before: np.ndarray
    held: np.ndarray
    last: np.ndarray
    opened_ms: np.ndarray
    records: np.ndarray
    bytes: np.ndarray
    closed_by: np.ndarray
    closed_ms: np.ndarray

    def records_of(self, row: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of some batches the new records, and for each the batch, by its place in `row`."""
        sizes = np.where(which, self.end[row] - self.begin[row], 0)
        of = np.repeat(np.arange(len(row)), sizes)
        place = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return of, self.begin[row][of] + place

    def known_of(
        self, row: np.ndarray, which: np.ndarray, lists: pa.ChunkedArray
    ) -> tuple[np.ndarray, pa.ListArray]:
        """Of some batches the lists that they had before, and for each item the batch, by its place in `row`."""
        held = np.flatnonzero(self.held[row] & which)
        found = lists.combine_chunks().take(pa.array(self.before[row[held]]))
        return held[pc.list_parent_indices(found).to_numpy()], found


def cut(
    group: np.ndarray,
    at_ms: np.ndarray,
    size: np.ndarray,
    opened: Opened,
    limits: Limits,
    drains: np.ndarray,
    upto_ms: int,
) -> CutBatches:
    """The batches of records that came, and those held that close although no record came (the law: `cut.Cutter`).

    In:     group, at_ms, size  of each record, by group and then in the log's order: its group, commit time and bytes
            drains              commit times, rising
            upto_ms             how far the log was read
    Raises: NotCertainError when it is not worth the while
    """
    line = _Line(group, at_ms, size, len(opened.row))
    parts: list[tuple[np.ndarray, ...]] = []
    begin, held = line.starts, opened.row >= 0
    groups = np.flatnonzero(held | (line.ends > begin))
    begin, held = begin[groups], held[groups]
    while len(groups):
        if len(parts) >= ROUNDS_MAX:
            raise NotCertainError("a group with too many batches")
        end = _end(line, groups, begin, held, opened, limits, drains)
        parts.append((groups, begin, end, held))
        more = end < line.ends[groups]
        groups, begin = groups[more], end[more]
        held = np.zeros(len(groups), bool)
    none = np.zeros(0, np.int64)
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)] or [none, none, none, none > 0]
    order = np.argsort(columns[0], kind="stable")  # of a group's batches the earlier rounds come first
    groups, begin, end, held = (column[order] for column in columns)
    return _closed(line, groups, begin, end, held, opened, limits, drains, upto_ms)


class _Line:
    """All records in a row; where each group's begin and end, and numbers by which places are found."""

    def __init__(self, group: np.ndarray, at_ms: np.ndarray, size: np.ndarray, groups: int) -> None:
        counts = np.bincount(group, minlength=groups)
        self.ends = np.cumsum(counts)
        self.starts = self.ends - counts
        self.at_ms = at_ms
        self.sizes = np.concatenate([[0], np.cumsum(size)])
        self._base = int(at_ms.min()) if len(at_ms) else 0
        self._span = int(at_ms.max()) - self._base + 1 if len(at_ms) else 1
        if groups * self._span >= KEYS_MAX:
            raise NotCertainError("too many groups over too long a time")
        self._keys = group * self._span + (at_ms - self._base)

    def first_from(self, groups: np.ndarray, at_ms: np.ndarray) -> np.ndarray:
        """Each group's first record at or after a time; its end where there is none."""
        into = np.clip(at_ms, self._base, self._base + self._span) - self._base
        place: np.ndarray = np.searchsorted(self._keys, groups * self._span + into, "left")
        return place


def _end(
    line: _Line,
    groups: np.ndarray,
    begin: np.ndarray,
    held: np.ndarray,
    opened: Opened,
    limits: Limits,
    drains: np.ndarray,
) -> np.ndarray:
    """Where the next batch of each group ends."""
    end, row = line.ends[groups], opened.row[groups]
    opened_ms, records, size = _so_far(line, begin, held, row, opened)
    if limits.max_records is not None:
        end = np.minimum(end, begin + limits.max_records - records)
    if limits.max_wait_ms is not None:
        end = np.minimum(end, line.first_from(groups, opened_ms + limits.max_wait_ms))
    if len(drains):
        drained_ms = _drained(drains, opened_ms)
        end = np.minimum(end, line.first_from(groups, np.minimum(drained_ms, NEVER - 1) + 1))
    if limits.max_bytes is not None:
        room = line.sizes[begin] + limits.max_bytes - size
        within = np.searchsorted(line.sizes, room, "right") - 1
        exactly = np.searchsorted(line.sizes, room, "left")
        there = line.sizes[np.minimum(exactly, len(line.sizes) - 1)] == room
        within = np.where(there, np.minimum(within, exactly), within)
        end = np.minimum(end, np.maximum(within, np.where(held, begin, begin + 1)))
    ends: np.ndarray = np.maximum(end, begin)
    return ends


def _so_far(
    line: _Line, begin: np.ndarray, held: np.ndarray, row: np.ndarray, opened: Opened
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """When batches were opened, and what they had before: records and bytes."""
    opened_ms = np.zeros(len(begin), np.int64)
    opened_ms[~held] = line.at_ms[begin[~held]]
    opened_ms[held] = opened.opened_ms[row[held]]
    records, size = np.zeros(len(begin), np.int64), np.zeros(len(begin), np.int64)
    records[held], size[held] = opened.records[row[held]], opened.bytes[row[held]]
    return opened_ms, records, size


def _drained(drains: np.ndarray, opened_ms: np.ndarray) -> np.ndarray:
    """The first drain since each batch was opened; `NEVER` if there is none."""
    first: np.ndarray = np.append(drains, NEVER)[np.searchsorted(drains, opened_ms, "left")]
    return first


def _closed(
    line: _Line,
    groups: np.ndarray,
    begin: np.ndarray,
    end: np.ndarray,
    held: np.ndarray,
    opened: Opened,
    limits: Limits,
    drains: np.ndarray,
    upto_ms: int,
) -> CutBatches:
    """By what batches closed, and when."""
    before = opened.row[groups]
    opened_ms, records, size = _so_far(line, begin, held, before, opened)
    records, size = records + (end - begin), size + (line.sizes[end] - line.sizes[begin])
    last = end == line.ends[groups]
    following_ms = np.full(len(groups), NEVER)
    following_ms[~last] = line.at_ms[end[~last]]
    drained_ms = _drained(drains, opened_ms)
    deadline_ms = np.full(len(groups), NEVER)
    if limits.max_wait_ms is not None:
        deadline_ms = opened_ms + limits.max_wait_ms
    earliest_ms = np.minimum(np.minimum(following_ms, drained_ms), upto_ms)
    undrained_ms = np.minimum(following_ms - 1, upto_ms)  # a record comes before the drain of its own time
    full_ms = np.zeros(len(groups), np.int64)
    full_ms[end > begin] = line.at_ms[end[end > begin] - 1]
    reasons = [
        (full_ms, records >= (limits.max_records or NEVER)),
        (full_ms, size >= (limits.max_bytes or NEVER)),
        (deadline_ms, deadline_ms <= earliest_ms),
        (drained_ms, drained_ms <= undrained_ms),
        (following_ms, ~last),
    ]
    closed_by, closed_ms = np.full(len(groups), -1), np.zeros(len(groups), np.int64)
    for number, (at_ms, true) in reversed([*enumerate(reasons)]):
        closed_by, closed_ms = np.where(true, number, closed_by), np.where(true, at_ms, closed_ms)
    return CutBatches(groups, begin, end, before, held, last, opened_ms, records, size, closed_by, closed_ms)
