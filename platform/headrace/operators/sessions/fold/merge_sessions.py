"""The sessions that records and open sessions make up, with their values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.contract import EVENT, OFFSET, STREAM
from headrace.fold.keys import group_columns, groups_of_both
from headrace.fold.segments import NO_TIME, order_within
from headrace.fold.values.columns import int64
from headrace.operators.sessions.fold.join_runs import NO_SESSION, join_runs
from headrace.operators.sessions.fold.make_runs import Items, make_runs
from headrace.operators.sessions.fold.shape import END, RECORDS, START, STREAM_BEFORE, Shape


@dataclass(frozen=True)
class Merged:
    """The result of merging records with open sessions.

    sessions   the sessions after the merge, as the state stores them, without DELETED: one row each
    group_row  for each session a row of its group: its place among the records and, after them, the known sessions
    changed    marks the sessions in `sessions` that records joined
    touched    marks the sessions before the merge that records joined
    late       marks the records that are late
    """

    sessions: pa.Table
    group_row: np.ndarray
    changed: np.ndarray
    touched: np.ndarray
    late: np.ndarray


def merge_sessions(kept: pa.Table, known: pa.Table, shape: Shape) -> Merged:
    """Fold records into the sessions that are open. In: records with a KEY; open sessions, in `Shape.session_columns`."""
    of_row, of_known, _ = groups_of_both(kept, known)
    in_row, in_known = assign(kept, of_row, known, of_known, shape)
    number = _dense(np.concatenate([in_row, in_known]))
    in_row, in_known = number[: len(in_row)], number[len(in_row) :]
    count = int(number.max(initial=-1)) + 1
    late = in_row == NO_SESSION
    used = np.flatnonzero(~late)
    parts = _parts(_taken(kept, used), in_row[used], known, in_known, count, shape)
    first = np.empty(count, np.int64)  # of each session some row of its group
    first[in_row[used]] = used
    first[in_known] = kept.num_rows + np.arange(known.num_rows)
    names = shape.group_columns
    rows = pa.concat_tables([kept.select(names), known.select(names)])
    common = rows.take(pa.array(first))
    columns = {name: common[name] for name in names} | group_columns(rows, shape.by.names, first) | parts
    sessions = pa.table(columns).select(shape.session_columns)
    changed = np.zeros(count, bool)
    changed[in_row[used]] = True
    return Merged(sessions, first, changed, changed[in_known], late)


def assign(
    kept: pa.Table, of_row: np.ndarray, known: pa.Table, of_known: np.ndarray, shape: Shape
) -> tuple[np.ndarray, np.ndarray]:
    """For each record and each known session a number of the session that it is in; NO_SESSION for a late record.

    In: of_row, of_known  the number of the group and partition of each
    """
    order = order_within(of_row, int64(kept[OFFSET]))
    event_ms, stream_ms = int64(kept[EVENT])[order], int64(kept[STREAM])[order]
    before_ms = int64(kept[STREAM_BEFORE])[order] if STREAM_BEFORE in kept.column_names else stream_ms
    spans = {"gap_ms": shape.gap_ms, "wait_ms": shape.wait_ms}
    runs, run = make_runs(of_row[order], event_ms, stream_ms, before_ms, **spans)
    items, place = _with_known(runs, known, of_known)
    session = np.empty(len(items), np.int64)
    session[place] = join_runs(items, **spans)
    in_row = np.empty(len(order), np.int64)
    in_row[order] = session[known.num_rows :][run]
    return in_row, session[: known.num_rows]


def _with_known(runs: Items, known: pa.Table, of_known: np.ndarray) -> tuple[Items, np.ndarray]:
    """Known sessions and runs as items in order, and the place of each among all known sessions, then all runs."""
    if not known.num_rows:
        return runs, np.arange(len(runs))
    start_ms, end_ms = known[START].to_numpy(), known[END].to_numpy()
    number = known.num_rows
    nothing_closed, none, every = np.full(number, NO_TIME), np.zeros(number, bool), np.ones(number, bool)
    sessions = Items(of_known, start_ms, end_ms, nothing_closed, none, every)
    together = Items(
        *(
            np.concatenate([getattr(each, name) for each in (sessions, runs)])
            for name in Items.__dataclass_fields__
        )
    )
    by_start = order_within(of_known, start_ms)
    first = np.concatenate([by_start, known.num_rows + np.arange(len(runs))])
    place = first[np.argsort(together.group[first], kind="stable")]
    return together.take(place), place


def _taken(rows: pa.Table, places: np.ndarray) -> pa.Table:
    return rows if len(places) == rows.num_rows else rows.take(pa.array(places))


def _parts(
    rows: pa.Table,
    in_row: np.ndarray,
    known: pa.Table,
    in_known: np.ndarray,
    count: int,
    shape: Shape,
) -> dict[str, pa.Array]:
    """Partial columns, bounds and numbers of records of each session."""
    parts = shape.aggregates.partials(rows, in_row, count)
    if known.num_rows:
        names = [field.name for field in shape.aggregates.fields]
        both = pa.concat_tables([pa.table({name: parts[name] for name in names}), known.select(names)])
        parts = shape.aggregates.merge(both, np.concatenate([np.arange(count), in_known]), count)
    event_ms = int64(rows[EVENT])
    start_ms, end_ms = np.full(count, -NO_TIME), np.full(count, NO_TIME)
    np.minimum.at(start_ms, in_row, event_ms)
    np.minimum.at(start_ms, in_known, known[START].to_numpy())
    np.maximum.at(end_ms, in_row, event_ms)
    np.maximum.at(end_ms, in_known, known[END].to_numpy())
    records = np.bincount(in_row, minlength=count).astype(np.int64)
    np.add.at(records, in_known, known[RECORDS].to_numpy())
    return {**parts, START: pa.array(start_ms), END: pa.array(end_ms), RECORDS: pa.array(records)}


def _dense(session: np.ndarray) -> np.ndarray:
    """Numbers of sessions from 0 without gaps."""
    there = np.zeros(int(session.max(initial=-1)) + 2, bool)
    there[session] = True  # NO_SESSION is the last place
    number = np.cumsum(there) - 1
    number[-1] = NO_SESSION
    return np.asarray(number[session])
