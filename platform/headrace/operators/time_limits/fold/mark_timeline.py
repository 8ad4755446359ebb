"""The first step: decide the rows of a partition, and tell the expiry time before and after each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headrace.fold.bounds import limits_of_node
from headrace.fold.contract import (
    EVENT,
    HASH,
    INGESTED,
    KEY,
    OFFSET,
    PARTITION,
    REASON,
    STREAM,
    TOPIC,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.fates import SET_LIMITS, TICK, has_fate, is_kept, tally_of, with_column
from headrace.fold.keys import distinct_hashes, groups_of_both
from headrace.fold.segments import HIGHEST, NO_TIME, begins
from headrace.fold.values.columns import fitted, int64
from headrace.operators.time_limits.fold.names import AFTER, BEFORE, EXPIRY, FROM, LIMIT, OWN, OWN_BEFORE, SUB
from headrace.operators.time_limits.fold.shape import CLOCKS, GROUP, Shape, clocks
from headrace.operators.time_limits.fold.timeline import timeline

CLOCK_TABLE = "clocks"
TIMES = (BEFORE, AFTER, OWN_BEFORE, OWN, LIMIT)


class MarkTimeline(Step):
    """By partition: kept rows with the expiry time before and after them.

    State: `clocks`, each partition's own stream time and expiry time.
    Rows:  kept ones; shared: those that move the expiry time, with their places
    """

    scope = Scope.PARTITION

    def __init__(self, shape: Shape) -> None:
        """In: shape  of the node."""
        self.shape = shape
        self.state: Mapping[str, StateTable] = {CLOCK_TABLE: clocks()}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The clocks of the partitions that have rows."""
        return {CLOCK_TABLE: Needs(distinct_hashes(rows))} if rows.num_rows else {}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the package."""
        if not rows.num_rows:
            return Folded()
        decided = self.shape.updates.decide(rows)
        timed, gained = mark_times(decided, state[CLOCK_TABLE], self.shape, times)
        kept = is_kept(timed)
        timed = with_column(timed, FROM, pa.array(np.where(kept, int64(timed[FROM]), 0)))
        moves = int64(timed[AFTER]) > int64(timed[BEFORE])
        timed = self.shape.updates.slim(timed, *TIMES, KEY, HASH)
        return Folded(
            rows=timed.filter(pa.array(kept)),
            shared=advances(timed.filter(pa.array(moves))),
            changes={CLOCK_TABLE: gained},
            tally=tally_of(decided),
        )


def mark_times(decided: pa.Table, known: pa.Table, shape: Shape, times: Times) -> tuple[pa.Table, pa.Table]:
    """Records, ticks and rows that set limits, by partition and place, with TIMES; NO_TIME: none yet.

    In:     decided  rows of whole partitions, with KEY of the partition; known: clocks before them
    Out:    the rows; and the clocks after them, one row per partition that has such rows
    """
    is_record = decided[OFFSET].is_valid().to_numpy()
    rows = decided.filter(pa.array(is_record | has_fate(decided, TICK) | _sets_limits(decided, shape.name)))
    partition, of_known, partitions = groups_of_both(rows, known)
    # A tick has no offset, and stands after the records of its commit.
    sub = int64(rows[SUB]) if SUB in rows.column_names else np.zeros(rows.num_rows, np.int64)
    order = np.lexsort((sub, int64(rows[OFFSET], HIGHEST), int64(rows[INGESTED]), partition))
    rows, partition = rows.take(pa.array(order)), partition[order]
    time_ms = np.maximum(
        int64(rows[STREAM], NO_TIME), np.where(is_kept(rows), int64(rows[EVENT], NO_TIME), NO_TIME)
    )
    number, policies = shape.in_force(times).at(int64(rows[INGESTED]))
    limits_ms = np.array([policy.limit_ms for policy in policies], np.int64)[number]
    own_ms, expiry_ms = (np.full(partitions, NO_TIME) for _ in range(2))
    own_ms[of_known], expiry_ms[of_known] = int64(known[OWN], NO_TIME), int64(known[EXPIRY], NO_TIME)
    found = timeline(partition, time_ms, limits_ms, own_ms, expiry_ms)
    columns = (found.before_ms, found.after_ms, found.was_ms, found.own_ms, limits_ms)
    timed = rows
    for name, column in zip(TIMES, columns, strict=True):
        timed = timed.append_column(name, pa.array(column))
    last = np.flatnonzero(np.append(begins(partition)[1:], True)) if len(order) else order
    clock = rows.select(GROUP.names).take(pa.array(last))
    clock = clock.append_column(OWN, _known(found.own_ms[last])).append_column(
        EXPIRY, _known(found.after_ms[last])
    )
    return timed, clock.cast(CLOCKS)


def advances(moves: pa.Table) -> pa.Table:
    """Rows that move the expiry time, to be shared: their places and times; what users put into them is left out."""
    named = {TOPIC, PARTITION, INGESTED, OFFSET, STREAM, FROM, *TIMES}
    schema = moves.drop_columns([KEY, HASH]).schema
    return fitted(moves.select([name for name in schema.names if name in named]), schema)


def _sets_limits(rows: pa.Table, name: str) -> np.ndarray:
    """Which rows set limits of a node."""
    found = has_fate(rows, SET_LIMITS)
    for place in np.flatnonzero(found).tolist():
        said = rows[REASON][place].as_py()
        found[place] = said is not None and limits_of_node(said, name) is not None
    return found


def _known(ms: np.ndarray) -> pa.Array:
    return pa.array(ms, mask=ms == NO_TIME)
