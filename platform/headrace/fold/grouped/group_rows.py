"""The changes of groups, from what is added to their partials and taken from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates import Aggregates
from headrace.fold.aggregates.running import running_partials
from headrace.fold.changes.deltas import AFTER, BEFORE, INTERNAL, KEYS, SIGN, commits, delta_schema, signed
from headrace.fold.changes.ordering import int64, last_of_each, order
from headrace.fold.changes.station import Ports, Route, Station, StationResult, newest_of, of_deleted
from headrace.fold.contract import DELETED, EVENT, HASH, INGESTED, KEY, Needs, StateTable, Times
from headrace.fold.fates import with_column
from headrace.fold.grouped.contributions import ROWS, merged
from headrace.fold.keys import distinct_hashes, group
from headrace.fold.segments import LOWEST, before, begins, running_max
from headrace.fold.values.columns import MOMENT, moments
from headrace.fold.window_shape import END, START
from headrace.fold.windows.panes import AnyPanes

ROWS_N = f"__{ROWS}_n"
HIGHEST_EVENT = "__highest_event"  # of the commits of a group, since it had no rows
STATE_COLUMNS = pa.schema([*KEYS, (DELETED, pa.bool_()), (INGESTED, pa.int64()), (EVENT, pa.int64())])


@dataclass
class GroupedRows(Station):
    """The groups of a relation, or of a stream. State: the partials of each group; DELETED where it has no rows.

    part, source  names of the groups, and of what comes: partials for each group and commit (see `contributions`)
    by            group columns
    aggregates    of the node, and ROWS
    route         how the partials come
    panes         of windows, of which a group column is `window_start`; None: there are none
    """

    part: str
    source: str
    by: pa.Schema
    aggregates: Aggregates
    route: Route
    per_commit: bool = True
    panes: AnyPanes | None = None

    def __post_init__(self) -> None:
        self.routes: Mapping[str, Route] = {self.source: self.route}
        self.columns = group_schema(self.by, self.aggregates, windowed=self.panes is not None)
        kept = pa.schema([*self.by, *self.aggregates.fields, *STATE_COLUMNS])
        self.state: Mapping[str, StateTable] = {
            self._state: StateTable(kept, (HASH, KEY), newest_of(KEY), expired=of_deleted)
        }

    def needs(self, ports: Ports, times: Times) -> Mapping[str, Needs]:
        """The groups that are touched."""
        return {self._state: Needs(distinct_hashes(ports[self.source]))}

    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """See the package."""
        adds = self._adds(ports)
        known = state.get(self._state, self.state[self._state].empty())
        known = known.filter(
            pc.and_(pc.is_in(known[HASH], pa.array(distinct_hashes(adds))), pc.invert(known[DELETED]))
        )
        rows, new = _in_order(known, adds, per_commit=self.per_commit)
        first = begins(group(rows[KEY]).codes)
        lives = _lives(int64(rows[ROWS_N]), first)
        for name, column in running_partials(self.aggregates, rows, lives).items():
            rows = with_column(rows, name, column)
        rows = rows.append_column(HIGHEST_EVENT, pa.array(running_max(lives, int64(rows[EVENT]))))
        rows, also_gained = self._completed(rows, new, ports, state)
        return StationResult(
            self._deltas(rows, new, first), {self._state: self._gained(rows, new), **also_gained}
        )

    @property
    def _state(self) -> str:
        return f"{self.part}_groups"

    def _adds(self, ports: Ports) -> pa.Table:
        """The change of each group's partials in each commit."""
        return merged(ports[self.source], self.by.names, self.aggregates, per_commit=self.per_commit)

    def _completed(
        self, rows: pa.Table, new: np.ndarray, ports: Ports, state: Ports
    ) -> tuple[pa.Table, dict[str, pa.Table]]:
        """The groups with what is no partial of theirs; and what other tables of the state gain."""
        return rows, {}

    def _values(self, groups: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
        """The columns of groups that are not in their key."""
        return shown_groups(groups, self.aggregates, self.panes)

    def _deltas(self, rows: pa.Table, new: np.ndarray, first: np.ndarray) -> pa.Table:
        """For each new row the group before it and after it. In: first  marks the first row of each group."""
        has_rows = rows[ROWS_N].to_numpy() > 0
        there = np.flatnonzero(new & has_rows)
        gone = np.flatnonzero(new & ~first & np.append(False, has_rows[:-1])[: len(new)])
        return pa.concat_tables(
            [self._shown(rows, gone - 1, gone, BEFORE), self._shown(rows, there, there, AFTER)]
        )

    def _shown(self, rows: pa.Table, which: np.ndarray, cause: np.ndarray, sign: int) -> pa.Table:
        groups, caused = rows.take(pa.array(which)), rows.take(pa.array(cause))
        internal = [name for name in INTERNAL.names if name != SIGN]
        columns = {name: groups[name] for name in (*self.by.names, *KEYS.names)}
        columns |= self._values(groups) | {n: caused[n] for n in internal}
        if sign == AFTER:
            columns[EVENT] = groups[HIGHEST_EVENT]
        schema = delta_schema(self.columns)
        return signed(pa.table(columns), np.full(len(which), sign)).select(schema.names).cast(schema)

    def _gained(self, rows: pa.Table, new: np.ndarray) -> pa.Table:
        codes = group(rows[KEY]).codes
        last = last_of_each(codes, np.arange(len(codes)))
        rows = rows.take(pa.array(last[new[last]]))
        rows = rows.append_column(DELETED, pc.equal(rows[ROWS_N], 0))
        rows = with_column(rows, EVENT, rows[HIGHEST_EVENT])
        schema = self.state[self._state].schema
        return rows.select(schema.names).cast(schema)


def group_schema(by: pa.Schema, aggregates: Aggregates, *, windowed: bool) -> pa.Schema:
    """The columns of groups: their key, `window_end` if they are windows, and the aggregates."""
    ends = [(END, MOMENT)] if windowed else []
    return pa.schema([*by, *ends, *(field for field in aggregates.results if field.name != ROWS)])


def shown_groups(
    partials: pa.Table, aggregates: Aggregates, panes: AnyPanes | None
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """The columns of groups that are not in their key."""
    results = {name: column for name, column in aggregates.finish(partials).items() if name != ROWS}
    if panes is None:
        return results
    return {END: moments(panes.end(int64(partials[START].cast(pa.int64())) // 1000)), **results}


def _lives(added: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Mark where a group begins, or begins anew: nothing is left of a group that had no rows after a commit.

    In: added  how many rows a commit adds to its group; first  marks of the first row of each group
    """
    total = np.cumsum(added)
    rows = total - np.repeat((total - added)[first], np.diff(np.append(np.flatnonzero(first), len(first))))
    marks: np.ndarray = first | (before(first, rows, 1) == 0)
    return marks


def _in_order(known: pa.Table, adds: pa.Table, *, per_commit: bool) -> tuple[pa.Table, np.ndarray]:
    """Partials by group, those known first, then by commit; and which are new."""
    names = [name for name in adds.column_names if name in known.column_names]
    rows = pa.concat_tables([known.select(names), adds], promote_options="default").combine_chunks()
    at = np.concatenate([np.full(known.num_rows, LOWEST), commits(adds, per_commit=per_commit)])
    sequence = order(group(rows[KEY]).codes, at)
    return rows.take(pa.array(sequence)), sequence >= known.num_rows
