"""With `emit_early` the second step: one pass over all waits of a partition, in the log's order (see `leave_early`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.columns import int64
from headrace.fold.contract import (
    BATCH,
    DELETED,
    HASH,
    INGESTED,
    KEY,
    OFFSET,
    PARTITION,
    SIZE,
    STREAM,
    TOPIC,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.fates import is_kept
from headrace.fold.keys import combined, distinct_hashes, group, key_of_row
from headrace.fold.segments import NO_TIME, begins
from headrace.fold.time_limits.leave_early import Entry, Left, Row, Waiting, leave_early
from headrace.fold.time_limits.mark_timeline import CLOCK_TABLE, mark_times
from headrace.fold.time_limits.names import (
    AFTER,
    EARLY,
    LEFT_AT,
    LEFT_OFFSET,
    LEFT_STREAM,
    LEFT_SUB,
    OPENED,
    OPENED_OFFSET,
    STAMP,
    START,
    SUB,
)
from headrace.fold.time_limits.shape import GROUP, Shape, clocks

WAITS, ENTRY = "waits", "__entry"
LEFT = (LEFT_AT, LEFT_OFFSET, LEFT_SUB, LEFT_STREAM)


class PassEarly(Step):
    """By partition: updates with the wait that they belong to, and waits that end.

    State: `clocks` as `MarkTimeline` has them; `waits`, the open waits: one row per entry.
    Rows:  updates, with OPENED and OPENED_OFFSET of their wait; and for each wait that ends a row with EARLY and the place
           that ends it (`LEFT`), in which the columns of users are null but for those of the key
    """

    scope = Scope.PARTITION

    def __init__(self, shape: Shape) -> None:
        """In: shape  of the node."""
        self.shape = shape
        columns = [(START, pa.int64()), (OPENED, pa.int64()), (OPENED_OFFSET, pa.int64()), (SIZE, pa.int64())]
        self.waits = pa.schema(
            [*shape.updates.by, *GROUP, *columns, (ENTRY, pa.binary()), (DELETED, pa.bool_())]
        )
        self.state: Mapping[str, StateTable] = {
            CLOCK_TABLE: clocks(),
            WAITS: StateTable(self.waits, (HASH,), _newest_entries),
        }

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The clocks and all waits of the partitions that have rows: any of them can end early."""
        touched = Needs(distinct_hashes(rows))
        return {CLOCK_TABLE: touched, WAITS: touched} if rows.num_rows else {}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        if not rows.num_rows:
            return Folded()
        timed, gained = mark_times(rows, state[CLOCK_TABLE], self.shape, times)
        known = state[WAITS].filter(pc.invert(state[WAITS][DELETED]))
        passed = _pass_over(timed, known, self.shape, times)
        return Folded(
            rows=_given_on(timed, known, passed, self.shape),
            changes={CLOCK_TABLE: gained, WAITS: _gained(timed, known, passed, self.waits)},
        )


@dataclass(frozen=True)
class _Passed:
    """What a pass finds. Rows are told by their place; known waits, as if they stood after the rows.

    updates   places of the updates; opener: of each the row that opened its wait
    left      waits that ended
    changed   of each entry that has updates or ended: a row of it (if it waits, the one that opened its wait), and the
              size of its last update; None: it does not wait
    """

    updates: np.ndarray
    opener: np.ndarray
    left: list[Left]
    changed: list[tuple[int, int | None]]


def _pass_over(timed: pa.Table, known: pa.Table, shape: Shape, times: Times) -> _Passed:
    groups = group(pa.chunked_array([*timed[KEY].chunks, *known[KEY].chunks], pa.binary()))
    of_row, of_known = groups.codes[: timed.num_rows], groups.codes[timed.num_rows :]
    waiting = {int(number): Waiting() for number in np.unique(groups.codes)}
    before = _entries(known[ENTRY], known)
    columns = zip(
        of_known.tolist(), before, int64(known[OPENED]).tolist(), int64(known[SIZE]).tolist(), strict=True
    )
    for number, (partition, entry, opened_ms, size) in enumerate(columns, timed.num_rows):
        waiting[partition].put(entry, opened_ms, number, size)
    openers: list[int] = []
    left: list[Left] = []
    changed: dict[tuple[int, Entry], int] = {}
    for first, rows in _of_partitions(timed, of_row, shape, times):
        mine = waiting[int(of_row[first])]
        opened, gone = leave_early(mine, rows)
        openers += opened
        left += gone
        changed |= {(int(of_row[first]), row.entry): row.number for row in rows if row.entry is not None}
        changed |= {(int(of_row[first]), each.entry): each.opener for each in gone}
    now = [(number, waiting[partition].opened.get(entry)) for (partition, entry), number in changed.items()]
    return _Passed(
        np.flatnonzero(is_kept(timed)),
        np.array(openers, np.int64),
        left,
        [(number, None) if found is None else (found[1], found[2]) for number, found in now],
    )


def _of_partitions(
    timed: pa.Table, partition: np.ndarray, shape: Shape, times: Times
) -> Iterator[tuple[int, list[Row]]]:
    """The rows of each partition in order, and the place of its first."""
    number, policies = shape.in_force(times).at(int64(timed[INGESTED]))
    bounds = [(policy.bound.max_records, policy.bound.max_bytes) for policy in policies]
    keys, _ = key_of_row(timed, shape.updates.by.names)
    entries, kept = _entries(keys, timed), is_kept(timed)
    columns = (int64(timed[AFTER]), number, int64(timed[STAMP]), int64(timed[SIZE]))
    values = [*zip(*(column.tolist() for column in columns), strict=True)]
    starts = np.flatnonzero(begins(partition)).tolist()
    for first, stop in zip(starts, [*starts[1:], len(values)], strict=False):
        yield (
            first,
            [
                Row(
                    number=at,
                    after_ms=after_ms,
                    max_records=bounds[policy][0],
                    max_bytes=bounds[policy][1],
                    entry=entries[at] if kept[at] else None,
                    stamp_ms=stamp_ms,
                    size_bytes=size,
                )
                for at, (after_ms, policy, stamp_ms, size) in enumerate(values[first:stop], first)
            ],
        )


def _entries(keys: pa.Array | pa.ChunkedArray, rows: pa.Table) -> list[Entry]:
    return [*zip(keys.to_pylist(), int64(rows[START]).tolist(), strict=True)]


def _given_on(timed: pa.Table, known: pa.Table, passed: _Passed, shape: Shape) -> pa.Table:
    """Updates with their waits, and the waits that ended."""
    stamps = np.concatenate([int64(timed[STAMP]), int64(known[OPENED])])
    offsets = np.concatenate([int64(timed[OFFSET], NO_TIME), int64(known[OPENED_OFFSET])])
    opener = np.concatenate([passed.opener, np.array([each.opener for each in passed.left], np.int64)])
    ended_by = np.array([each.number for each in passed.left], np.int64)
    updates, nothing = timed.take(pa.array(passed.updates)), len(passed.updates)
    names = [*shape.updates.by.names, TOPIC, PARTITION, START]
    ended = pa.concat_tables([timed.select(names), known.select(names)]).take(pa.array(opener[nothing:]))
    rows = pa.concat_tables([updates, _nulls_but(ended, timed.schema)])
    at = timed.take(pa.array(ended_by))
    sub = pc.if_else(at[OFFSET].is_valid(), at[SUB], 0)
    columns: dict[str, Any] = {
        OPENED: stamps[opener],
        OPENED_OFFSET: offsets[opener],
        EARLY: pa.array([None] * nothing + [each.early for each in passed.left], pa.bool_()),
    }
    for name, place in zip(LEFT, (at[INGESTED], at[OFFSET], sub, at[STREAM]), strict=True):
        columns[name] = pa.chunked_array([pa.nulls(nothing, pa.int64()), *place.chunks], pa.int64())
    for name, column in columns.items():
        rows = rows.append_column(name, pa.array(column) if isinstance(column, np.ndarray) else column)
    return rows


def _nulls_but(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with all columns of a schema; those that they do not have are null."""
    columns = [
        rows[field.name] if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _gained(timed: pa.Table, known: pa.Table, passed: _Passed, schema: pa.Schema) -> pa.Table:
    """A row for each entry whose wait was opened, joined or ended; deleted where nothing waits now."""
    opener = np.array([number for number, _ in passed.changed], np.int64)
    size = np.array([size or 0 for _, size in passed.changed], np.int64)
    gone = np.array([size is None for _, size in passed.changed], bool)
    by = [name for name in schema.names if name not in (OPENED, OPENED_OFFSET, SIZE, ENTRY, DELETED)]
    rows = pa.concat_tables([timed.select(by), known.select(by)]).take(pa.array(opener))
    stamps = np.concatenate([int64(timed[STAMP]), int64(known[OPENED])])
    offsets = np.concatenate([int64(timed[OFFSET], NO_TIME), int64(known[OPENED_OFFSET])])
    columns = {name: rows[name] for name in by}
    columns |= {OPENED: pa.array(stamps[opener]), OPENED_OFFSET: pa.array(offsets[opener])}
    columns |= {SIZE: pa.array(size), DELETED: pa.array(gone)}
    columns[ENTRY] = key_of_row(rows, schema.names[: schema.names.index(TOPIC)])[0]
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _newest_entries(rows: pa.Table) -> pa.Table:
    """Of the rows of an entry the one that the latest micro-batch wrote."""
    codes = combined(group(rows[KEY]).codes, group(rows[ENTRY]).codes, int64(rows[START])).codes
    order = np.lexsort((int64(rows[BATCH]), codes))
    last = np.append(codes[order][1:] != codes[order][:-1], True)[: len(order)]
    return rows.take(pa.array(order[last]))
