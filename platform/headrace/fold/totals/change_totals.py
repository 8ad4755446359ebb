"""The changes of totals: each group before a log commit and after it.

Law (L31): a change is one row per group and log commit that has records of the group. It follows from the totals before the
commit and from the commit's records, so it does not depend on the micro-batch in which the commit was folded.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import whole
from headrace.fold.aggregates.running import running_values
from headrace.fold.changes.collect import BEFORE_PREFIX, SEQUENCE, TIMESTAMP, WAS_THERE
from headrace.fold.columns import int64
from headrace.fold.contract import DELETED, EVENT, HASH, INGESTED, KEY
from headrace.fold.keys import group
from headrace.fold.positions import POSITION
from headrace.fold.segments import LOWEST, begins, running_max
from headrace.fold.totals.merge_totals import MergeTotals


def changes_of_totals(kept: pa.Table, known: pa.Table, merge: MergeTotals) -> pa.Table:
    """Each change of each group.

    In:  kept   the records that count, with KEY and HASH
         known  merged totals of these groups before the increment
    Out: as `changes.collect.changes_of`; one row per group and log commit
    """
    adds = merge.of_rows(kept, per_commit=True)
    names = merge.schema.names
    rows = pa.concat_tables([known.select(names), adds.select(names)]).combine_chunks()
    is_new = np.arange(rows.num_rows) >= known.num_rows
    commit = np.where(is_new, int64(rows[INGESTED]), LOWEST)
    order = np.lexsort((commit, group(rows[KEY]).codes))
    rows, is_new = rows.take(pa.array(order)), is_new[order]
    first = begins(group(rows[KEY]).codes)
    after = running_values(merge.aggregates, rows, first)
    event_ms = running_max(first, int64(rows[EVENT]))
    now = pa.array(np.flatnonzero(is_new))
    was_there = ~first[is_new]
    then = pa.array(np.flatnonzero(is_new) - 1, mask=~was_there)
    return pa.table(
        {
            **{name: whole(rows[name]).take(now) for name in merge.by.names},
            **{name: column.take(now) for name, column in after.items()},
            DELETED: pa.array(np.zeros(len(now), bool)),
            TIMESTAMP: pa.array(event_ms).take(now),
            SEQUENCE: whole(rows[INGESTED]).take(now),
            **{name: whole(rows[name]).take(now) for name in (*POSITION[1:], KEY, HASH)},
            WAS_THERE: pa.array(was_there),
            **{BEFORE_PREFIX + name: column.take(then) for name, column in after.items()},
        }
    )
