"""The fold of distinct records: the state holds id and event time of each record that passed, until no copy can come.

Law (L41): a later record r has s(r) >= L. If it is not late, then e(r) > L - grace. So a record that passed at or before
L - grace - within decides nothing for it, and such rows of the state expire.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.distinct import Distinct
from headrace.fold.contract import (
    EVENT,
    HASH,
    KEY,
    STREAM,
    Clock,
    Folded,
    Needs,
    Scope,
    StateTable,
    Times,
    as_they_are,
)
from headrace.fold.fates import DUPLICATE, LATE, has_fate, is_kept, tally_of, with_fate
from headrace.fold.group_order import order_by_group
from headrace.fold.kernel import OneStep
from headrace.fold.keys import distinct_hashes, groups_of_both, with_keys
from headrace.fold.late_view import late_by_age
from headrace.fold.positions import order_of, position_columns
from headrace.fold.records.pass_on import decide_records, rows_of_records
from headrace.fold.segments import NO_TIME, ms_or_no_time
from headrace.fold.values.columns import int64

PASSED = "passed"
PASSED_ROWS = pa.schema([(KEY, pa.binary()), (HASH, pa.int64()), (EVENT, pa.int64())])


@dataclass(frozen=True)
class FirstRecords(OneStep):
    """Distinct records: it passes the first record of each id.

    In:    rows of the log; state `passed`: id and event time of the records that passed
    Out:   `results` as `Records` gives them
    """

    by: tuple[str, ...]
    columns: tuple[str, ...]
    within_ms: int
    grace_ms: int
    scope = Scope.GROUP

    @classmethod
    def of(cls, node: Distinct) -> FirstRecords:
        """The kernel of a node."""
        assert node.rows.columns is not None
        return cls(node.by, node.rows.columns, node.within_ms, node.grace_ms)

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of the id."""
        return self.by

    @property
    def decided_with(self) -> tuple[str, ...]:
        """Records with the same values here are decided together."""
        return self.by

    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE of all records of some ids, as a log that begins with them decides it."""
        keyed = with_keys(decide_late(rows, self.grace_ms), self.by)
        return decide_copies(keyed, self.state[PASSED].empty(), self.within_ms)

    late_scope = Scope.ANYWHERE  # each row by itself

    def late(self, rows: pa.Table) -> pa.Table:
        """Late records, as `late_by_age` shows them."""
        decided = decide_late(rows, self.grace_ms)
        return late_by_age(decided.filter(pa.array(has_fate(decided, LATE))), self.grace_ms)

    @property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """One row for each record that passed, written once."""
        return {PASSED: StateTable(PASSED_ROWS, (HASH, EVENT), as_they_are, EVENT, self._is_forgotten)}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The records of the same ids that passed, close to those that come."""
        kept = _kept(decide_late(rows, self.grace_ms))
        if not kept.num_rows:
            return {}
        bounds = pc.min_max(kept[EVENT]).as_py()
        near = bounds["min"] - self.within_ms + 1, bounds["max"] + self.within_ms - 1
        return {PASSED: Needs(distinct_hashes(kept), near)}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        passed = state.get(PASSED, self.state[PASSED].empty())
        rows = decide_copies(decide_late(rows, self.grace_ms), passed, self.within_ms)
        first = _kept(rows)
        new = first.select(PASSED_ROWS.names).cast(PASSED_ROWS)
        remembered = new.filter(pc.invert(self._is_forgotten(new, times.after)))
        results = pa.table(rows_of_records(first, self.columns))
        return Folded(outputs={"results": results}, changes={PASSED: remembered}, tally=tally_of(rows))

    def _is_forgotten(self, rows: pa.Table, after: Clock) -> pa.Array:
        forgotten_ms = int64(rows[EVENT]) + self.grace_ms + self.within_ms
        return pa.array(forgotten_ms <= ms_or_no_time(after.lowest_ms))


def decide_late(rows: pa.Table, grace_ms: int) -> pa.Table:
    """Complete FATE by each row alone: a record is late, or kept; copies among those are not told yet."""
    rows = decide_records(rows)
    late = is_kept(rows) & (int64(rows[EVENT]) + grace_ms <= int64(rows[STREAM], NO_TIME))
    return with_fate(rows, late, LATE)


def decide_copies(rows: pa.Table, passed: pa.Table, within_ms: int) -> pa.Table:
    """Make copies among the kept rows duplicates. In: rows with KEY; the records that passed before, as `PASSED_ROWS`."""
    kept = np.flatnonzero(is_kept(rows))
    return with_fate(rows, kept[_is_copy(rows.take(pa.array(kept)), passed, within_ms)], DUPLICATE)


def _is_copy(kept: pa.Table, passed: pa.Table, within_ms: int) -> np.ndarray:
    """Which records have an id that passed less than `within_ms` from them; in the order of the log."""
    codes_before, codes, _ = groups_of_both(passed, kept)
    copies, event_ms = np.zeros(kept.num_rows, bool), int64(kept[EVENT])
    order = order_by_group(codes, order_of(position_columns(kept)))
    order = order[_are_several(codes, codes_before)[order]]
    times = defaultdict[int, list[int]](list)
    for code, ms in zip(codes_before.tolist(), int64(passed[EVENT]).tolist(), strict=True):
        times[code].append(ms)
    for some in times.values():
        some.sort()
    for at, code, ms in zip(order.tolist(), codes[order].tolist(), event_ms[order].tolist(), strict=True):
        near = times[code]
        place = bisect_left(near, ms)
        later = place < len(near) and near[place] - ms < within_ms
        if later or (place and ms - near[place - 1] < within_ms):
            copies[at] = True
        else:
            near.insert(place, ms)
    return copies


def _are_several(codes: np.ndarray, codes_before: np.ndarray) -> np.ndarray:
    """Which records are not the only one of their id: of most ids there is one."""
    counts = np.bincount(np.concatenate([codes, codes_before]), minlength=1)
    several: np.ndarray = counts[codes] > 1
    return several


def _kept(rows: pa.Table) -> pa.Table:
    return rows.filter(pa.array(is_kept(rows)))
