"""With `emit_early` the first step: the updates of a group with their timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from headrace.fold.contract import (
    BATCH,
    EVENT,
    HASH,
    KEY,
    OFFSET,
    Clock,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.fates import SET_LIMITS, TICK, has_fate, is_kept, tally_of
from headrace.fold.keys import distinct_hashes, groups_of_both, newest
from headrace.fold.segments import NO_TIME, begins, order_within
from headrace.fold.values.columns import int64
from headrace.operators.time_limits.fold.assign_waits import timestamps
from headrace.operators.time_limits.fold.names import STAMP, START, SUB
from headrace.operators.time_limits.fold.shape import GROUP, Shape

HIGHS = "highs"
SCHEMA = pa.schema([*GROUP, (START, pa.int64()), (EVENT, pa.int64())])


class StampUpdates(Step):
    """By group and partition: one row for each update, with START, SUB and STAMP; the others that move time.

    State: `highs`, the highest event time of each entry of an aggregate; of a table nothing.
    """

    scope = Scope.GROUP_AND_PARTITION

    def __init__(self, shape: Shape) -> None:
        """In: shape  of the node."""
        self.shape = shape
        self.keys = tuple(shape.updates.by.names)
        highest = partial(newest, of=(KEY, START), age=(EVENT, BATCH))
        highs = StateTable(SCHEMA, (HASH,), highest, expired=partial(_expired, shape=shape))
        self.state: Mapping[str, StateTable] = {HIGHS: highs} if shape.updates.highest else {}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The entries of the groups that have rows."""
        return {HIGHS: Needs(distinct_hashes(rows))} if self.state and rows.num_rows else {}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        if not rows.num_rows:
            return Folded()
        decided = self.shape.updates.decide(rows)
        updates = self.shape.updates.exploded(decided.filter(pa.array(is_kept(decided))))
        is_record = decided[OFFSET].is_valid().to_numpy()
        moving = (is_record & ~is_kept(decided)) | has_fate(decided, TICK, SET_LIMITS)
        others = decided.filter(pa.array(moving))
        changes = {}
        if self.state:
            updates, changes[HIGHS] = _stamped(updates, state[HIGHS])
        else:
            updates = updates.append_column(STAMP, updates[EVENT])
        nothing = pa.array(np.zeros(others.num_rows, np.int64))
        for name in (START, SUB, STAMP):
            others = others.append_column(name, nothing)
        return Folded(rows=pa.concat_tables([updates, others]), changes=changes, tally=tally_of(decided))


def _stamped(updates: pa.Table, known: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Updates with STAMP, the highest event time of their entry so far; and the highest of each entry."""
    entry, of_known, entries = groups_of_both(updates, known, START)
    order = order_within(entry, int64(updates[OFFSET]))
    updates, entry = updates.take(pa.array(order)), entry[order]
    high_ms = np.full(entries, NO_TIME)
    high_ms[of_known] = int64(known[EVENT])
    stamp_ms = timestamps(entry, int64(updates[EVENT]), high_ms)
    last = np.append(begins(entry)[1:], True) if len(entry) else entry
    highs = updates.select(SCHEMA.names[:-1]).append_column(EVENT, pa.array(stamp_ms))
    return updates.append_column(STAMP, pa.array(stamp_ms)), highs.filter(pa.array(last.astype(bool))).cast(
        SCHEMA
    )


def _expired(rows: pa.Table, after: Clock, *, shape: Shape) -> pa.Array:
    """Entries that no later update builds upon."""
    return pa.array(shape.updates.forgotten(rows, after))
