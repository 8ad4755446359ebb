"""With `emit_early` the second step: one pass over all waits of a partition, in the log's order (see `leave_early`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import whole
from headrace.fold.changes.ordering import ranks
from headrace.fold.contract import (
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
from headrace.fold.keys import distinct_hashes, group, groups_of_both, key_of_row, newest
from headrace.fold.segments import HIGHEST, NO_TIME, begins, distinct_pairs, places
from headrace.fold.values.columns import fitted, int64
from headrace.operators.time_limits.fold.mark_timeline import CLOCK_TABLE, mark_times
from headrace.operators.time_limits.fold.names import (
    AFTER,
    EARLY,
    LEFT_AT,
    LEFT_CLOCK,
    LEFT_OFFSET,
    LEFT_STREAM,
    LEFT_SUB,
    LIMIT,
    OPENED,
    OPENED_OFFSET,
    OWN,
    OWN_BEFORE,
    STAMP,
    START,
    SUB,
)
from headrace.operators.time_limits.fold.shape import GROUP, Shape, clocks
from headrace.operators.time_limits.fold.timeline import clock_of

WAITS, ENTRY = "waits", "__entry"
LEFT = (LEFT_AT, LEFT_OFFSET, LEFT_SUB, LEFT_STREAM, LEFT_CLOCK)
NO_ENTRY = -1  # of a tick, or of a row that sets limits
Row = tuple[int, int, int, int, int]  # expiry time after it, number of its bound, entry, timestamp, bytes
# Entry, the row that opened the wait, the row that ended it, whether a bound did.
Left = tuple[int, int, int, bool]


@dataclass
class Waiting:
    """The waiting entries of one partition. Entries are numbers, which compare as their bytes do.

    queue   timestamp and entry of each wait, the oldest first
    opened  for each waiting entry the row that opened the wait, and the bytes of the last update
    """

    queue: list[tuple[int, int]] = field(default_factory=list)
    opened: dict[int, tuple[int, int]] = field(default_factory=dict)
    size_bytes: int = 0

    def put(self, entry: int, stamp_ms: int, opener: int, size_bytes: int) -> None:
        """Put an open wait among the others."""
        heappush(self.queue, (stamp_ms, entry))
        self.opened[entry] = (opener, size_bytes)
        self.size_bytes += size_bytes


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
            WAITS: StateTable(self.waits, (HASH,), partial(newest, of=(KEY, ENTRY, START))),
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
            rows=_forwarded(timed, known, passed, self.shape),
            changes={CLOCK_TABLE: gained, WAITS: _gained(timed, known, passed, self.waits)},
        )


@dataclass(frozen=True)
class _Passed:
    """The result of a pass. A number names a row by its place; known waits are numbered after the rows.

    updates   places of the updates; opener: for each update the row that opened its wait
    left      waits that ended
    changed   for each entry that has updates or whose wait ended: one of its rows (if it waits, the row that opened the
              wait), and the size of its last update; None: the entry does not wait
    """

    updates: np.ndarray
    opener: np.ndarray
    left: list[Left]
    changed: list[tuple[int, int | None]]


def _pass_over(timed: pa.Table, known: pa.Table, shape: Shape, times: Times) -> _Passed:
    of_row, of_known, _ = groups_of_both(timed, known)
    entries = _ranked(timed, known, shape)
    kept = is_kept(timed)
    waiting = _waiting(known, of_known, entries[timed.num_rows :], timed.num_rows)
    policy, policies = shape.in_force(times).at(int64(timed[INGESTED]))
    bounds = [(policy.bound.max_records or HIGHEST, policy.bound.max_bytes or HIGHEST) for policy in policies]
    entry = np.where(kept, entries[: timed.num_rows], NO_ENTRY)
    columns = (int64(timed[AFTER]), policy, entry, int64(timed[STAMP]), int64(timed[SIZE]))
    rows = [*zip(*(column.tolist() for column in columns), strict=True)]
    openers: list[int] = []
    left: list[Left] = []
    changed: list[tuple[int, int | None]] = []
    starts = np.flatnonzero(begins(of_row)).tolist()
    for first, stop in zip(starts, [*starts[1:], len(rows)], strict=False):
        mine = waiting.setdefault(int(of_row[first]), Waiting())
        opened, gone = leave_early(mine, rows[first:stop], first, bounds)
        openers += opened
        left += gone
        touched = {row[2]: number for number, row in enumerate(rows[first:stop], first)}
        touched |= {each[0]: each[1] for each in gone}
        touched.pop(NO_ENTRY, None)
        changed += [mine.opened.get(entry, (number, None)) for entry, number in touched.items()]
    return _Passed(np.flatnonzero(kept), np.array(openers, np.int64), left, changed)


def _ranked(timed: pa.Table, known: pa.Table, shape: Shape) -> np.ndarray:
    """The number of the entry of each row and of each known wait; numbers compare as key bytes and starts do."""
    keys, _ = key_of_row(timed, shape.updates.by.names)
    encoded = group(pa.chunked_array([keys, *known[ENTRY].chunks], pa.binary()))
    distinct_keys = pa.concat_tables([pa.table({ENTRY: keys}), known.select([ENTRY])])[ENTRY]
    order = pc.array_sort_indices(whole(distinct_keys.take(pa.array(encoded.first)))).to_numpy()
    rank = ranks(order)
    starts = np.concatenate([int64(timed[START]), int64(known[START])])
    pairs = distinct_pairs(rank[encoded.codes], starts)
    return places(pairs, (rank[encoded.codes], starts))


def _waiting(known: pa.Table, partition: np.ndarray, entries: np.ndarray, first: int) -> dict[int, Waiting]:
    """The waits that are open before the rows, by partition. In: first  the number of the first known wait."""
    found: dict[int, Waiting] = {}
    columns = (partition, entries, int64(known[OPENED]), int64(known[SIZE]))
    for number, (of, entry, opened_ms, size) in enumerate(
        zip(*(c.tolist() for c in columns), strict=True), first
    ):
        found.setdefault(of, Waiting()).put(entry, opened_ms, number, size)
    return found


def _forwarded(timed: pa.Table, known: pa.Table, passed: _Passed, shape: Shape) -> pa.Table:
    """Updates with their waits, and the waits that ended."""
    stamps = np.concatenate([int64(timed[STAMP]), int64(known[OPENED])])
    offsets = np.concatenate([int64(timed[OFFSET], NO_TIME), int64(known[OPENED_OFFSET])])
    opener = np.concatenate([passed.opener, np.array([each[1] for each in passed.left], np.int64)])
    ended_by = np.array([each[2] for each in passed.left], np.int64)
    updates, nothing = timed.take(pa.array(passed.updates)), len(passed.updates)
    names = [*shape.updates.by.names, TOPIC, PARTITION, START]
    ended = pa.concat_tables([timed.select(names), known.select(names)]).take(pa.array(opener[nothing:]))
    rows = pa.concat_tables([updates, fitted(ended, timed.schema)])
    at = timed.take(pa.array(ended_by))
    columns: dict[str, Any] = {
        OPENED: stamps[opener],
        OPENED_OFFSET: offsets[opener],
        EARLY: pa.array([None] * nothing + [each[3] for each in passed.left], pa.bool_()),
    }
    early = np.array([each[3] for each in passed.left], bool)
    at_once = ~early & (opener[nothing:] == ended_by)
    clock = _clocks(at, stamps[opener[nothing:]], at_once)
    for name, place in zip(LEFT, (at[INGESTED], at[OFFSET], at[SUB], at[STREAM], clock), strict=True):
        columns[name] = pa.chunked_array([pa.nulls(nothing, pa.int64()), *place.chunks], pa.int64())
    for name, column in columns.items():
        rows = rows.append_column(name, pa.array(column) if isinstance(column, np.ndarray) else column)
    return rows


def _clocks(at: pa.Table, opened_ms: np.ndarray, at_once: np.ndarray) -> pa.ChunkedArray:
    """The clock of waits that end. In: the rows that end them; whether a wait is over at the row that opened it."""
    ended_ms = clock_of(opened_ms, *(int64(at[name]) for name in (LIMIT, OWN_BEFORE, OWN)))
    return pc.if_else(pa.array(at_once), at[STREAM], pa.chunked_array([pa.array(ended_ms)]))


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


def leave_early(
    waiting: Waiting, rows: Iterable[Row], first: int, bounds: Sequence[tuple[int, int]]
) -> tuple[list[int], list[Left]]:
    """Pass over the rows of one partition; `waiting` is changed.

    In:  first   the number of the first row; the others follow
         bounds  how many records and bytes may wait, by number
    Out: for each update the row that opened its wait; and the waits that ended, in their order
    """
    queue, opened, total = waiting.queue, waiting.opened, waiting.size_bytes
    openers: list[int] = []
    left: list[Left] = []
    for number, (after_ms, bound, entry, stamp_ms, size) in enumerate(rows, first):
        if entry != NO_ENTRY:
            known = opened.get(entry)
            if known is None:
                heappush(queue, (stamp_ms, entry))
                known = (number, 0)
            total += size - known[1]
            opened[entry] = (known[0], size)
            openers.append(known[0])
        records_max, bytes_max = bounds[bound]
        while queue and ((due := queue[0][0] <= after_ms) or len(queue) > records_max or total > bytes_max):
            _, oldest = heappop(queue)
            opener, its_size = opened.pop(oldest)
            total -= its_size
            left.append((oldest, opener, number, not due))
    waiting.size_bytes = total
    return openers, left
