"""How much of sliding windows is open in each partition after each log commit.

Law: see `open_sizes`. The windows of a partition are those that its records alone make.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.contract import KEY, PARTITION, TOPIC, Times
from headrace.fold.keys import combined, group, groups_of_both, with_keys
from headrace.fold.open_sizes import Versions, size_changes
from headrace.fold.values.columns import int64
from headrace.fold.window_shape import END, first_commits, lowest
from headrace.operators.windows.sliding.after_commits import windows_after_commits
from headrace.operators.windows.sliding.shape import Shape


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
        closes_ms = first_commits(self.shape.closes_ms(windows), times, lowest)
        window = combined(group(windows[KEY]).codes, end_ms).codes
        return size_changes(
            Versions(
                self._places(windows, kept, points),
                window,
                since_ms,
                closes_ms,
                self.shape.row_bytes(windows),
            )
        )

    def _by_partition(self, rows: pa.Table) -> pa.Table:
        return with_keys(rows, [*self.shape.keys, TOPIC, PARTITION])

    def _places(self, windows: pa.Table, kept: pa.Table, points: pa.Table) -> pa.Table:
        """Topic and partition of each window: those of any record with its key."""
        rows = pa.concat_tables([each.select([KEY, TOPIC, PARTITION]) for each in (kept, points)])
        of_window, of_row, keys = groups_of_both(windows, rows)
        row = np.zeros(keys, np.int64)
        row[of_row] = np.arange(rows.num_rows)
        return rows.take(pa.array(row[of_window]))
