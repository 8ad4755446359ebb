"""Late records are data: which record, which window, how late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.fold.contract import EVENT, OFFSET, PARTITION, STREAM, TOPIC
from headrace.fold.values.columns import int64, moments

POSITION_NAMES = {"topic", "partition", "offset", "timestamp", "stream_time"}


def late_view(
    late: pa.Table, by: Sequence[str], start_ms: np.ndarray, end_ms: np.ndarray, *, final_ms: int
) -> pa.Table:
    """Records and the windows that they came too late for, as people see them.

    In:     late      one row per record and closed window, with its group and its position
            start_ms  first moment of the window; end_ms: its end
            final_ms  how long after its end, in stream time, a window is final
    Out:    topic, partition, offset, timestamp, stream_time, the group columns, window_start, window_end,
            late_by_ms (how long the window had been closed, in stream time)
    """
    groups = [name for name in by if name.lower() not in POSITION_NAMES]
    stream_ms = int64(late[STREAM])
    return pa.table(
        {
            "topic": late[TOPIC],
            "partition": late[PARTITION],
            "offset": late[OFFSET],
            "timestamp": moments(int64(late[EVENT])),
            "stream_time": moments(stream_ms),
            **{name: late[name] for name in groups},
            "window_start": moments(start_ms),
            "window_end": moments(end_ms),
            "late_by_ms": pa.array(stream_ms - end_ms - final_ms),
        }
    )


def late_by_age(late: pa.Table, age_ms: int) -> pa.Table:
    """Records that were too far behind the stream time of their partition, as people see them.

    In:  late    the records; age_ms: how far behind a record may be
    Out: topic, partition, offset, timestamp, stream_time, late_by_ms (how much further it was)
    """
    event_ms, stream_ms = int64(late[EVENT]), int64(late[STREAM])
    return pa.table(
        {
            **{name.removeprefix("__"): late[name] for name in (TOPIC, PARTITION, OFFSET)},
            "timestamp": moments(event_ms),
            "stream_time": moments(stream_ms),
            "late_by_ms": pa.array(stream_ms - event_ms - age_ms),
        }
    )
