"""The sliding windows that records came too late for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.fold.contract import EVENT, KEY
from headrace.fold.fates import KEPT, LATE, has_fate, is_kept
from headrace.fold.keys import group
from headrace.fold.late_view import late_view
from headrace.fold.segments import HIGHEST, order_within, places, ranges
from headrace.fold.values.columns import int64
from headrace.operators.windows.sliding.make_windows import Points, Windows, entered, make_windows
from headrace.operators.windows.sliding.shape import Shape


def late_records(decided: pa.Table, shape: Shape) -> pa.Table:
    """The windows between whose bounds records lie and that were not open to them; and those that they would have made.

    In:     decided  every row of the log, with KEY
    Out:    as `late_view`; one row per record and closed window
    """
    width = shape.difference_ms
    rows = decided.filter(pa.array(has_fate(decided, KEPT, LATE)))
    codes = group(rows[KEY]).codes
    rows = rows.take(pa.array(order := order_within(codes, int64(rows[EVENT]))))
    points = Points(codes[order], int64(rows[EVENT]), shape.first_open_ends(rows))
    kept = np.flatnonzero(is_kept(rows))
    windows = _existing(points.take(kept), width)
    old = np.flatnonzero(points.from_ms > points.own_end(width))
    record, end_ms = _missed(points.take(old), windows, width)
    late = rows.take(pa.array(old[record]))
    return late_view(late, shape.by.names, end_ms - width, end_ms, final_ms=shape.grace_ms)


def _existing(points: Points, width: int) -> Windows:
    """The windows that hold a record."""
    windows = make_windows(points, width, 0, HIGHEST)
    holds = np.zeros(len(windows.end_ms), bool)
    for window, _ in entered(windows, points, width):
        holds[window] = True
    return windows.take(holds)


def _missed(old: Points, windows: Windows, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a record and the end of a window that was closed to it."""
    among = (windows.group, windows.end_ms)
    first = places(among, (old.group, old.point_ms))
    last_ms = np.minimum(old.point_ms + width, old.from_ms - 1)
    count = places(among, (old.group, last_ms), "right") - first
    own = old.own_end(width)
    alone = places(among, (old.group, own)) == places(among, (old.group, own), "right")
    record = np.concatenate([np.repeat(np.arange(len(first)), count), np.flatnonzero(alone)])
    return record, np.concatenate([windows.end_ms[ranges(first, count)], own[alone]])
