"""The changes of a join, by the key that left rows refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.fold.changes.deltas import SIGN, commits, picked
from headrace.fold.changes.ordering import int64, last_of_each, order
from headrace.fold.changes.station import (
    ByOwnKey,
    Ports,
    Route,
    Station,
    StationResult,
    newest_of,
    of_deleted,
)
from headrace.fold.contract import HASH, KEY, Needs, StateTable, Times
from headrace.fold.joins.refer import LEFT_KEY, ByForeignKey, refers_to_a_key
from headrace.fold.joins.side_state import FROM_STATE, as_state, known_rows
from headrace.fold.joins.sides import Sides, joined_columns
from headrace.fold.keys import combined, distinct_hashes


@dataclass
class ForeignKeyJoin(Station):
    """A join of two relations. State: left rows by the key that they refer to, and right rows by their key.

    part, left, right  names of the join and of its sides
    left_columns       of the left relation; right_columns: of the right one
    key, on            columns of the left relation: its key, and those that hold the key of the right one
    values             of the join beside its key: name, side (LEFT or RIGHT), column
    inner              left rows without a match are left out
    raw                the caller computes values from these, and has to know whether there was a match
    """

    part: str
    left: str
    right: str
    left_columns: pa.Schema
    right_columns: pa.Schema
    key: tuple[str, ...]
    on: tuple[str, ...]
    values: tuple[tuple[str, str, str], ...]
    inner: bool
    raw: bool = False
    per_commit: bool = True
    threads = True

    def __post_init__(self) -> None:
        refer = ByForeignKey(self.on, self.inner)
        self.routes: Mapping[str, Route] = {self.left: refer, self.right: ByOwnKey()}
        self.columns = joined_columns(self)
        left = pa.schema([*refer.columns(self.left_columns), *FROM_STATE])
        right = pa.schema([*self.right_columns, *FROM_STATE])
        self.state: Mapping[str, StateTable] = {
            self._left_state: StateTable(
                left, (HASH, KEY, LEFT_KEY), newest_of(KEY, LEFT_KEY), expired=of_deleted
            ),
            self._right_state: StateTable(right, (HASH, KEY), newest_of(KEY), expired=of_deleted),
        }

    def needs(self, ports: Ports, times: Times) -> Mapping[str, Needs]:
        """Right rows that change or are referred to; left rows that refer to a right row that changes."""
        left, right = ports[self.left], ports[self.right]
        return {
            self._left_state: Needs(distinct_hashes(right)),
            self._right_state: Needs(distinct_hashes(left, right)),
        }

    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """See the package."""
        left, right = ports[self.left].combine_chunks(), ports[self.right].combine_chunks()
        known = (known_rows(state, name, table) for name, table in self.state.items())
        sides = Sides(self, left, right, *known)
        changes = {self._left_state: self._left_gains(sides), self._right_state: self._right_gains(sides)}
        return StationResult(sides.deltas(), changes)

    @property
    def _left_state(self) -> str:
        return f"{self.left}_by_reference"

    @property
    def _right_state(self) -> str:
        return f"{self.right}_by_key"

    def _left_gains(self, sides: Sides) -> pa.Table:
        rows, refers = sides.left, refers_to_a_key(sides.left, self.on)
        codes = combined(*(numbers[sides.known_left :][refers] for numbers in sides.left_codes)).codes
        rows = rows if refers.all() else rows.filter(pa.array(refers))
        by_commit = order(commits(rows, per_commit=self.per_commit), int64(rows[SIGN]))
        last = last_of_each(codes, by_commit)
        return as_state(picked(rows, last), self.state[self._left_state].schema)

    def _right_gains(self, sides: Sides) -> pa.Table:
        rows = sides.all_right.take(pa.array(sides.versions.last()))
        return as_state(rows, self.state[self._right_state].schema)
