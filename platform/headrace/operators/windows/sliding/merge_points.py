"""Points, partial aggregates by group and event time; and the windows that they make, with their values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.fold.contract import BATCH, EVENT, HASH, KEY, PARTITION, TOPIC, Clock
from headrace.fold.keys import Groups, combined, group, group_columns
from headrace.fold.merge_along import merge_along
from headrace.fold.segments import HIGHEST, NO_TIME, begins, distinct_pairs, order_within, places, running_max
from headrace.fold.values.columns import int64, moments
from headrace.fold.window_shape import TIMESTAMP
from headrace.operators.windows.sliding.make_windows import Points, Windows, entered, made_in, make_windows
from headrace.operators.windows.sliding.shape import FROM, POINT, RECORDS, Shape


def merge_points(rows: pa.Table, *, shape: Shape) -> pa.Table:
    """Add up rows of the state: those of one group, event time, first open end and partition."""
    if not rows.num_rows:
        return rows
    rows = rows.combine_chunks()
    groups = _same_point(rows, int64(rows[POINT]), int64(rows[FROM]))
    parts = shape.aggregates.merge(rows, groups.codes, len(groups))
    records, batch = np.zeros(len(groups), np.int64), np.zeros(len(groups), np.int32)
    np.add.at(records, groups.codes, rows[RECORDS].to_numpy())
    np.maximum.at(batch, groups.codes, rows[BATCH].to_numpy())
    merged = rows.take(pa.array(groups.first))
    columns = {name: merged[name] for name in merged.column_names} | parts
    columns |= {RECORDS: pa.array(records), BATCH: pa.array(batch)}
    return pa.table(columns, schema=rows.schema)


def is_over(points: pa.Table, after: Clock, *, shape: Shape) -> pa.Array:
    """Which points no window that may still be open holds or follows."""
    return pa.array(~shape.is_needed(points[POINT].to_numpy(), after))


def points_of(kept: pa.Table, shape: Shape, batch: np.ndarray | None = None) -> pa.Table:
    """Aggregate the records of each point.

    In:     kept   rows with KEY
            batch  of each row what also tells points apart; None: nothing else does
    Out:    rows of the state; with BATCH if that tells them apart
    """
    event_ms, from_ms = int64(kept[EVENT]), shape.first_open_ends(kept)
    groups = _same_point(kept, event_ms, from_ms)
    if batch is not None:
        groups = combined(groups.codes, batch)
    first = kept.select([KEY, HASH, TOPIC, PARTITION]).take(pa.array(groups.first))
    columns = group_columns(kept, shape.by.names, groups.first)
    columns |= {name: first[name] for name in first.column_names}
    columns |= {POINT: pa.array(event_ms[groups.first]), FROM: pa.array(from_ms[groups.first])}
    columns[RECORDS] = pa.array(np.bincount(groups.codes, minlength=len(groups)).astype(np.int64))
    columns |= shape.aggregates.partials(kept, groups.codes, len(groups))
    points = pa.table(columns).select(shape.state.names).cast(shape.state)
    if batch is None:
        return points
    return points.append_column(BATCH, pa.array(batch[groups.first].astype(np.int32)))


def in_order(points: pa.Table) -> tuple[pa.Table, Points]:
    """Points by group and event time, as rows and as numbers."""
    codes, point_ms = group(points[KEY]).codes, int64(points[POINT])
    order = order_within(codes, point_ms)
    points = points.take(pa.array(order))
    return points, Points(codes[order], point_ms[order], int64(points[FROM]))


def merge_windows(points: pa.Table, shape: Shape, first_ms: int, last_ms: int) -> pa.Table:
    """The windows that end from `first_ms` through `last_ms`.

    In:     points  those that can lie in these windows or make them, at least
    Out:    group columns, `window_start`, `window_end`, the aggregates, KEY, HASH, the event time (the highest in the
            window); one row per group and window
    """
    if not points.num_rows:
        return _shown(points, np.empty(0, np.int64), np.empty(0, np.int64), points, shape)
    rows, numbers = in_order(points)
    windows = make_windows(numbers, shape.difference_ms, first_ms, last_ms)
    pieces = [
        _merged(rows, numbers, windows, window, point, shape)
        for window, point in entered(windows, numbers, shape.difference_ms)
        if len(window)
    ]
    if not pieces:
        return _shown(rows.slice(0, 0), np.empty(0, np.int64), np.empty(0, np.int64), rows.slice(0, 0), shape)
    return pa.concat_tables(pieces)


def running_windows(points: pa.Table, shape: Shape, first_ms: int) -> pa.Table:
    """Each window that ends from `first_ms` on after each micro-batch that touched it, or made it of records before.

    In:     points  rows of the state, merged or not, with BATCH
    Out:    as `merge_windows`, with BATCH; one row per group, window and micro-batch
    """
    rows, numbers = in_order(points)
    windows = make_windows(numbers, shape.difference_ms, first_ms, HIGHEST)
    batch = int64(rows[BATCH])
    made = made_in(numbers, batch, windows, shape.difference_ms)
    names = [field.name for field in shape.aggregates.fields]
    pieces = []
    for window, point in entered(windows, numbers, shape.difference_ms):
        if not len(window):
            continue
        as_of = np.maximum(batch[point], made[window])
        each, which = distinct_pairs(window, as_of)
        codes = places((each, which), (window, as_of))
        parts = shape.aggregates.merge(rows.select(names).take(pa.array(point)), codes, len(each))
        first = begins(each)
        highest = np.full(len(each), NO_TIME)
        np.maximum.at(highest, codes, numbers.point_ms[point])
        of_window = np.empty(len(each), np.int64)
        of_window[codes] = point
        totals = pa.table(merge_along(parts, first, shape.aggregates))
        shown = _shown(
            rows.take(pa.array(of_window)), windows.end_ms[each], running_max(first, highest), totals, shape
        )
        pieces.append(shown.append_column(BATCH, pa.array(which, pa.int64()).cast(pa.int32())))
    empty = merge_windows(points.slice(0, 0), shape, first_ms, first_ms)
    return pa.concat_tables([empty.append_column(BATCH, pa.array([], pa.int32())), *pieces])


def _merged(
    rows: pa.Table, numbers: Points, windows: Windows, window: np.ndarray, point: np.ndarray, shape: Shape
) -> pa.Table:
    """The windows of some pairs with their values. In: window  places of windows, rising; point  of points."""
    first = begins(window)
    codes, count = np.cumsum(first) - 1, int(first.sum())
    names = [field.name for field in shape.aggregates.fields]
    merged = shape.aggregates.merge(rows.select(names).take(pa.array(point)), codes, count)
    highest = numbers.point_ms[point[np.append(np.flatnonzero(first)[1:], len(point)) - 1]]
    of_window = rows.take(pa.array(point[first]))
    return _shown(of_window, windows.end_ms[window[first]], highest, pa.table(merged), shape)


def _shown(
    groups: pa.Table, end_ms: np.ndarray, highest_ms: np.ndarray, merged: pa.Table, shape: Shape
) -> pa.Table:
    """Windows with their values. In: groups  of each window a row with its group; merged: its partial columns."""
    columns = {name: groups[name] for name in shape.by.names}
    bounds = (("window_start", end_ms - shape.difference_ms), ("window_end", end_ms))
    columns |= {name: moments(at) for name, at in bounds}
    columns |= shape.aggregates.finish(merged)
    columns |= {name: groups[name] for name in (KEY, HASH)} | {TIMESTAMP: pa.array(highest_ms)}
    return pa.table(columns)


def _same_point(rows: pa.Table, point_ms: np.ndarray, from_ms: np.ndarray) -> Groups:
    return combined(
        group(rows[KEY]).codes,
        group(rows[TOPIC]).codes,
        int64(rows[PARTITION]),
        point_ms,
        from_ms - point_ms,
    )
