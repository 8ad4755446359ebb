"""With `emit_early` the third step: by group and partition what the waits hold that the pass has found."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headrace.fold.contract import OFFSET, Folded, Needs, Times
from headrace.fold.keys import distinct_hashes, groups_of_both
from headrace.fold.segments import NO_TIME, distinct_pairs, order_within, places
from headrace.fold.values.columns import int64
from headrace.operators.time_limits.fold.entries import ENTRIES, EntryStep
from headrace.operators.time_limits.fold.names import (
    EARLY,
    LEFT_AT,
    LEFT_CLOCK,
    LEFT_OFFSET,
    LEFT_STREAM,
    LEFT_SUB,
    OPENED,
    OPENED_OFFSET,
    START,
)
from headrace.operators.time_limits.fold.settle_waits import Ends, Waits, settle_waits


class ValueWaits(EntryStep):
    """By group and partition (see the package). State and out: as `FoldWaits`."""

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The entries of the groups that have updates or ends."""
        return {ENTRIES: Needs(distinct_hashes(rows))} if rows.num_rows else {}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        if not rows.num_rows:
            return Folded()
        return settle_waits(waits_of(rows, state[ENTRIES]), self.shape)


def waits_of(rows: pa.Table, known: pa.Table) -> Waits:
    """The waits of updates and ends. In: rows as `PassEarly` gives them; known: entries before."""
    of_row, of_known, _ = groups_of_both(rows, known, START)
    touched = np.isin(of_known, of_row)
    known, of_known = known.filter(pa.array(touched)), of_known[touched]
    offsets = int64(rows[OPENED_OFFSET])
    entry, opened_offset = distinct_pairs(of_row, offsets)
    wait = places((entry, opened_offset), (of_row, offsets))
    opened_ms = np.empty(len(entry), np.int64)
    opened_ms[wait] = int64(rows[OPENED])
    ends = rows[EARLY].is_valid().to_numpy()
    updates = np.flatnonzero(~ends)
    updates = updates[order_within(of_row[updates], int64(rows[OFFSET])[updates])]
    return Waits(
        rows=rows.take(pa.array(updates)),
        wait=wait[updates],
        known=known,
        first_waits=np.searchsorted(entry, of_known),
        was_open=known[OPENED].is_valid().to_numpy(),
        entry=entry,
        opened_ms=opened_ms,
        opened_offset=opened_offset,
        ends=_ends(rows.filter(pa.array(ends)), wait[ends], len(entry)),
    )


def _ends(ended: pa.Table, wait: np.ndarray, count: int) -> Ends:
    over, early = np.zeros(count, bool), np.zeros(count, bool)
    over[wait], early[wait] = True, ended[EARLY].to_numpy()
    names = (LEFT_AT, LEFT_OFFSET, LEFT_SUB, LEFT_STREAM, LEFT_CLOCK)
    places_of = [np.full(count, NO_TIME) for _ in names]
    for found, name in zip(places_of, names, strict=True):
        found[wait] = int64(ended[name], NO_TIME)
    return Ends(over, early, *places_of)
