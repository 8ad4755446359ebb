"""The output rows of a node's changes: the current row of each key, and each change with the row before it.

Law: a row's place follows from the record that caused it and from its key: commit time (`__sequence`), topic, partition,
offset, event time, KEY. So one record may change many keys, and no two rows of a node have the same place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.table_changes import KEY_DELETED
from headrace.fold.aggregates.kind import whole
from headrace.fold.changes.deltas import AFTER, SIGN, commits, picked
from headrace.fold.changes.ordering import PLACE, int64, last_of_each, order, places
from headrace.fold.contract import DELETED, EVENT, HASH, INGESTED, KEY
from headrace.fold.keys import combined, group
from headrace.fold.segments import LOWEST
from headrace.fold.values.columns import moments
from headrace.fold.values.encode import encode

RESULTS, CHANGES = "results", "changes"
BEFORE_PREFIX = (
    "__before_"  # of a change, the row before: the columns beside the key, and whether there was one
)
WAS_THERE = "__was_there"
NO_ROW = -1
TIMESTAMP, SEQUENCE = "__timestamp", "__sequence"  # event time of a row, and commit time of its cause, in ms
INGESTED_AT = "__ingested_at"  # the latter as a TIMESTAMP


def latest_changes(
    deltas: pa.Table, key: Sequence[str], values: Sequence[str], *, per_commit: bool
) -> pa.Table:
    """The current row of each key that changes.

    In:  per_commit  see `deltas.commits`
    Out: key and values, null where the row is gone; DELETED, TIMESTAMP, and the place of the cause; one row per key
    """
    deltas = deltas.combine_chunks()
    sequence = order(commits(deltas, per_commit=per_commit), int64(deltas[SIGN]))
    last = last_of_each(group(deltas[KEY]).codes, sequence)
    after = deltas[SIGN].to_numpy()[last] == AFTER
    return pa.table(_shown(deltas, np.where(after, last, NO_ROW), last, key, values))


def changes_of(deltas: pa.Table, key: Sequence[str], values: Sequence[str]) -> pa.Table:
    """Each change of each key.

    Out: as `latest_changes`, with WAS_THERE and the values before; one row per key and commit
    """
    deltas = deltas.combine_chunks()
    then, now, cause = _each_change(deltas)
    shown = _shown(deltas, now, cause, key, values) | {WAS_THERE: pa.array(then != NO_ROW)}
    before = pa.array(then, mask=then == NO_ROW)
    return pa.table(shown | {BEFORE_PREFIX + name: deltas[name].take(before) for name in values})


def appended_changes(deltas: pa.Table, key: Sequence[str], values: Sequence[str]) -> pa.Table:
    """Each change of each key, as rows that stay.

    Out: as `latest_changes`, with KEY_DELETED in place of DELETED, and INGESTED_AT (the commit); one row per key and commit
         that changes the key's row. TIMESTAMP is the later one of the event times of the row after and of the cause
    """
    deltas = deltas.combine_chunks()
    then, now, cause = _each_change(deltas)
    differs = _differ(deltas, then, now, values)
    then, now, cause = then[differs], now[differs], cause[differs]
    shown = _shown(deltas, now, cause, key, values)
    event_ms = int64(deltas[EVENT])
    times = (np.where(at == NO_ROW, LOWEST, event_ms[at]) for at in (then, now))
    shown |= {TIMESTAMP: pa.array(np.maximum(*times)), INGESTED_AT: moments(int64(deltas[INGESTED])[cause])}
    shown[KEY_DELETED] = shown.pop(DELETED)
    return pa.table(shown)


def _differ(deltas: pa.Table, then: np.ndarray, now: np.ndarray, values: Sequence[str]) -> np.ndarray:
    """Which changes have a row before and a row after that differ, or only one of them."""
    differs: np.ndarray = (then == NO_ROW) | (now == NO_ROW)
    both = np.flatnonzero(~differs)
    for name in values:
        before, after = (whole(deltas[name]).take(pa.array(at[both])) for at in (then, now))
        differs[both] |= pc.not_equal(encode(before), encode(after)).to_numpy(zero_copy_only=False)
    return differs


def _each_change(deltas: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each key and commit the numbers of the row before, of the row after, and of that with the place of the cause."""
    change = combined(group(deltas[KEY]).codes, int64(deltas[INGESTED]))
    after = deltas[SIGN].to_numpy() == AFTER
    then, now = (np.full(len(change), NO_ROW, np.int64) for _ in range(2))
    then[change.codes[~after]], now[change.codes[after]] = np.flatnonzero(~after), np.flatnonzero(after)
    # The row before and the row after may come from two buckets: the later of both records is the cause.
    return then, now, last_of_each(change.codes, order(places(deltas), after))


def _shown(
    deltas: pa.Table, now: np.ndarray, cause: np.ndarray, key: Sequence[str], values: Sequence[str]
) -> dict[str, pa.ChunkedArray]:
    gone, after = now == NO_ROW, deltas.select(values)
    after = after.take(pa.array(now, mask=gone)) if gone.any() else picked(after, now)
    caused = picked(deltas.select([*key, *PLACE, KEY, HASH]), cause)
    dated = picked(deltas.select([EVENT]), np.where(gone, cause, now))  # as the row after
    return {
        **{name: caused[name] for name in key},
        **{name: after[name] for name in values},
        DELETED: pa.array(gone),
        TIMESTAMP: dated[EVENT],
        SEQUENCE: caused[INGESTED],
        **{name: caused[name] for name in (*PLACE[1:], KEY, HASH)},
    }
