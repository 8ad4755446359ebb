"""Which records a table uses, and which of them delete their key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import DELETED, EVENT, FATE, REASON, STREAM
from headrace.fold.fates import (
    BARE_TOMBSTONE,
    LATE,
    TOMBSTONE,
    dead_letters,
    has_fate,
    is_kept,
    with_column,
    with_fate,
)
from headrace.fold.keys import canonical
from headrace.fold.segments import NO_TIME
from headrace.fold.values.columns import int64

PASSES = "__passes"  # whether a row makes all conditions of its table true; the caller adds it where there are conditions

UNDATED = -1  # EVENT of a tombstone that comes before any event time of its partition; it is lower than all


def decide_records(
    rows: pa.Table, key: Sequence[str], forget_ms: int | None = None, *, by_timestamp: bool = False
) -> pa.Table:
    """Keep every record that has a key, tombstones too. A tombstone without one says nothing of the table.

    In:  rows          the columns of the stream and ROW_COLUMNS; PASSES BOOLEAN if the table has conditions
         forget_ms     how long the table remembers deletes; a record further behind the stream time of its partition, or
                       just as far, is late. None: none is
         by_timestamp  event times order the records of a key: a BARE_TOMBSTONE is none of them
    Out: FATE and REASON completed; DELETED: the key has no row after the record; EVENT of a tombstone without one: UNDATED
    Law: row by row.
    """
    tombstone = has_fate(rows, TOMBSTONE)
    without = [rows[name].is_null().to_numpy() for name in key if rows[name].null_count]
    if without and tombstone.any():
        tombstone &= ~np.logical_or.reduce(without)
    if by_timestamp and tombstone.any():
        tombstone &= ~pc.equal(rows[REASON], BARE_TOMBSTONE).fill_null(False).to_numpy()
    if tombstone.any():
        undated = pc.and_(pa.array(tombstone), rows[EVENT].is_null())
        rows = with_column(rows, EVENT, pc.if_else(undated, UNDATED, rows[EVENT]))
    deleted = tombstone
    if PASSES in rows.column_names:
        deleted = tombstone | ~pc.fill_null(rows[PASSES], False).to_numpy()
    if tombstone.any():
        rows = with_column(rows, FATE, pc.if_else(pa.array(tombstone), None, rows[FATE]))
    undecided = rows[FATE].is_null().to_numpy()
    keyless = [
        (rows[name].is_null().to_numpy(), f"key: {name} is null") for name in key if rows[name].null_count
    ]
    rows = dead_letters(rows, undecided, keyless)
    if forget_ms is not None:
        late = is_kept(rows) & (int64(rows[EVENT]) + forget_ms <= int64(rows[STREAM], NO_TIME))
        rows = with_fate(rows, late, LATE)
    return with_column(rows, DELETED, pa.array(deleted))


def kept_records(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows that are kept; in their keys there is one NaN, and no -0.0."""
    rows = kept(rows)
    for name in key:
        if pa.types.is_floating(rows.schema.field(name).type) or pa.types.is_nested(
            rows.schema.field(name).type
        ):
            rows = with_column(rows, name, canonical(whole(rows[name])))
    return rows


def kept(rows: pa.Table) -> pa.Table:
    """The rows that are kept."""
    which = is_kept(rows)
    return rows if which.all() else rows.filter(pa.array(which))
