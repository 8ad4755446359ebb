"""How much of sliding windows is open in each partition after each log commit.

Law: see `open_sizes`. The windows of a partition are those that its records alone make.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import whole
from headrace.fold.columns import int64
from headrace.fold.contract import KEY, PARTITION, TOPIC, Times
from headrace.fold.json_size import json_size
from headrace.fold.keys import combined, group, with_keys
from headrace.fold.open_sizes import Versions, closing_commits, size_changes
from headrace.fold.sliding.after_commits import windows_after_commits
from headrace.fold.sliding.shape import Shape

START, END = "window_start", "window_end"


@dataclass(frozen=True)
class BoundedSliding:
    """The changes of each partition's buffer size: the bytes that the node's open windows add to it and take from it."""

    shape: Shape

    def changes(self, kept: pa.Table, points: pa.Table, times: Times) -> pa.Table:
        """How the size of each partition's buffer changes with each log commit.

        In:  kept  records; held: points of the state: those of `touching`, and of windows that close
        Out: as `SIZE_CHANGES`
        """
        kept, points = self._by_partition(kept), self._by_partition(points)
        windows, since_ms = windows_after_commits(kept, points, self.shape, times.before)
        end_ms = int64(windows[END].cast(pa.int64())) // 1000
        closes_ms = closing_commits(
            end_ms + self.shape.grace_ms,
            [ms for ms, _ in times.commits],
            [clock.lowest_ms for _, clock in times.commits],
        )
        window = combined(group(windows[KEY]).codes, end_ms).codes
        return size_changes(
            Versions(self._places(windows, kept, points), window, since_ms, closes_ms, self._bytes(windows))
        )

    def _by_partition(self, rows: pa.Table) -> pa.Table:
        return with_keys(rows, [*self.shape.keys, TOPIC, PARTITION])

    def _places(self, windows: pa.Table, kept: pa.Table, points: pa.Table) -> pa.Table:
        """Topic and partition of each window: those of any record with its key."""
        rows = pa.concat_tables([each.select([KEY, TOPIC, PARTITION]) for each in (kept, points)])
        keys = group(pa.chunked_array([*windows[KEY].chunks, *rows[KEY].chunks], pa.binary()))
        row = np.zeros(len(keys), np.int64)
        row[keys.codes[windows.num_rows :]] = np.arange(rows.num_rows)
        return rows.take(pa.array(row[keys.codes[: windows.num_rows]]))

    def _bytes(self, windows: pa.Table) -> np.ndarray:
        """The bytes of windows as rows of the node's table."""
        values = [field.name for field in self.shape.aggregates.results]
        return json_size({name: whole(windows[name]) for name in (*self.shape.keys, START, END, *values)})
