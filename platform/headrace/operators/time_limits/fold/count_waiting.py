"""The last step: how much waits in each partition after each log commit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.suppression import SHUT_DOWN, UntilTimeLimit
from headrace.fold.bounds import SIZE_CHANGES, FullError, judge
from headrace.fold.contract import (
    HASH,
    INGESTED,
    PARTITION,
    TOPIC,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.keys import distinct_hashes, groups_of_both, newest
from headrace.fold.segments import begins, distinct
from headrace.fold.values.columns import int64
from headrace.operators.time_limits.fold.shape import GROUP

BUFFER, WAITING = "buffer", "waiting"
COUNTS = ("records", "bytes", "emitted", "early")
STATE = pa.schema([*GROUP, *((name, pa.int64()) for name in COUNTS)])


class CountWaiting(Step):
    """By partition: how many entries wait and the bytes of their last records, how many rows have left, some early.

    State: `buffer`, these numbers for each partition.
    Out:   `waiting`, one row per partition and log commit that changes them: TOPIC, PARTITION, commit time, COUNTS
    """

    scope = Scope.PARTITION
    state: Mapping[str, StateTable] = {BUFFER: StateTable(STATE, (HASH,), newest)}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The numbers of the partitions that have rows."""
        return {BUFFER: Needs(distinct_hashes(rows))} if rows.num_rows else {}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """Add up rows by partition and commit. In: rows as `settle_waits` gives them."""
        if not rows.num_rows:
            return Folded()
        known = state[BUFFER]
        partition, of_known, partitions = groups_of_both(rows, known)
        order = np.lexsort((int64(rows[INGESTED]), partition))
        rows, partition = rows.take(pa.array(order)), partition[order]
        commits = begins(partition) | begins(int64(rows[INGESTED]))
        last = np.append(np.flatnonzero(commits)[1:], len(order)) - 1
        counts = {}
        for name in COUNTS:
            before = np.zeros(partitions, np.int64)
            before[of_known] = int64(known[name])
            total = np.cumsum(int64(rows[name]))
            start = np.flatnonzero(begins(partition))
            offset = np.repeat(total[start] - int64(rows[name])[start], np.diff(np.append(start, len(order))))
            counts[name] = pa.array((total - offset + before[partition])[last])
        after = pa.table({**{n: rows[n].take(pa.array(last)) for n in (*GROUP.names, INGESTED)}, **counts})
        ends = np.append(begins(partition[last])[1:], True)
        return Folded(
            outputs={WAITING: after.select([TOPIC, PARTITION, INGESTED, *COUNTS])},
            changes={BUFFER: after.filter(pa.array(ends)).select(STATE.names).cast(STATE)},
        )


def refusal(name: str, policy: UntilTimeLimit, waiting: pa.Table) -> FullError | None:
    """Why a stream has to stop before it commits anything; None: what waits is within the bound.

    In:     policy   in force at the end of the micro-batch: a higher bound lets a stream go on from where it stopped
            waiting  as `CountWaiting` gives it, of all partitions
    Law:    judged after each log commit, so it does not depend on how the log was cut.
    """
    if policy.bound.when_full != SHUT_DOWN:
        return None
    sizes = waiting.select(SIZE_CHANGES.names).cast(SIZE_CHANGES)
    for at_ms in distinct(int64(sizes[INGESTED])).tolist():
        after = sizes.filter(pc.equal(sizes[INGESTED], at_ms))
        _, refused = judge({}, [after], lambda _: policy.bound, name, "suppressed updates")
        if refused is not None:
            return refused
    return None
