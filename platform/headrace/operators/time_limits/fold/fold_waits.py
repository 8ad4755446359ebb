"""The second step: by group and partition which waits there are, where they end, and what leaves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headrace.fold.contract import (
    EVENT,
    INGESTED,
    KEY,
    OFFSET,
    PARTITION,
    STREAM,
    TOPIC,
    Folded,
    Needs,
    Times,
)
from headrace.fold.keys import combined, distinct_hashes, group, groups_of_both
from headrace.fold.segments import NO_TIME, order_within
from headrace.fold.values.columns import int64
from headrace.operators.time_limits.fold.assign_waits import (
    HELD,
    Assigned,
    assign_waits,
    end_waits,
    timestamps,
)
from headrace.operators.time_limits.fold.entries import ENTRIES, EntryStep
from headrace.operators.time_limits.fold.names import (
    AFTER,
    BEFORE,
    FROM,
    LIMIT,
    OPENED,
    OPENED_OFFSET,
    OWN,
    OWN_BEFORE,
    START,
    SUB,
)
from headrace.operators.time_limits.fold.settle_waits import Ends, Waits, settle_waits
from headrace.operators.time_limits.fold.timeline import clock_of


class FoldWaits(EntryStep):
    """By group and partition (see the package).

    State: `entries`, what each is worth, and its open wait if any; one row per entry.
    Out:   see `settle_waits`
    """

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The entries of the groups that have updates, and those whose wait the expiry time reaches."""
        shared = rows.filter(rows[KEY].is_null())
        own = rows.filter(rows[KEY].is_valid())
        touched = Needs(distinct_hashes(own)) if own.num_rows else None
        if not shared.num_rows:
            return {ENTRIES: touched} if touched else {}
        reached = int(int64(shared[BEFORE]).min()) + 1, int(int64(shared[AFTER]).max())
        return {ENTRIES: Needs(times=reached, either=touched)}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the package."""
        own = rows.filter(rows[KEY].is_valid())
        known = self.known(state)
        if not own.num_rows and not known.num_rows:
            return Folded()
        line = _Advances.of(rows.filter(rows[KEY].is_null()))
        updates = self.shape.updates.exploded(own)
        return settle_waits(self._waits(updates, known, line), self.shape)

    def _waits(self, updates: pa.Table, known: pa.Table, line: _Advances) -> Waits:
        known, held_ms = _concerned(updates, known, line)
        entry, of_known, count = groups_of_both(updates, known, START)
        order = order_within(entry, int64(updates[OFFSET]))
        updates, entry = updates.take(pa.array(order)), entry[order]
        opened_ms, high_ms = np.full(count, NO_TIME), np.full(count, NO_TIME)
        opened_ms[of_known], high_ms[of_known] = held_ms, int64(known[EVENT])
        event_ms = int64(updates[EVENT])
        stamp_ms = timestamps(entry, event_ms, high_ms) if self.shape.updates.highest else event_ms
        # What a record's first update moves is past when its others come.
        later = int64(updates[SUB]) > int64(updates[FROM])
        before_ms = np.where(later, int64(updates[AFTER]), int64(updates[BEFORE]))
        found = assign_waits(entry, stamp_ms, before_ms, opened_ms)
        known_of = np.full(count, -1)
        known_of[of_known] = np.arange(known.num_rows)
        held, offset = found.opener == HELD, int64(updates[OFFSET])
        begun_ms = np.where(held, opened_ms[found.entry], at_places(stamp_ms, found.opener))
        known_offset = at_places(int64(known[OPENED_OFFSET]), known_of[found.entry])
        first = np.searchsorted(found.entry, of_known)
        return Waits(
            rows=updates,
            wait=found.wait,
            known=known,
            first_waits=first,
            was_open=held_ms != NO_TIME,
            entry=found.entry,
            opened_ms=begun_ms,
            opened_offset=np.where(held, known_offset, at_places(offset, found.opener)),
            ends=_ends(found, updates, known, known_of, begun_ms, line),
        )


class _Advances:
    """The rows that move the expiry time of partitions, by partition and time."""

    def __init__(self, rows: pa.Table, names: list[tuple[str, int]], partition: np.ndarray) -> None:
        self.rows, self.partition = rows, partition
        self.number = {name: number for number, name in enumerate(names)}
        self.after_ms = int64(rows[AFTER])
        begun = np.searchsorted(partition, np.arange(len(names)))
        last = np.searchsorted(partition, np.arange(len(names)), side="right") - 1
        self.begun_ms, self.reached_ms = int64(rows[BEFORE])[begun], self.after_ms[last]

    @classmethod
    def of(cls, rows: pa.Table) -> _Advances:
        """In any order."""
        codes, names = _partitions(rows)
        order = order_within(codes, int64(rows[AFTER]))
        return cls(rows.take(pa.array(order)), names, codes[order])

    def of_partitions(self, rows: pa.Table) -> np.ndarray:
        """The number of each row's partition; one beyond the last if nothing moves in it."""
        codes, names = _partitions(rows)
        found = np.array([self.number.get(name, len(self.number)) for name in names], np.int64)
        return found[codes] if len(found) else codes


def _partitions(rows: pa.Table) -> tuple[np.ndarray, list[tuple[str, int]]]:
    both = combined(group(rows[TOPIC]).codes, int64(rows[PARTITION], -1))
    first = rows.select([TOPIC, PARTITION]).take(pa.array(both.first))
    return both.codes, [*zip(first[TOPIC].to_pylist(), first[PARTITION].to_pylist(), strict=True)]


def _concerned(updates: pa.Table, known: pa.Table, line: _Advances) -> tuple[pa.Table, np.ndarray]:
    """The known entries that have updates or whose wait ends; and when their open waits were opened.

    The row of an entry without updates may be an older one. If its wait had ended before, the entry is left out.
    """
    opened_ms = int64(known[OPENED], NO_TIME)
    partition = line.of_partitions(known)
    begun, reached = (np.append(ms, NO_TIME)[partition] for ms in (line.begun_ms, line.reached_ms))
    due = (opened_ms > begun) & (opened_ms <= reached)
    of_update, of_known, _ = groups_of_both(updates, known, START)
    which = np.isin(of_known, of_update) | due
    return known.filter(pa.array(which)), opened_ms[which]


def _ends(
    assigned: Assigned,
    updates: pa.Table,
    known: pa.Table,
    known_of: np.ndarray,
    begun_ms: np.ndarray,
    line: _Advances,
) -> Ends:
    """Where each wait ends."""
    held = assigned.opener == HELD
    partition = np.where(
        held,
        at_places(line.of_partitions(known), known_of[assigned.entry]),
        at_places(line.of_partitions(updates), assigned.opener),
    )
    opened_after = np.where(held, NO_TIME, at_places(int64(updates[AFTER]), assigned.opener))
    at_once, advance = end_waits(partition, begun_ms, opened_after, (line.partition, line.after_ms))
    limit_ms, was_ms, own_ms = (
        at_places(int64(line.rows[name]), advance) for name in (LIMIT, OWN_BEFORE, OWN)
    )
    offsets = int64(line.rows[OFFSET], NO_TIME)

    def place(own: str, moved: np.ndarray) -> np.ndarray:
        return np.where(at_once, at_places(int64(updates[own]), assigned.opener), at_places(moved, advance))

    return Ends(
        over=at_once | (advance < line.rows.num_rows),
        early=np.zeros(len(held), bool),
        ingested_ms=place(INGESTED, int64(line.rows[INGESTED])),
        offset=place(OFFSET, offsets),
        sub=place(SUB, int64(line.rows[FROM])),
        stream_ms=place(STREAM, int64(line.rows[STREAM])),
        clock_ms=np.where(
            at_once,
            at_places(int64(updates[STREAM], NO_TIME), assigned.opener),
            clock_of(begun_ms, limit_ms, was_ms, own_ms),
        ),
    )


def at_places(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Values at places; anything where there is none."""
    return np.append(values, NO_TIME)[np.where(places < 0, len(values), places)]
