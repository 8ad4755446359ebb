"""How much of sessions is open in each partition after each log commit. Law: see `open_sizes`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import DELETED, KEY, PARTITION, TOPIC, Times
from headrace.fold.keys import combined, group
from headrace.fold.open_sizes import BEFORE, Versions, size_changes
from headrace.fold.values.columns import int64
from headrace.operators.sessions.fold.close_sessions import closing_commits
from headrace.operators.sessions.fold.each_commit import each_commit
from headrace.operators.sessions.fold.open_sessions import open_at, places_of, results
from headrace.operators.sessions.fold.shape import END, Shape


def size_changes_of_sessions(kept: pa.Table, open_sessions: pa.Table, shape: Shape, times: Times) -> pa.Table:
    """How the size of each partition's buffer changes with each log commit.

    In:     kept  records with a KEY
            open_sessions  rows of the state, merged: those that the fold needs
    Out:    as `SIZE_CHANGES`
    Law:    in the state a session is told by KEY and last event. Each row there is what it has become.
    """
    known = open_at(open_sessions, shape.wait_ms, times.before).select(shape.state.names)
    versions, since_ms = [known], [np.full(known.num_rows, BEFORE)]
    for each in each_commit(kept, open_sessions, shape, times):
        versions.append(each.gained)
        since_ms.append(each.gained_ms)
    sessions = pa.concat_tables(versions)
    partition, places = places_of(sessions)
    end_ms = int64(sessions[END])
    closes_ms = closing_commits(end_ms + shape.wait_ms, partition, places, times)
    gone = whole(sessions[DELETED]).fill_null(False).to_numpy(zero_copy_only=False)
    return size_changes(
        Versions(
            sessions.select([TOPIC, PARTITION]),
            combined(group(sessions[KEY]).codes, end_ms).codes,
            np.concatenate(since_ms),
            closes_ms,
            shape.row_bytes(results(sessions, shape)),
            gone,
        )
    )
