"""The fate of each row, and the number of records of each fate.

Law (L10): each record has one fate, which its own row states. No step removes a row before its fate is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates import Aggregates
from headrace.fold.contract import FATE, PARTITION, REASON, TOPIC
from headrace.fold.keys import combined, group
from headrace.fold.values.columns import int64

USED, OPEN, LATE, REPLAY, FILTERED, TOMBSTONE = "used", "open", "late", "replay", "filtered", "tombstone"
DUPLICATE, DEAD_LETTER, ERASED = "duplicate", "dead_letter", "erased"
BARE_TOMBSTONE = "bare tombstone"  # REASON of a record without a value among Debezium's changes
FATES = (USED, OPEN, LATE, DUPLICATE, REPLAY, FILTERED, TOMBSTONE, DEAD_LETTER, ERASED)
KEPT = "kept"  # in results or still open; which of the two depends on how far the log was read
TICK, CONTROL, DRAIN, SET_LIMITS, COMPLETE = "tick", "control", "drain", "set_limits", "complete"
# Fates of control rows: all partitions of a topic are silent; a node's log waits for more.
IDLE, BUSY = ("idle", "busy")
NOT_RECORDS = (TICK, CONTROL, DRAIN, SET_LIMITS, COMPLETE, IDLE, BUSY)

RECORDS = "records"
TALLY = pa.schema([(TOPIC, pa.string()), (PARTITION, pa.int32()), (FATE, pa.string()), (RECORDS, pa.int64())])


def decide_inputs(rows: pa.Table, aggregates: Aggregates | None = None) -> pa.Table:
    """Complete FATE and REASON: every record whose inputs the aggregates can take is kept. Null is a group like others.

    In:  rows  with FATE (null: undecided) and REASON
    Out: the rows in their order; FATE is never null
    """
    undecided = rows[FATE].is_null().to_numpy(zero_copy_only=False) if rows.num_rows else np.empty(0, bool)
    refused = aggregates.unusable(rows) if aggregates is not None and rows.num_rows else []
    return dead_letters(rows, undecided, refused)


def dead_letters(
    rows: pa.Table, undecided: np.ndarray, refused: Sequence[tuple[np.ndarray, str]]
) -> pa.Table:
    """Make undecided rows that are refused dead letters, by the first reason that holds, and keep the others."""
    why = np.zeros(rows.num_rows, np.int64)
    for number in range(len(refused), 0, -1):
        why[refused[number - 1][0] & undecided] = number
    if why.any():
        reasons = pa.array([None, *(reason for _, reason in refused)], pa.string()).take(pa.array(why))
        rows = with_column(rows, REASON, pc.coalesce(reasons, rows[REASON]))
        fates = pa.array([KEPT, DEAD_LETTER]).take(pa.array((why > 0).astype(np.int64)))
    else:
        fates = pa.scalar(KEPT)
    return with_column(rows, FATE, pc.coalesce(rows[FATE], fates))


def is_kept(rows: pa.Table) -> np.ndarray:
    """Which decided rows are kept."""
    found: np.ndarray = pc.equal(rows[FATE], KEPT).to_numpy()
    return found


def has_fate(rows: pa.Table, *fates: str) -> np.ndarray:
    """Which decided rows met one of these fates."""
    found: np.ndarray = pc.is_in(rows[FATE], pa.array(fates, pa.string())).to_numpy()
    return found


def is_control(rows: pa.Table) -> np.ndarray:
    """Which decided rows are control rows."""
    found: np.ndarray = has_fate(rows, *NOT_RECORDS) & ~has_fate(rows, TICK)
    return found


def tally_of(rows: pa.Table) -> pa.Table:
    """How many records met which fate.

    In:  rows  decided; ticks and control rows among them are no records
    Out: as `TALLY`; one row per topic, partition and fate
    """
    partition = int64(rows[PARTITION], -1)
    groups = combined(group(rows[TOPIC]).codes, partition, group(rows[FATE]).codes)
    counts = np.bincount(groups.codes, minlength=len(groups)).astype(np.int64)
    found = rows.select([TOPIC, PARTITION, FATE]).take(pa.array(groups.first))
    found = found.append_column(RECORDS, pa.array(counts))
    return found.filter(pc.invert(pc.is_in(found[FATE], pa.array(NOT_RECORDS, pa.string())))).cast(TALLY)


def sum_tallies(tallies: Sequence[pa.Table]) -> pa.Table:
    """One tally of several."""
    everything = pa.concat_tables([TALLY.empty_table(), *tallies])
    summed = everything.group_by(TALLY.names[:3], use_threads=False).aggregate([(RECORDS, "sum")])
    return summed.rename_columns({f"{RECORDS}_sum": RECORDS}).select(TALLY.names)


def with_fate(rows: pa.Table, which: np.ndarray, fate: str) -> pa.Table:
    """The rows, where some have met a fate. In: which  places, or whether each row has."""
    met = np.zeros(rows.num_rows, bool)
    met[which] = True
    return with_column(rows, FATE, pc.if_else(pa.array(met), fate, rows[FATE])) if met.any() else rows


def with_column(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows with a column replaced, or added at the end."""
    place = rows.schema.get_field_index(name)
    return rows.append_column(name, values) if place < 0 else rows.set_column(place, name, values)
