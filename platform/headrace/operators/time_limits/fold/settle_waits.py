"""The content of waits, the rows that leave, and the values of entries afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import CLOCK, EVENT, HASH, INGESTED, KEY, OFFSET, PARTITION, SIZE, TOPIC, Folded
from headrace.fold.keys import group_columns
from headrace.fold.segments import NO_TIME, begins, running_max
from headrace.fold.values.columns import int64, moments
from headrace.operators.time_limits.fold.entries import ENTRIES
from headrace.operators.time_limits.fold.names import (
    DUE,
    EARLY,
    EMITTED_AT,
    OPENED,
    OPENED_OFFSET,
    RECORDS,
    SEQUENCE,
    START,
    SUB,
    TIMESTAMP,
)
from headrace.operators.time_limits.fold.shape import Shape

RESULTS = "results"


@dataclass(frozen=True)
class Ends:
    """Where waits end: place and stream time of the row that lets each; `over`: it has ended."""

    over: np.ndarray
    early: np.ndarray
    ingested_ms: np.ndarray
    offset: np.ndarray  # NO_TIME: the row is a tick, or sets limits
    sub: np.ndarray
    stream_ms: np.ndarray
    clock_ms: np.ndarray  # of the rows that leave; NO_TIME: that of the log before


@dataclass(frozen=True)
class Waits:
    """Waits of entries, ordered by entry and by their openings.

    rows       the updates, by entry and place; wait: of each the number of its wait, rising
    known      entries as they were before; held: of each the number of the entry's first wait
    entry      of each wait; opened_ms, opened_offset: of the update that opened it
    was_open   of each known entry whether its wait was open before; then it is the first
    ends       of each wait
    due_ms     by the wall clock: when each is over
    """

    rows: pa.Table
    wait: np.ndarray
    known: pa.Table
    first_waits: np.ndarray
    was_open: np.ndarray
    entry: np.ndarray
    opened_ms: np.ndarray
    opened_offset: np.ndarray
    ends: Ends
    due_ms: np.ndarray | None = None


def settle_waits(waits: Waits, shape: Shape) -> Folded:
    """Rows that leave, changes of entries, and how much waits after each commit.

    Out:    `results`  one row per wait that is over: the node's columns, EARLY, the event time, `__emitted_at`
                       (stream time), the commit time (`__sequence`) and place at which it left, its clock, when it was
                       opened
    Rows:   for each partition and commit by how much `records` and `bytes` that wait change, and how many rows left
            (`emitted`), some of them `early`
    """
    first = begins(waits.entry)
    last_update, last_known = _last(waits, len(first))
    valued = _valued(waits, first, last_update, last_known, shape)
    over = waits.ends.over
    return Folded(
        rows=_moves(waits, last_update, last_known),
        outputs={RESULTS: _left(valued.filter(pa.array(over)), waits.ends, shape)},
        changes={ENTRIES: _entries(valued, waits, first, shape)},
    )


def _last(waits: Waits, count: int) -> tuple[np.ndarray, np.ndarray]:
    """For each wait the number of its last update, and of the known entry that it goes on from; -1: there is none."""
    update, known = np.full(count, -1), np.full(count, -1)
    update[waits.wait] = np.arange(len(waits.wait))  # of equal numbers the last one written stays
    known[waits.first_waits] = np.arange(len(waits.first_waits))
    return update, known


def _valued(waits: Waits, first: np.ndarray, update: np.ndarray, known: np.ndarray, shape: Shape) -> pa.Table:
    """Waits with what they hold, as rows of `entries`."""
    rows, before = waits.rows, waits.known
    at = np.where(update >= 0, update, rows.num_rows + known)
    names = [TOPIC, PARTITION, KEY, HASH, START, OFFSET, SIZE]
    both = pa.concat_tables([rows.select(names), before.select(names)]).take(pa.array(at))
    columns = {name: whole(both[name]) for name in names}
    by = pa.concat_tables([rows.select(shape.updates.by.names), before.select(shape.updates.by.names)])
    columns |= group_columns(by, shape.updates.by.names, at)
    columns |= shape.updates.worth(rows, waits.wait, first, before, waits.first_waits)
    columns[EVENT] = pa.array(_event_times(waits, first, at, shape))
    columns[OPENED], columns[OPENED_OFFSET] = pa.array(waits.opened_ms), pa.array(waits.opened_offset)
    if waits.due_ms is not None:
        columns[DUE] = pa.array(waits.due_ms)
    columns[RECORDS] = pa.array(_records(waits, len(first), shape))
    return pa.table([columns[name] for name in shape.entries.names], schema=shape.entries)


def _event_times(waits: Waits, first: np.ndarray, at: np.ndarray, shape: Shape) -> np.ndarray:
    event_ms, before_ms = int64(waits.rows[EVENT]), int64(waits.known[EVENT])
    if not shape.updates.highest:
        return np.asarray(np.concatenate([event_ms, before_ms])[at])
    highest = np.full(len(first), NO_TIME)
    np.maximum.at(highest, waits.wait, event_ms)
    np.maximum.at(highest, waits.first_waits, before_ms)
    return running_max(first, highest)


def _records(waits: Waits, count: int, shape: Shape) -> np.ndarray:
    """How many records each wait is the last to hold: of the waits of a record, that one which began last."""
    wait = _last_of_records(waits) if shape.updates.several else waits.wait
    found = np.bincount(wait, minlength=count).astype(np.int64)
    held = waits.was_open
    np.add.at(found, waits.first_waits[held], int64(waits.known[RECORDS])[held])
    return found


def _last_of_records(waits: Waits) -> np.ndarray:
    """For each record the wait of its updates that began last; by the wall clock that which ends last."""
    rows, latest_ms = waits.rows, waits.opened_ms if waits.due_ms is None else waits.due_ms
    partition, offset = int64(rows[PARTITION], -1), int64(rows[OFFSET])
    order = np.lexsort((int64(rows[SUB]), latest_ms[waits.wait], offset, partition))
    partition, offset = partition[order], offset[order]
    ends = np.ones(len(order), bool)
    ends[:-1] = (partition[1:] != partition[:-1]) | (offset[1:] != offset[:-1])
    return waits.wait[order[ends]]


def _left(over: pa.Table, ends: Ends, shape: Shape) -> pa.Table:
    which = ends.over
    offset, clock_ms = ends.offset[which], ends.clock_ms[which]
    columns = shape.updates.shown(over) | {
        EARLY: pa.array(ends.early[which]),
        TIMESTAMP: whole(over[EVENT]),
        EMITTED_AT: moments(ends.stream_ms[which]),
        SEQUENCE: pa.array(ends.ingested_ms[which]),
        OFFSET: pa.array(offset, mask=offset == NO_TIME),
        SUB: pa.array(ends.sub[which]),
        CLOCK: pa.array(clock_ms, mask=clock_ms == NO_TIME),
    }
    named = (TOPIC, PARTITION, OPENED, OPENED_OFFSET, RECORDS, KEY, HASH)
    return pa.table(columns | {name: whole(over[name]) for name in named})


def _entries(valued: pa.Table, waits: Waits, first: np.ndarray, shape: Shape) -> pa.Table:
    """The newest wait of each entry that is touched or no longer waits: it holds what the entry is worth."""
    latest = np.append(first[1:], True) if len(first) else first
    touched = np.zeros(len(first), bool)
    touched[waits.wait] = True
    which = latest & (touched | waits.ends.over)
    rows, over = valued.filter(pa.array(which)), pa.array(waits.ends.over[which])
    columns = {name: whole(rows[name]) for name in rows.column_names}
    for name in (OPENED, OPENED_OFFSET, *([DUE] if shape.by_wall_clock else [])):
        columns[name] = pc.if_else(over, pa.scalar(None, pa.int64()), columns[name])
    columns[RECORDS] = pc.if_else(over, 0, columns[RECORDS])
    return pa.table([columns[name] for name in shape.entries.names], schema=shape.entries)


def _moves(waits: Waits, update: np.ndarray, known: np.ndarray) -> pa.Table:
    """How much more or less waits after each commit, in each partition."""
    rows, ends = waits.rows, waits.ends
    size, held_size = int64(rows[SIZE]), int64(waits.known[SIZE])
    begun = begins(waits.wait)
    earlier = np.empty_like(size)
    earlier[1:] = size[:-1]
    opens = begun.copy()
    before = np.where(begun, 0, earlier)
    joined = np.full(len(waits.entry), -1)
    joined[waits.first_waits[waits.was_open]] = np.flatnonzero(waits.was_open)
    joins = begun & (joined[waits.wait] >= 0)
    before[joins], opens[joins] = held_size[joined[waits.wait[joins]]], False
    over = np.flatnonzero(ends.over)
    last_size = np.where(
        update >= 0, size[update] if len(size) else 0, held_size[known] if len(held_size) else 0
    )
    places = pa.concat_tables([rows.select([TOPIC, PARTITION]), waits.known.select([TOPIC, PARTITION])])
    ended = places.take(pa.array(np.where(update >= 0, update, rows.num_rows + known)[over]))
    put = {
        INGESTED: whole(rows[INGESTED]),
        "records": pa.array(opens.astype(np.int64)),
        "bytes": pa.array(size - before),
        "emitted": pa.array(np.zeros(len(size), np.int64)),
        "early": pa.array(np.zeros(len(size), np.int64)),
    }
    gone = {
        INGESTED: pa.array(ends.ingested_ms[over]),
        "records": pa.array(np.full(len(over), -1)),
        "bytes": pa.array(-last_size[over]),
        "emitted": pa.array(np.ones(len(over), np.int64)),
        "early": pa.array(ends.early[over].astype(np.int64)),
    }
    names = [TOPIC, PARTITION, INGESTED]
    both = pa.concat_tables(
        [
            pa.table({TOPIC: whole(at[TOPIC]), PARTITION: whole(at[PARTITION]), **columns})
            for at, columns in ((rows, put), (ended, gone))
        ]
    )
    summed = both.group_by(names, use_threads=False).aggregate([(name, "sum") for name in [*put][1:]])
    return summed.rename_columns([*names, *[*put][1:]])
