"""The facts about a node that its sliding windows need, the columns that they share, and how rows are decided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.contract import EVENT, STREAM, Clock
from headrace.fold.fates import LATE, decide_inputs, is_kept, with_fate
from headrace.fold.segments import NO_TIME
from headrace.fold.values.columns import int64
from headrace.fold.window_shape import END, GROUPS, PLACES, WindowShape

POINT, FROM, RECORDS = "__point", "__from", "__records"


@dataclass(frozen=True)
class Shape(WindowShape):
    """Sliding windows of one node.

    difference_ms  the length of a window
    inputs         schema of the decided rows
    """

    difference_ms: int
    grace_ms: int
    inputs: pa.Schema

    @property
    def state(self) -> pa.Schema:
        """The schema of points: one row per group, event time, first open end, and partition."""
        return pa.schema(
            [
                *self.by,
                *GROUPS,
                *PLACES,
                (POINT, pa.int64()),
                (FROM, pa.int64()),
                (RECORDS, pa.int64()),
                *self.aggregates.fields,
            ]
        )

    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE and REASON: late is a record that no window which can hold it is open to.

        Law: row by row. A kept record whose own window is closed to it may yet enter none.
        """
        decided = decide_inputs(rows, self.aggregates)
        last_ms = int64(decided[EVENT]) + self.difference_ms
        late = is_kept(decided) & (self.first_open_ends(decided) > last_ms)
        return with_fate(decided, late, LATE)

    def first_open_ends(self, rows: pa.Table) -> np.ndarray:
        """The first end, at or after the event time, of a window that is open to each record."""
        open_ms = int64(rows[STREAM], NO_TIME) - (self.grace_ms - 1)
        return np.asarray(np.maximum(int64(rows[EVENT]), open_ms))

    def first_open_ms(self, clock: Clock) -> int:
        """The first end of a window that is not closed at a clock."""
        closed_ms = clock.lowest_ms
        return 0 if closed_ms is None else max(0, closed_ms - self.grace_ms + 1)

    def closes_ms(self, windows: pa.Table) -> np.ndarray:
        """The stream time at which each window closes."""
        return np.asarray(int64(windows[END].cast(pa.int64())) // 1000 + self.grace_ms)

    def is_needed(self, points_ms: np.ndarray, clock: Clock) -> np.ndarray:
        """Whether a point is in, or makes, a window that is open, or one that holds a record which may still be late."""
        return np.asarray(points_ms + (2 * self.difference_ms + 1) >= self.first_open_ms(clock))
