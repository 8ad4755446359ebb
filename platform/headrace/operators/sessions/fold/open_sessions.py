"""The state of session windows: open sessions, one row each."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import DELETED, HASH, KEY, PARTITION, TOPIC, Clock, StateTable
from headrace.fold.keys import Groups, combined, group, groups_of_both, newest
from headrace.fold.values.columns import int64, moments, table_of
from headrace.fold.window_shape import TIMESTAMP
from headrace.operators.sessions.fold.close_sessions import Place, stream_times
from headrace.operators.sessions.fold.shape import END, RECORDS, START, Shape

OPEN = "open_sessions"


def state_table(shape: Shape) -> StateTable:
    """Open sessions: read by group, and by last event when stream time closes them. KEY and the last event identify one."""
    merge, expired = partial(newest, of=(KEY, END)), partial(_expired, wait_ms=shape.wait_ms)
    return StateTable(shape.state, (END, HASH), merge, END, expired)


def _expired(rows: pa.Table, after: Clock, *, wait_ms: int) -> pa.Array:
    """Sessions that have closed, or are there no more under their last event: no later record meets them."""
    gone = rows[DELETED].fill_null(False).to_numpy(zero_copy_only=False)
    return pa.array(gone | is_closed(rows, wait_ms, after))


def open_at(rows: pa.Table, wait_ms: int, clock: Clock) -> pa.Table:
    """The sessions that are open at a clock. In: rows  merged rows of the state."""
    there = ~rows[DELETED].fill_null(False).to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(there & ~is_closed(rows, wait_ms, clock)))


def results(sessions: pa.Table, shape: Shape) -> pa.Table:
    """Sessions with their values.

    Out: group columns, `window_start`, `window_end`, the aggregates; the topic, the partition, KEY, HASH; the event time
         (the last event) and how many records there are. One row per session
    """
    bounds = {"window_start": moments(int64(sessions[START])), "window_end": moments(int64(sessions[END]))}
    group = {name: sessions[name] for name in shape.group_columns}
    columns = {name: group.pop(name) for name in shape.by.names} | bounds
    columns |= shape.aggregates.finish(sessions)
    return pa.table(columns | group | {TIMESTAMP: sessions[END], RECORDS: sessions[RECORDS]})


def is_closed(rows: pa.Table, wait_ms: int, clock: Clock) -> np.ndarray:
    """Whether the partition's stream time has reached a session's last event plus gap plus grace."""
    codes, places = places_of(rows)
    return np.asarray(rows[END].to_numpy() + wait_ms <= stream_times(clock, places)[codes])


def places_of(rows: pa.Table) -> tuple[np.ndarray, list[Place]]:
    """For each row a number for its topic and partition; and the topics and partitions by number."""
    topics: Groups = group(rows[TOPIC])
    both = combined(topics.codes, int64(rows[PARTITION], -1))
    names = rows.select([TOPIC, PARTITION]).take(pa.array(both.first))
    return both.codes, [*zip(names[TOPIC].to_pylist(), names[PARTITION].to_pylist(), strict=True)]


def closing_range(times_before: Clock, times_after: Clock, wait_ms: int) -> tuple[int, int] | None:
    """First and last of the last events of sessions that may close between two clocks; None: none closes."""
    places = [*times_after.stream_ms]
    both = zip(*(stream_times(clock, places).tolist() for clock in (times_before, times_after)), strict=True)
    moved = [(low, high) for low, high in both if low != high]
    if not moved:
        return None
    return min(low for low, _ in moved) - wait_ms + 1, max(high for _, high in moved) - wait_ms


def not_deleted(rows: pa.Table) -> pa.Table:
    """The rows with DELETED false."""
    return rows.append_column(DELETED, pa.array(np.zeros(rows.num_rows, bool)))


def is_gone(known: pa.Table, still: pa.Table) -> np.ndarray:
    """Which known sessions are there no more under their last event. In: still  the sessions that there are now."""
    if not known.num_rows:
        return np.empty(0, bool)
    of_known, of_still, _ = groups_of_both(known, still, END)
    return np.asarray(~np.isin(of_known, of_still))


def deleted_rows(gone: pa.Table, shape: Shape) -> pa.Table:
    """Deleted rows for sessions that are there no more under their last event."""
    if not gone.num_rows:
        return shape.state.empty_table()
    rows = gone.select([*shape.group_columns, START, END])
    columns = {name: rows[name] for name in rows.column_names} | {DELETED: pc.is_valid(rows[END])}
    return table_of(shape.state, columns, rows.num_rows)
