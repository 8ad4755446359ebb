"""Waits by the wall clock, in one step: by group and partition which waits there are, and what leaves.

Law (L35): an update has the commit time of its record. A wait that is opened at t, under the limit d in force there, is over
at t + d: an update before joins it, one at or after opens another. Its row leaves at t + d, which is its `__sequence`, once
the log is read as far. So nothing but the updates of its own entry, and limits that people set, have a say in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.fold.contract import (
    HASH,
    INGESTED,
    KEY,
    OFFSET,
    Clock,
    Folded,
    Needs,
    Times,
)
from headrace.fold.fates import is_kept, tally_of
from headrace.fold.keys import distinct_hashes, groups_of_both
from headrace.fold.segments import NO_TIME, order_within
from headrace.fold.values.columns import int64
from headrace.operators.time_limits.fold.assign_waits import HELD, assign_waits
from headrace.operators.time_limits.fold.entries import ENTRIES, EntryStep
from headrace.operators.time_limits.fold.fold_waits import at_places
from headrace.operators.time_limits.fold.names import DUE, OPENED, OPENED_OFFSET, START
from headrace.operators.time_limits.fold.settle_waits import Ends, Waits, settle_waits


class FoldWallWaits(EntryStep):
    """By group and partition (see the module). State: `entries`, as `FoldWaits` has it, and when each open wait is over.

    Out: see `settle_waits`
    """

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The entries of the groups that have updates, and those whose wait is over."""
        decided = self.shape.updates.decide(rows)
        kept = decided.filter(pa.array(is_kept(decided)))  # a tick has no group
        touched = Needs(distinct_hashes(kept)) if kept.num_rows else None
        return {ENTRIES: Needs(times=(_read_ms(times.before) + 1, _read_ms(times.after)), either=touched)}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the module."""
        known = self.known(state)
        if not rows.num_rows and not known.num_rows:
            return Folded()
        decided = self.shape.updates.decide(rows)
        kept = self.shape.updates.slim(decided.filter(pa.array(is_kept(decided))), KEY, HASH)
        waits = self._waits(self.shape.updates.exploded(kept), known, times)
        return replace(settle_waits(waits, self.shape), tally=tally_of(decided))

    def _waits(self, updates: pa.Table, known: pa.Table, times: Times) -> Waits:
        known = _concerned(updates, known, times)
        entry, of_known, count = groups_of_both(updates, known, START)
        order = order_within(entry, int64(updates[OFFSET]))
        updates, entry = updates.take(pa.array(order)), entry[order]
        held_due_ms = np.full(count, NO_TIME)
        held_due_ms[of_known] = int64(known[DUE], NO_TIME)
        known_of = np.full(len(held_due_ms), -1)
        known_of[of_known] = np.arange(known.num_rows)
        at_ms = int64(updates[INGESTED])
        number, policies = self.shape.in_force(times).at(at_ms)
        limits_ms = np.array([policy.limit_ms for policy in policies], np.int64)
        due_ms = at_ms + limits_ms[number]
        found = assign_waits(entry, due_ms, at_ms, held_due_ms)
        held, before = found.opener == HELD, known_of[found.entry]
        opened_ms = np.where(held, at_places(int64(known[OPENED]), before), at_places(at_ms, found.opener))
        offset = int64(updates[OFFSET])
        return Waits(
            rows=updates,
            wait=found.wait,
            known=known,
            first_waits=np.searchsorted(found.entry, of_known),
            was_open=known[DUE].is_valid().to_numpy(),
            entry=found.entry,
            opened_ms=opened_ms,
            opened_offset=np.where(
                held, at_places(int64(known[OPENED_OFFSET]), before), at_places(offset, found.opener)
            ),
            ends=_ends(
                over_ms := np.where(held, held_due_ms[found.entry], at_places(due_ms, found.opener)), times
            ),
            due_ms=over_ms,
        )


def _ends(due_ms: np.ndarray, times: Times) -> Ends:
    """Where each wait ends: at a time that is no row's."""
    nowhere = np.full(len(due_ms), NO_TIME)
    return Ends(
        over=due_ms <= _read_ms(times.after),
        early=np.zeros(len(due_ms), bool),
        ingested_ms=due_ms,
        offset=nowhere,
        sub=np.zeros(len(due_ms), np.int64),
        stream_ms=due_ms,
        clock_ms=nowhere,
    )


def _concerned(updates: pa.Table, known: pa.Table, times: Times) -> pa.Table:
    """The known entries that have updates or whose wait is over. The rows of the others may be older ones."""
    due_ms = int64(known[DUE], NO_TIME)
    due = (due_ms > _read_ms(times.before)) & (due_ms <= _read_ms(times.after))
    of_update, of_known, _ = groups_of_both(updates, known, START)
    return known.filter(pa.array(np.isin(of_known, of_update) | due))


def _read_ms(clock: Clock) -> int:
    """How far the log is read."""
    return max(clock.upto_ms.values(), default=0)
