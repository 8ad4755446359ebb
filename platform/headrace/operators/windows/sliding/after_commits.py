"""Sliding windows after each log commit of a micro-batch, not only after all of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.fold.contract import BATCH, EVENT, INGESTED, Clock, Needs
from headrace.fold.keys import distinct_hashes
from headrace.fold.open_sizes import BEFORE
from headrace.fold.segments import distinct
from headrace.fold.values.columns import int64
from headrace.operators.windows.sliding.merge_points import points_of, running_windows
from headrace.operators.windows.sliding.shape import Shape

HELD = 0  # the micro-batch of points that were there before; log commits count from 1


def touching(kept: pa.Table, shape: Shape, closing: Needs | None) -> Needs | None:
    """The points of the groups that have records, as far as one window and the next may reach; and `closing`."""
    if not kept.num_rows:
        return closing
    at_ms, reach_ms = int64(kept[EVENT]), shape.difference_ms + 1
    near = int(at_ms.min()) - reach_ms, int(at_ms.max()) + reach_ms
    return Needs(distinct_hashes(kept), near, closing)


def windows_after_commits(
    kept: pa.Table, known: pa.Table, shape: Shape, before: Clock
) -> tuple[pa.Table, np.ndarray]:
    """Each window that is open before the micro-batch, as it was then and after each commit that changes it.

    In:     kept  rows with KEY; held: points as the state has them, at least those of `touching`
    Out:    as `merge_windows`, one row per group, window and commit; and of each row the commit, or BEFORE
    """
    commits = distinct(int64(kept[INGESTED]))
    batch = np.searchsorted(commits, int64(kept[INGESTED])) + HELD + 1
    known = known.select(shape.state.names)
    known = known.append_column(BATCH, pa.array(np.full(known.num_rows, HELD, np.int32)))
    points = pa.concat_tables([points_of(kept, shape, batch), known])
    shown = running_windows(points, shape, shape.first_open_ms(before))
    at_ms = np.concatenate([[BEFORE], commits])[int64(shown[BATCH])]
    return shown.drop_columns([BATCH]), at_ms
