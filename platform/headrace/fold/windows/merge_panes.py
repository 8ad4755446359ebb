"""Partials of panes, and the windows that they make."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import add_by, highest_by, whole
from headrace.fold.aggregates.running import running_partials
from headrace.fold.contract import BATCH, EVENT, HASH, INGESTED, KEY, PARTITION, TOPIC, Clock
from headrace.fold.keys import Groups, combined, group, group_columns
from headrace.fold.segments import begins, numbered, ranges, running_max
from headrace.fold.values.columns import int64, moments
from headrace.fold.window_shape import END, START, TIMESTAMP
from headrace.fold.windows.assign_windows import Entered
from headrace.fold.windows.panes import Panes
from headrace.fold.windows.shape import FROM, PANE, RECORDS, Shape

# Panes, one for each window, that are merged at a time: windows may overlap a thousand times.
PIECES_MAX = 1 << 22


def partials_of(kept: pa.Table, entered: Entered, shape: Shape, *, by_commit: bool = False) -> pa.Table:
    """Aggregate the records of each group, partition, pane and first open window.

    In:  kept       rows with KEY and HASH
         entered    the windows of these rows
         by_commit  aggregate those of each log commit by themselves
    Out: rows of the state; with INGESTED, if `by_commit`
    """
    if not kept.num_rows:
        schema = shape.state.append(pa.field(INGESTED, pa.int64())) if by_commit else shape.state
        return schema.empty_table()
    # In a tumbling window a record that is kept enters the one window that contains it.
    windows = [] if shape.panes.tumbling else [shape.panes.count(entered.start, entered.last)]
    # By pane first: rows come about in the order of time, so equal ones stay near in memory.
    groups = combined(
        shape.panes.number(entered.pane),
        group(kept[TOPIC]).codes,
        int64(kept[PARTITION]),
        group(kept[KEY]).codes,
        *windows,
        *([int64(kept[INGESTED])] if by_commit else []),
    )
    first = pa.array(groups.first)
    columns = group_columns(kept, shape.by.names, groups.first)
    columns |= {name: whole(kept[name].take(first)) for name in (KEY, HASH, TOPIC, PARTITION)}
    columns |= {PANE: pa.array(entered.pane[groups.first]), FROM: pa.array(entered.start[groups.first])}
    columns |= shape.aggregates.partials(kept, groups.codes, len(groups))
    columns[RECORDS] = pa.array(np.bincount(groups.codes, minlength=len(groups)).astype(np.int64))
    columns[EVENT] = pa.array(highest_by(groups.codes, len(groups), int64(kept[EVENT])))
    partials = pa.table([columns[name] for name in shape.state.names], schema=shape.state)
    return partials.append_column(INGESTED, kept[INGESTED].take(first)) if by_commit else partials


def merge_panes(rows: pa.Table, *, shape: Shape, by_batch: bool) -> pa.Table:
    """Add up rows of the state: those of one group, partition, pane and first open window.

    In:  rows      with BATCH, as `Out`
         by_batch  keep rows of different micro-batches apart, for people are shown what a window was worth after each
    """
    if not rows.num_rows:
        return rows
    batch = int64(rows[BATCH])
    groups = combined(
        group(rows[KEY]).codes,
        group(rows[TOPIC]).codes,
        int64(rows[PARTITION]),
        int64(rows[PANE]),
        int64(rows[FROM]) - int64(rows[PANE]),
        *([batch] if by_batch else []),
    )
    merged = _merged(rows, groups, shape)
    names = (*shape.keys, KEY, HASH, TOPIC, PARTITION, PANE, FROM)
    merged |= {name: whole(rows[name]).take(pa.array(groups.first)) for name in names}
    merged[BATCH] = pa.array(highest_by(groups.codes, len(groups), batch)).cast(pa.int32())
    return pa.table([merged[name] for name in rows.column_names], schema=rows.schema)


def is_over(partials: pa.Table, clock: Clock, *, shape: Shape) -> pa.Array:
    """Which partials have a last window that is closed."""
    return pa.array(~still_open(partials, shape, clock))


def still_open(partials: pa.Table, shape: Shape, clock: Clock) -> np.ndarray:
    """Which partials may still be in a window that is open at a clock."""
    closed_ms, pane = shape.closed_ms(clock), int64(partials[PANE])
    if closed_ms is None:
        return np.ones(len(pane), bool)
    return np.asarray(shape.panes.closes(shape.panes.last_start(pane)) > closed_ms)


def merge_windows(partials: pa.Table, shape: Shape, first_ms: int, last_ms: int | None) -> pa.Table:
    """The windows that start from `first_ms` through `last_ms` (None: all later ones too).

    In:  partials  those of these windows, at least; several rows of one group and pane merge
    Out: group columns, `window_start`, `window_end`, the aggregates, `__timestamp` (the highest event time in the
         window), `__records` (the records whose last window this is), KEY, HASH; one row per group and window
    """
    tables = []
    for windows in explode(partials, shape, first_ms, last_ms):
        groups = combined(shape.panes.number(int64(windows[START])), group(windows[KEY]).codes)
        tables.append(shown(windows, groups, _merged(windows, groups, shape), shape))
    return pa.concat_tables(tables)


def explode(partials: pa.Table, shape: Shape, first_ms: int, last_ms: int | None) -> Iterator[pa.Table]:
    """Partials by the windows that they are in, each window in one table. START: its start in ms.

    Not more than PIECES_MAX pieces are made at a time. RECORDS stays in the last window alone, and is 0 in the others.
    """
    panes, pane = shape.panes, int64(partials[PANE])
    last = panes.last_start(pane)
    begins, ends = np.maximum(int64(partials[FROM]), first_ms), last
    if last_ms is not None:
        ends = np.minimum(ends, last_ms)
    if panes.tumbling:
        inside = ends >= begins if last_ms is None else (last >= first_ms) & (last <= last_ms)
        windows = partials.append_column(START, pa.array(last))
        yield windows if inside.all() else windows.filter(pa.array(inside))
        return
    assert isinstance(panes, Panes)
    windows_of_each = np.maximum((ends - begins) // panes.advance_ms + 1, 0)
    if windows_of_each.sum() > PIECES_MAX:
        there = windows_of_each > 0
        lowest, highest = int(begins[there].min()), int(ends[there].max())
        middle = lowest + (highest - lowest) // 2 // panes.advance_ms * panes.advance_ms
        if lowest <= middle < highest:
            yield from explode(partials, shape, lowest, middle)
            yield from explode(partials, shape, middle + panes.advance_ms, highest)
            return
    row = np.repeat(np.arange(len(pane)), windows_of_each)
    start = begins[row] + ranges(np.zeros(len(pane), np.int64), windows_of_each) * panes.advance_ms
    exploded = partials.take(pa.array(row))
    records = np.where(start == last[row], int64(exploded[RECORDS]), 0)
    place = exploded.schema.get_field_index(RECORDS)
    yield exploded.set_column(place, RECORDS, pa.array(records)).append_column(START, pa.array(start))


def shown(windows: pa.Table, groups: Groups, merged: dict[str, pa.Array], shape: Shape) -> pa.Table:
    """Windows with their values. In: merged  partial columns, RECORDS and EVENT of each group."""
    first = pa.array(groups.first)
    start = int64(windows[START])[groups.first]
    columns = {name: whole(windows[name]).take(first) for name in shape.keys}
    columns |= {START: moments(start), END: moments(shape.panes.end(start))}
    columns |= shape.aggregates.finish(merged)
    columns |= {TIMESTAMP: merged[EVENT], RECORDS: merged[RECORDS]}
    columns |= {name: whole(windows[name]).take(first) for name in (KEY, HASH)}
    return pa.table(columns)


def _merged(rows: pa.Table, groups: Groups, shape: Shape) -> dict[str, pa.Array]:
    merged = shape.aggregates.merge(rows, groups.codes, len(groups))
    merged[RECORDS] = pa.array(add_by(groups.codes, len(groups), int64(rows[RECORDS])))
    merged[EVENT] = pa.array(highest_by(groups.codes, len(groups), int64(rows[EVENT])))
    return merged


def running_windows(state: pa.Table, shape: Shape) -> pa.Table:
    """Each window after each micro-batch that touched it.

    In:  state  rows of the state, those of different micro-batches apart
    Out: as `merge_windows`, and BATCH; one row per group, window and micro-batch
    """
    tables = []
    for windows in explode(state, shape, shape.panes.lowest_ms, None):
        batch = int64(windows[BATCH])
        window = combined(group(windows[KEY]).codes, int64(windows[START])).codes
        groups = combined(window, batch)
        merged = pa.table(_merged(windows, groups, shape))
        order = np.lexsort((batch[groups.first], window[groups.first]))
        groups = Groups(groups.codes, groups.first[order])
        merged, first = merged.take(pa.array(order)), begins(window[groups.first])
        running = running_partials(shape.aggregates, merged, first)
        running |= running_totals(first, merged)
        found = shown(windows, groups, running, shape)
        tables.append(found.append_column(BATCH, pa.array(batch[groups.first])))
    return pa.concat_tables(tables)


def running_totals(first: np.ndarray, merged: pa.Table) -> dict[str, pa.Array]:
    """RECORDS and EVENT through each row of a segment."""
    records = np.cumsum(int64(merged[RECORDS]))
    starts = np.flatnonzero(first)[numbered(first)]
    before = np.where(starts > 0, records[starts - 1], 0)
    return {
        RECORDS: pa.array(records - before),
        EVENT: pa.array(running_max(first, int64(merged[EVENT]))),
    }
