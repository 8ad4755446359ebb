"""Records that came too late for the session that they would have formed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.fold.contract import EVENT, KEY, Times
from headrace.fold.fates import is_kept
from headrace.fold.keys import group
from headrace.fold.late_view import late_view
from headrace.fold.values.columns import int64
from headrace.operators.sessions.fold.join_runs import NO_SESSION
from headrace.operators.sessions.fold.mark_raises import stream_before
from headrace.operators.sessions.fold.merge_sessions import assign
from headrace.operators.sessions.fold.shape import STREAM_BEFORE, Shape


def late_records(decided: pa.Table, shape: Shape, times: Times) -> pa.Table:
    """The sessions that records came too late for: a late record joins no open one, so it is both bounds of its session.

    In:     decided  every row of the log, with KEY; times: around them
    Out:    as `late_view`; one row per late record
    """
    if shape.graceless:
        decided = decided.append_column(STREAM_BEFORE, pa.array(stream_before(decided, times, shape.nodes)))
    kept = decided.filter(pa.array(is_kept(decided)))
    nothing = shape.state.empty_table()
    in_row, _ = assign(kept, group(kept[KEY]).codes, nothing, np.empty(0, np.int64), shape)
    late = kept.filter(pa.array(in_row == NO_SESSION))
    event_ms = int64(late[EVENT])
    return late_view(late, shape.by.names, event_ms, event_ms, final_ms=shape.wait_ms)
