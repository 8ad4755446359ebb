"""The stream time of the partition before each record: a step by partition, for session windows without grace.

It matters to a session that ends exactly `gap` before a record which raises stream time to that very moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import (
    INGESTED,
    OFFSET,
    ROW_COLUMNS,
    STREAM,
    TOPIC,
    Folded,
    Scope,
    StatelessStep,
    Times,
)
from headrace.fold.fates import decide_inputs, is_kept, tally_of
from headrace.fold.segments import HIGHEST, NO_TIME, before, begins, running_max
from headrace.fold.values.columns import int64
from headrace.operators.sessions.fold.close_sessions import stream_times
from headrace.operators.sessions.fold.open_sessions import places_of
from headrace.operators.sessions.fold.shape import STREAM_BEFORE, Shape


class MarkRaises(StatelessStep):
    """Decide each row, count those that are not kept, and pass the kept ones on with STREAM_BEFORE."""

    scope = Scope.PARTITION

    def __init__(self, shape: Shape) -> None:
        """In: shape  of the node."""
        self.shape = shape

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See `stream_before`."""
        decided = decide_inputs(rows, self.shape.aggregates)
        kept = is_kept(decided)
        named = dict.fromkeys((*self.shape.by.names, *self.shape.aggregates.columns, *ROW_COLUMNS.names))
        ahead = decided.select([*named]).append_column(
            STREAM_BEFORE, pa.array(stream_before(decided, times, self.shape.nodes))
        )
        return Folded(rows=ahead.filter(pa.array(kept)), tally=tally_of(decided.filter(pa.array(~kept))))


def stream_before(rows: pa.Table, times: Times, nodes: Sequence[str]) -> np.ndarray:
    """The stream time of each row's partition before the row; NO_TIME: it had none.

    In:  rows   of whole partitions, in any order; a tick has no offset and stands after the records of its commit
         nodes  topics whose rows need not be in the order of their stream times (L32): there it is the row's own
    """
    partition, places = places_of(rows)
    offset = int64(rows[OFFSET], HIGHEST)
    order = np.lexsort((offset, int64(rows[INGESTED]), partition))
    first = begins(partition[order])
    through = running_max(first, int64(rows[STREAM], NO_TIME)[order])
    known = stream_times(times.before, places)[partition[order]]
    found = np.empty(len(order), np.int64)
    found[order] = np.maximum(known, before(first, through, NO_TIME))
    of_node = pc.is_in(rows[TOPIC], pa.array(nodes, pa.string())).to_numpy()
    return np.where(of_node, int64(rows[STREAM], NO_TIME), found)
