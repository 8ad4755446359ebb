"""Decide each row's fate in a windowed aggregate, and the windows that it enters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.contract import KEY
from headrace.fold.fates import KEPT, LATE, decide_inputs, has_fate, is_kept, with_fate
from headrace.fold.late_view import late_view
from headrace.fold.segments import ranges
from headrace.fold.windows.panes import AnyPanes, Panes
from headrace.fold.windows.shape import Shape


@dataclass(frozen=True)
class Entered:
    """Which windows rows enter: starts in ms.

    pane   of the pane of each row
    first  of the first window that contains the event
    start  of the first window that the row enters
    last   of the last window that contains the event
    """

    pane: np.ndarray
    first: np.ndarray
    start: np.ndarray
    last: np.ndarray

    def take(self, which: np.ndarray) -> Entered:
        """Those of some rows."""
        return Entered(self.pane[which], self.first[which], self.start[which], self.last[which])

    @classmethod
    def of(cls, rows: pa.Table, shape: Shape) -> Entered:
        """The windows of rows, whatever their fate."""
        panes, (event_ms, stream_ms) = shape.panes, shape.times(rows)
        last = panes.last_start(event_ms)
        if panes.tumbling:  # each event is in one window
            # A node that is read may give rows of a moment before 1970, where no window starts.
            late = (last < panes.lowest_ms) | (panes.closes(last) <= stream_ms)
            return cls(last, np.maximum(last, panes.lowest_ms), np.where(late, panes.end(last), last), last)
        assert isinstance(panes, Panes)
        first = panes.first_start(event_ms)
        start = np.maximum(first, panes.first_open_start(stream_ms))
        return cls(panes.pane(event_ms), first, start, last)


def assign_windows(rows: pa.Table, shape: Shape) -> tuple[pa.Table, Entered]:
    """Complete FATE and REASON, and find the windows of each row.

    Out: FATE is `kept` if the record enters a window, `late` if every window that contains it is closed, `dead_letter`
         (with REASON) if its group or an input cannot be used
    Law: row by row.
    """
    entered = Entered.of(rows, shape)
    decided = decide_inputs(rows, shape.aggregates)
    late = entered.start > entered.last
    if late.any():
        decided = with_fate(decided, late & is_kept(decided), LATE)
    return decided, entered


def late_records(rows: pa.Table, shape: Shape) -> pa.Table:
    """The windows that records came too late for.

    In:  rows  of the logs, decided or not
    Out: as `late_view`; one row per record and closed window
    """
    decided, entered = assign_windows(rows, shape)
    panes = shape.panes
    missed = panes.count(entered.first, entered.last) - panes.count(entered.start, entered.last)
    missed[~has_fate(decided, KEPT, LATE)] = 0
    row = np.repeat(np.arange(len(missed)), missed)
    start_ms = panes_from(entered.first, missed, panes)
    late = decided.drop_columns([KEY] if KEY in decided.column_names else []).take(pa.array(row))
    return late_view(late, shape.by.names, start_ms, panes.end(start_ms), final_ms=panes.grace_ms)


def panes_from(first_ms: np.ndarray, counts: np.ndarray, panes: AnyPanes) -> np.ndarray:
    """The starts of so many windows each, from a first one on; of windows that do not overlap there is one at most."""
    if panes.tumbling:
        return np.repeat(first_ms, counts)
    assert isinstance(panes, Panes)
    steps = ranges(np.zeros(len(counts), np.int64), counts) * panes.advance_ms
    return np.asarray(np.repeat(first_ms, counts) + steps)
