"""Cut the records of all groups into batches at once.

Law: the batches of a group are a left fold of its records (L14). The next batch begins where the one before it ends, and the
end of a batch is a function of its beginning alone. So we compute, for every record, where a batch would end that began with
it; then we follow these links from the first record of each group. Each round of `_followed` doubles the number of links
that a jump takes: a group of n batches needs log2(n) rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.operators.batches.fold.limits import NEVER, Limits
from headrace.operators.batches.fold.line import Line

UNLIMITED = 1 << 61  # more than records and bytes can be; a sum of two does not overflow
OPEN = -1
BY_COUNT, BY_BYTES, BY_WAIT, BY_DRAIN, BY_NEXT = range(5)  # `BY_NEXT`: the next record did not fit


@dataclass(frozen=True)
class Begun:
    """Batches as they are before the first new record is put into them.

    group      number of the group
    begin      place in the line of the first new record
    opened_ms  commit time of the first record
    records    number of records that it holds already; 0: it begins with a new record
    bytes      size of these
    """

    group: np.ndarray
    begin: np.ndarray
    opened_ms: np.ndarray
    records: np.ndarray
    bytes: np.ndarray

    def take(self, which: np.ndarray) -> Begun:
        """Some of them."""
        columns = (self.group, self.begin, self.opened_ms, self.records, self.bytes)
        return Begun(*(column[which] for column in columns))


@dataclass(frozen=True)
class CutBatches:
    """Batches by group, those of a group in their order.

    begun      as they were before the new records
    end        place after the last new record; equal to `begun.begin` if there is none
    closed_by  what closed it; `OPEN` if nothing did
    closed_ms  when it closed
    """

    begun: Begun
    end: np.ndarray
    closed_by: np.ndarray
    closed_ms: np.ndarray

    @property
    def continued(self) -> np.ndarray:
        """True for batches that were open before."""
        found: np.ndarray = self.begun.records > 0
        return found

    @property
    def new_records(self) -> np.ndarray:
        """How many new records each batch has."""
        return np.asarray(self.end - self.begun.begin)

    @property
    def number(self) -> np.ndarray:
        """Which batch of its group each one is, from 0."""
        first = np.ones(len(self.end), bool)
        first[1:] = self.begun.group[1:] != self.begun.group[:-1]
        places = np.arange(len(first))
        found: np.ndarray = places - np.maximum.accumulate(np.where(first, places, 0))
        return found

    def totals(self, line: Line) -> tuple[np.ndarray, np.ndarray]:
        """Records and bytes of each batch, with those that it had before."""
        begun = self.begun
        size = begun.bytes + line.size_before[self.end] - line.size_before[begun.begin]
        return begun.records + self.new_records, size

    @property
    def closed(self) -> np.ndarray:
        """True for batches that are closed."""
        found: np.ndarray = self.closed_by != OPEN
        return found


def cut(line: Line, opened: Begun, limits: Limits, drains: np.ndarray, upto_ms: int) -> CutBatches:
    """The batches that new records are in, and those open before that closed without any.

    In:  line     records of whole log commits through `upto_ms`, all after what the open batches hold
         opened   the batches open before, at most one per group, their `begin` at the start of the group
         drains   commit times of the drains among these commits, rising; each drain follows the records of its time
         upto_ms  commit time of the last log commit
    Out: every batch that was open, grew or was begun
    """
    fresh = _every_place(line)
    ends = _ends(line, fresh, limits, drains)
    opened_ends = _ends(line, opened, limits, drains)
    first = line.starts.copy()
    first[opened.group] = opened_ends  # the first place that the batch before leaves over
    places = _followed(first[first < line.ends], np.where(ends < line.ends[line.group], ends, len(ends)))
    batches = _joined(opened, fresh.take(places))
    end = np.concatenate([opened_ends, ends[places]])
    order = np.lexsort((batches.begin, batches.records == 0, batches.group))
    batches, end = batches.take(order), end[order]
    found = CutBatches(batches, end, np.full(len(end), OPEN), np.zeros(len(end), np.int64))
    return _closed(line, found, limits, drains, upto_ms)


def _every_place(line: Line) -> Begun:
    """A batch that begins with each record, were it to begin there."""
    nothing = np.zeros(len(line.group), np.int64)
    return Begun(line.group, np.arange(len(line.group)), line.at_ms, nothing, nothing)


def _joined(one: Begun, other: Begun) -> Begun:
    names = ("group", "begin", "opened_ms", "records", "bytes")
    return Begun(*(np.concatenate([getattr(one, name), getattr(other, name)]) for name in names))


def _followed(places: np.ndarray, after: np.ndarray) -> np.ndarray:
    """These places, and all that are reached from them.

    In: after  for each place the next one; the number of places where there is none
    """
    nowhere = len(after)
    jump = np.append(after, nowhere)
    while True:
        further = jump[places]
        further = further[further < nowhere]
        if not len(further):
            return places
        # No two groups meet, and no group comes back: none is there twice.
        places = np.concatenate([places, further])
        jump = jump[jump]


def _ends(line: Line, begun: Begun, limits: Limits, drains: np.ndarray) -> np.ndarray:
    """Where each batch ends: the least of the ends that each limit alone would make."""
    end = line.ends[begun.group]
    if limits.max_records is not None:
        end = np.minimum(end, begun.begin + min(limits.max_records, UNLIMITED) - begun.records)
    if limits.by_time:
        end = np.minimum(end, line.first_from(begun.group, limits.deadlines_ms(begun.opened_ms)))
    if len(drains):
        drained_ms = _drained_ms(drains, begun.opened_ms)
        end = np.minimum(end, line.first_from(begun.group, np.minimum(drained_ms, NEVER - 1) + 1))
    if limits.max_bytes is not None:
        within = line.first_within(begun.begin, min(limits.max_bytes, UNLIMITED) - begun.bytes)
        at_least = begun.begin + (begun.records == 0)  # a record that is too large is alone in its batch
        end = np.minimum(end, np.maximum(within, at_least))
    ends: np.ndarray = np.maximum(end, begun.begin)
    return ends


def _drained_ms(drains: np.ndarray, opened_ms: np.ndarray) -> np.ndarray:
    """The first drain since each batch was opened; `NEVER` if there is none."""
    first: np.ndarray = np.append(drains, NEVER)[np.searchsorted(drains, opened_ms, "left")]
    return first


def _closed(line: Line, cut_at: CutBatches, limits: Limits, drains: np.ndarray, upto_ms: int) -> CutBatches:
    """Batches with what closed them, and when: the first reason of the list that is true."""
    begun, end = cut_at.begun, cut_at.end
    records, size = cut_at.totals(line)
    last_ms = np.zeros(len(end), np.int64)
    last_ms[end > begun.begin] = line.at_ms[end[end > begun.begin] - 1]
    next_ms = np.full(len(end), NEVER)
    followed = end < line.ends[begun.group]
    next_ms[followed] = line.at_ms[end[followed]]
    deadline_ms = limits.deadlines_ms(begun.opened_ms)
    drained_ms = _drained_ms(drains, begun.opened_ms)
    undrained_ms = np.minimum(next_ms - 1, upto_ms)  # a record comes before the drain of its own time
    in_time_ms = np.minimum(np.minimum(next_ms, upto_ms), drained_ms)
    reasons = (
        (BY_COUNT, last_ms, records >= min(limits.max_records or NEVER, UNLIMITED)),
        (BY_BYTES, last_ms, size >= min(limits.max_bytes or NEVER, UNLIMITED)),
        (BY_WAIT, deadline_ms, deadline_ms <= in_time_ms),
        (BY_DRAIN, drained_ms, drained_ms <= undrained_ms),
        (BY_NEXT, next_ms, followed),
    )
    closed_by, closed_ms = cut_at.closed_by, cut_at.closed_ms
    for reason, at_ms, true in reversed(reasons):
        closed_by, closed_ms = np.where(true, reason, closed_by), np.where(true, at_ms, closed_ms)
    return CutBatches(begun, end, closed_by, closed_ms)
