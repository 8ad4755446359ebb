"""The facts about a node that its sliding windows need, the columns that they share, and how rows are decided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates import Aggregates
from headrace.fold.columns import int64
from headrace.fold.contract import EVENT, HASH, KEY, PARTITION, STREAM, TOPIC, Clock
from headrace.fold.fates import LATE, decide_inputs, is_kept, with_fate
from headrace.fold.segments import NO_TIME

POINT, FROM, RECORDS = "__point", "__from", "__records"
TIMESTAMP, SEQUENCE = (
    "__timestamp",
    "__sequence",
)  # of a result: its event time, and the commit time that closed it


@dataclass(frozen=True)
class Shape:
    """Sliding windows of one node.

    by             the group columns, with their types
    difference_ms  the length of a window
    inputs         schema of the decided rows
    """

    by: pa.Schema
    difference_ms: int
    grace_ms: int
    aggregates: Aggregates
    inputs: pa.Schema

    @property
    def keys(self) -> tuple[str, ...]:
        """The group columns."""
        return tuple(self.by.names)

    @property
    def state(self) -> pa.Schema:
        """The schema of points: one row per group, event time, first open end, and partition."""
        return pa.schema(
            [
                *self.by,
                (KEY, pa.binary()),
                (HASH, pa.int64()),
                (TOPIC, pa.string()),
                (PARTITION, pa.int32()),
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

    def is_needed(self, points_ms: np.ndarray, clock: Clock) -> np.ndarray:
        """Whether a point is in, or makes, a window that is open, or one that holds a record which may still be late."""
        return np.asarray(points_ms + (2 * self.difference_ms + 1) >= self.first_open_ms(clock))
