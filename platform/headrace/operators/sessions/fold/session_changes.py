"""The changes of session windows, commit by commit: the values of sessions that grow, and the sessions that are gone.

Law (L31): a session is told by its group, its first and its last event. A log commit changes it if records of the commit
have joined it and alter an aggregate. So a session that grows is gone under its old bounds, and there under its new ones. A
session that closes does not change. The place of a change is that of the group's last record in the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import highest_by
from headrace.fold.changes.collect import RESULTS, appended_changes
from headrace.fold.changes.deltas import AFTER, BEFORE, SIGN
from headrace.fold.contract import (
    BATCH,
    EVENT,
    INGESTED,
    KEY,
    OFFSET,
    PARTITION,
    TOPIC,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.fates import LATE, tally_of, with_fate
from headrace.fold.kernel import OfOneFeed
from headrace.fold.keys import combined, group, groups_of_both, with_keys
from headrace.fold.values.columns import int64
from headrace.operators.sessions.fold.each_commit import each_commit
from headrace.operators.sessions.fold.fold_sessions import Sessions
from headrace.operators.sessions.fold.open_sessions import OPEN, results
from headrace.operators.sessions.fold.shape import END, RECORDS, START, Shape

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate

BOUNDS = ("window_start", "window_end")
NO_ROW = -1


@dataclass(frozen=True, eq=False)
class SessionChanges(OfOneFeed, Step):
    """The kernel of the changes of a node of session windows: one log commit after the other, as `Sessions` folds it.

    State: that of `Sessions`.
    Out:   `results` (see `appended_changes`), one row per session and commit that changes it
    """

    sessions: Sessions
    scope = Scope.GROUP_AND_PARTITION

    @classmethod
    def of(cls, node: WindowedAggregate, inputs: pa.Schema) -> SessionChanges:
        """The kernel of the changes of a node. In: see `Sessions.of`."""
        return cls(replace(Sessions.of(node, inputs), bounded=None))

    @property
    def shape(self) -> Shape:
        """That of the sessions."""
        return self.sessions.shape

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The group columns."""
        return self.shape.keys

    @property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """That of the sessions."""
        return self.sessions.state

    @property
    def steps(self) -> tuple[Step, ...]:
        """As those of `Sessions`."""
        return (*self.sessions.steps[:-1], self)

    def decide(self, rows: pa.Table) -> pa.Table:
        """See `Sessions.decide`."""
        return self.sessions.decide(rows)

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The sessions of the groups that have records."""
        needed = self.sessions.needs(rows, times)
        return needed if rows.num_rows else {}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        table, late = self.state[OPEN], [np.empty(0, np.int64)]
        decided = self.decide(rows)
        nothing = self.shape.state.empty_table()
        came, changed = [table.empty()], [_changed(nothing, nothing, decided.slice(0, 0))]
        for number, each in enumerate(
            each_commit(decided, state.get(OPEN, table.empty()), self.shape, times)
        ):
            late.append(each.late)
            changed.append(_changed(each.before, each.after, each.rows))
            came.append(
                each.gained.append_column(BATCH, pa.array(np.full(each.gained.num_rows, number, np.int32)))
            )
        gained = table.merge(pa.concat_tables(came)).select(table.schema.names)
        shown = self._shown(pa.concat_tables(changed))
        tally = tally_of(with_fate(decided, np.concatenate(late), LATE))
        return Folded(outputs={RESULTS: shown}, changes={OPEN: gained}, tally=tally)

    def _shown(self, changed: pa.Table) -> pa.Table:
        """Changes as the node gives them. In: as `_changed` gives them."""
        rows = results(changed, self.shape)
        key = (*self.shape.by.names, *BOUNDS)
        values = [field.name for field in self.shape.aggregates.results]
        columns = {name: rows[name] for name in (*key, *values, TOPIC, PARTITION)}
        columns |= {name: changed[name] for name in (SIGN, EVENT, INGESTED, OFFSET)}
        # Sessions of one group in two partitions stand alone, also if their bounds are the same.
        return appended_changes(with_keys(pa.table(columns), [*key, TOPIC, PARTITION]), key, values)


def _changed(before: pa.Table, after: pa.Table, records: pa.Table) -> pa.Table:
    """The changes of sessions by records, which are of one log commit for each group.

    In:  before, after  the sessions of the groups, as the state has them
    Out: the sessions that are gone, then those that are new or hold more records, with SIGN; the position of the last record
         of the group in the commit; and EVENT: the end of the session or, if it is gone, of the one that holds its records
    """
    both = pa.concat_tables([before, after])
    gone, there = _gone_and_there(both, before.num_rows)
    rows = both.take(pa.array(np.concatenate([gone, there])))
    signs = np.repeat(np.array([BEFORE, AFTER], np.int8), [len(gone), len(there)])
    of_row, of_record, keys = groups_of_both(rows, records)
    offset = highest_by(of_record, keys, int64(records[OFFSET], NO_ROW))[of_row]
    at_ms = highest_by(of_record, keys, int64(records[INGESTED]))[of_row]
    event_ms = np.concatenate([_ends_now(both, gone, before.num_rows), int64(both[END])[there]])
    places = {
        SIGN: pa.array(signs),
        EVENT: pa.array(event_ms),
        INGESTED: pa.array(at_ms),
        OFFSET: pa.array(offset),
    }
    return pa.table({name: rows[name] for name in rows.column_names} | places)


def _gone_and_there(both: pa.Table, count_before: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of sessions that are gone or hold more records: as they were before, and as they are after.

    In: both  the sessions before and after, `count_before` of them before
    """
    session = combined(group(both[KEY]).codes, int64(both[START]), int64(both[END]))
    place, records = np.arange(both.num_rows), int64(both[RECORDS])
    before, after = (np.full(len(session), NO_ROW) for _ in range(2))
    before[session.codes[:count_before]] = place[:count_before]
    after[session.codes[count_before:]] = place[count_before:]
    same = (before != NO_ROW) & (after != NO_ROW)
    same[same] = records[before[same]] == records[after[same]]
    return before[~same & (before != NO_ROW)], after[~same & (after != NO_ROW)]


def _ends_now(both: pa.Table, gone: np.ndarray, count_before: int) -> np.ndarray:
    """For each session that is gone the end of the one that holds its records now: of its group the last to begin by then.

    In: both  the sessions before and after, `count_before` of them before; gone: places of sessions before
    """
    places = np.concatenate([np.arange(count_before, both.num_rows), gone])
    is_now = np.arange(len(places)) < both.num_rows - count_before
    codes, start_ms = group(both[KEY]).codes[places], int64(both[START])[places]
    order = np.lexsort((~is_now, start_ms, codes))
    last = np.maximum.accumulate(np.where(is_now[order], np.arange(len(order)), -1)) if len(order) else order
    holder = np.empty(len(order), np.int64)
    holder[order] = order[np.maximum(last, 0)]
    ended = np.flatnonzero(~is_now)
    end_ms = int64(both[END])[places]
    has_holder = codes[holder[ended]] == codes[ended]
    return np.asarray(np.where(has_holder, np.maximum(end_ms[holder[ended]], end_ms[ended]), end_ms[ended]))
