"""The changes of groups, from what is added to their partials and taken from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates import Aggregates
from headrace.fold.changes.deltas import AFTER, BEFORE, INTERNAL, KEYS, SIGN, commits, delta_schema, signed
from headrace.fold.changes.ordering import last_of_each, order
from headrace.fold.changes.running import running_partials
from headrace.fold.changes.station import Given, NewestOf, Ports, Route, Station
from headrace.fold.contract import DELETED, HASH, INGESTED, KEY, Needs, StateTable, Times
from headrace.fold.grouped.contributions import ROWS, ByGroup, merged
from headrace.fold.keys import distinct_hashes, group
from headrace.fold.segments import LOWEST, begins

STATE_COLUMNS = pa.schema([*KEYS, pa.field(DELETED, pa.bool_()), pa.field(INGESTED, pa.int64())])


@dataclass
class GroupedRows(Station):
    """The groups of a relation. State: the partials of each group; DELETED where it has no rows.

    part, rows  names of the groups and of the relation whose rows are grouped
    given       the columns of that relation
    by          group columns
    aggregates  of the node, and ROWS
    """

    part: str
    rows: str
    given: pa.Schema
    by: tuple[str, ...]
    aggregates: Aggregates
    per_commit: bool = True

    def __post_init__(self) -> None:
        self.routes: Mapping[str, Route] = {self.rows: ByGroup(self.by, self.aggregates, self.per_commit)}
        shown = [field for field in self.aggregates.results if field.name != ROWS]
        self.columns = pa.schema([*(self.given.field(name) for name in self.by), *shown])
        kept = pa.schema([*self.routes[self.rows].columns(self.given), *STATE_COLUMNS])
        self.state: Mapping[str, StateTable] = {self._state: StateTable(kept, (HASH, KEY), NewestOf((KEY,)))}

    def needs(self, came: Ports, times: Times) -> Mapping[str, Needs]:
        """The groups that are touched."""
        return {self._state: Needs(distinct_hashes(came[self.rows]))}

    def fold(self, came: Ports, state: Ports, times: Times) -> Given:
        """See the package."""
        adds = merged(came[self.rows], self.by, self.aggregates, per_commit=self.per_commit)
        known = state.get(self._state, self.state[self._state].empty())
        known = known.filter(
            pc.and_(pc.is_in(known[HASH], pa.array(distinct_hashes(adds))), pc.invert(known[DELETED]))
        )
        rows, new = _in_order(known, adds, per_commit=self.per_commit)
        partials = running_partials(self.aggregates, rows, begins(group(rows[KEY]).codes))
        rows = rows.drop_columns([*partials])
        for name, column in partials.items():
            rows = rows.append_column(name, column)
        return Given(self._deltas(rows, new), {self._state: self._gained(rows, new)})

    @property
    def _state(self) -> str:
        return f"{self.part}_groups"

    def _deltas(self, rows: pa.Table, new: np.ndarray) -> pa.Table:
        """Of each new row the group before and after it."""
        first = begins(group(rows[KEY]).codes)
        has_rows = rows[ROWS_N].to_numpy() > 0
        there = np.flatnonzero(new & has_rows)
        gone = np.flatnonzero(new & ~first & np.append(False, has_rows[:-1])[: len(new)])
        return pa.concat_tables(
            [self._shown(rows, gone - 1, gone, BEFORE), self._shown(rows, there, there, AFTER)]
        )

    def _shown(self, rows: pa.Table, which: np.ndarray, cause: np.ndarray, sign: int) -> pa.Table:
        groups, caused = rows.take(pa.array(which)), rows.take(pa.array(cause))
        results = self.aggregates.finish(groups)
        internal = [name for name in INTERNAL.names if name != SIGN]
        columns = {name: groups[name] for name in (*self.by, *KEYS.names)} | {n: caused[n] for n in internal}
        columns |= {name: results[name] for name in self.columns.names if name in results}
        schema = delta_schema(self.columns)
        return signed(pa.table(columns), np.full(len(which), sign)).select(schema.names).cast(schema)

    def _gained(self, rows: pa.Table, new: np.ndarray) -> pa.Table:
        codes = group(rows[KEY]).codes
        last = last_of_each(codes, np.arange(len(codes)))
        rows = rows.take(pa.array(last[new[last]]))
        rows = rows.append_column(DELETED, pc.equal(rows[ROWS_N], 0))
        schema = self.state[self._state].schema
        return rows.select(schema.names).cast(schema)


ROWS_N = f"__{ROWS}_n"


def _in_order(known: pa.Table, adds: pa.Table, *, per_commit: bool) -> tuple[pa.Table, np.ndarray]:
    """Partials by group, those known first, then by commit; and which are new."""
    names = [name for name in adds.column_names if name in known.column_names]
    rows = pa.concat_tables([known.select(names), adds], promote_options="default").combine_chunks()
    at = np.concatenate([np.full(known.num_rows, LOWEST), commits(adds, per_commit=per_commit)])
    sequence = order(group(rows[KEY]).codes, at)
    return rows.take(pa.array(sequence)), sequence >= known.num_rows
