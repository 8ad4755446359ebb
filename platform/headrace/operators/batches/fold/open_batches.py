"""The state of open batches: one small row for each batch, and its records.

Each time a group gets records, cutting reads only the small row. The records are needed once, when the batch closes. So the
two are in two tables, and no record is read before its batch closes. Each record is written to the state once. It is not
read again from the log, so the log's retention does not depend on open batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import (
    DELETED,
    EVENT,
    HASH,
    INGESTED,
    KEY,
    OFFSET,
    PARTITION,
    SIZE,
    TOPIC,
    Clock,
    StateTable,
)
from headrace.fold.keys import groups_of, newest
from headrace.operators.batches.fold.limits import Limits

OPENED, RECORDS, BYTES = "__opened_ms", "__records", "__bytes"
ENTRY = (INGESTED, TOPIC, PARTITION, OFFSET, EVENT, SIZE)  # of a record, beside the user's columns


def open_batches(topics: Sequence[str], limits: Limits) -> StateTable:
    """Batches that are open: when they were opened, and how full they are.

    Rows: one per batch and micro-batch that gave it records; the newest counts. DELETED: it closed before its deadline
    """
    schema = pa.schema(
        [
            (KEY, pa.binary()),
            (HASH, pa.int64()),
            (OPENED, pa.int64()),
            (RECORDS, pa.int64()),
            (BYTES, pa.int64()),
            (DELETED, pa.bool_()),
        ]
    )
    return StateTable(
        schema, _sorted_by(limits), partial(newest, of=(KEY, OPENED)), OPENED, _over(topics, limits)
    )


def waiting_records(
    inputs: pa.Schema, columns: Sequence[str], topics: Sequence[str], limits: Limits
) -> StateTable:
    """The records of open batches: KEY, OPENED of the batch, place, event time, size, and the user's columns.

    Rows: one per record. DELETED: a row without a record, which says that the batch closed before its deadline
    """
    fields = [pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64()), pa.field(OPENED, pa.int64())]
    fields += [inputs.field(name).with_nullable(True) for name in (*ENTRY, *columns)]
    schema = pa.schema([*fields, pa.field(DELETED, pa.bool_())])
    return StateTable(schema, _sorted_by(limits), _without_closed, OPENED, _over(topics, limits))


def still_open(rows: pa.Table, clock: Clock, topics: Sequence[str], limits: Limits) -> pa.Table:
    """Merged rows of either table whose batch is open as of a clock."""
    there = pc.invert(rows[DELETED].combine_chunks())
    if limits.by_time:
        there = pc.and_(there, pc.greater(rows[OPENED], opened_through(clock, topics, limits)))
    return rows.filter(there)


def frontier_ms(clock: Clock, topics: Sequence[str]) -> int:
    """How far the logs were read together: the latest commit time, for all of them are read up to it."""
    return max((clock.upto_ms[topic] for topic in topics if topic in clock.upto_ms), default=0)


def opened_through(clock: Clock, topics: Sequence[str], limits: Limits) -> int:
    """Batches opened at or before this time have reached their deadline."""
    return limits.opened_through_ms(frontier_ms(clock, topics))


def open_records(waiting: pa.Table, clock: Clock, topics: Sequence[str], limits: Limits) -> pa.Table:
    """How many records of each partition are in open batches: they are kept, and not used yet.

    In:  waiting  rows of `waiting_records`, merged
    Out: TOPIC, PARTITION, `records` BIGINT
    """
    rows = still_open(waiting, clock, topics, limits)
    counted = rows.group_by([TOPIC, PARTITION]).aggregate([([], "count_all")])
    return counted.rename_columns({"count_all": "records"})


def _sorted_by(limits: Limits) -> tuple[str, ...]:
    return (OPENED, HASH) if limits.by_time else (HASH, OPENED)


def _over(topics: Sequence[str], limits: Limits) -> Callable[[pa.Table, Clock], pa.Array]:
    return partial(_is_over, topics=tuple(topics), limits=limits)


def _is_over(rows: pa.Table, clock: Clock, *, topics: Sequence[str], limits: Limits) -> pa.Array:
    """Rows of batches that have closed."""
    early = rows[DELETED].combine_chunks()
    if not limits.by_time:
        return early
    over = pc.less_equal(rows[OPENED].combine_chunks(), opened_through(clock, topics, limits))
    return pc.or_(early, over)


def _without_closed(rows: pa.Table) -> pa.Table:
    """Records, without those of batches that a row says have closed; one such row of each."""
    gone = rows[DELETED].to_numpy()
    if not gone.any():
        return rows
    groups = groups_of(rows, rows[OPENED].to_numpy())
    closed = np.full(len(groups), -1, np.int64)
    closed[groups.codes[gone]] = np.flatnonzero(gone)
    return rows.filter(
        pa.array((closed[groups.codes] < 0) | (closed[groups.codes] == np.arange(rows.num_rows)))
    )
