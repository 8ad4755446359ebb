"""Full outer joins of two tables by the key that both have.

Law (L16): the row of key k is f(L(k), R(k)), and it is there while one of them is. A commit touches k if it changes L(k) or
R(k). Its changes are f of both rows before it, and f of both rows after it.
Source: Kafka Streams, KTableKTableOuterJoin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.feeds import LEFT
from headrace.fold.changes.deltas import AFTER, BEFORE, SIGN, commits, delta_schema
from headrace.fold.changes.ordering import PLACE, places
from headrace.fold.changes.station import (
    ByOwnKey,
    Ports,
    Route,
    Station,
    StationResult,
    newest_of,
    of_deleted,
)
from headrace.fold.contract import EVENT, HASH, KEY, Needs, StateTable, Times
from headrace.fold.joins.side_state import FROM_STATE, as_state, known_rows
from headrace.fold.joins.sides import MATCHED, joined_columns, with_known
from headrace.fold.joins.timelines import NO_ROW, Moments, RightRows
from headrace.fold.keys import distinct_hashes, group
from headrace.fold.segments import distinct


@dataclass
class OuterJoin(Station):
    """A full outer join of two relations. State: the rows of each side by their key.

    part, left, right   names of the join and of its sides
    left_columns        of the left relation; right_columns: of the right one
    key, right_key      the key of the left relation, and that of the right one
    values, raw         see `ForeignKeyJoin`
    """

    part: str
    left: str
    right: str
    left_columns: pa.Schema
    right_columns: pa.Schema
    key: tuple[str, ...]
    right_key: tuple[str, ...]
    values: tuple[tuple[str, str, str], ...]
    raw: bool = False
    per_commit: bool = True
    threads = True

    def __post_init__(self) -> None:
        self.routes: Mapping[str, Route] = {self.left: ByOwnKey(), self.right: ByOwnKey()}
        self.columns = joined_columns(self)
        self.state: Mapping[str, StateTable] = {
            f"{side}_by_key": StateTable(
                pa.schema([*columns, *FROM_STATE]), (HASH, KEY), newest_of(KEY), expired=of_deleted
            )
            for side, columns in ((self.left, self.left_columns), (self.right, self.right_columns))
        }

    def needs(self, ports: Ports, times: Times) -> Mapping[str, Needs]:
        """The rows of both sides with the keys that change."""
        touched = distinct_hashes(ports[self.left], ports[self.right])
        return {name: Needs(touched) for name in self.state}

    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """See the module."""
        tables = ports[self.left], ports[self.right]
        known = [known_rows(state, name, of) for name, of in self.state.items()]
        sides = _sides(known, [rows.combine_chunks() for rows in tables], per_commit=self.per_commit)
        gains = zip(self.state.items(), sides, strict=True)
        changes = {name: as_state(side.last(), of.schema) for (name, of), side in gains}
        return StationResult(self._deltas(*sides), changes)

    def _deltas(self, left: _Side, right: _Side) -> pa.Table:
        """The changes of the keys that a side changes."""
        moment = distinct(np.concatenate([left.changes[0], right.changes[0]]))
        causes = _causes(moment, left, right)
        parts = []
        for sign in (BEFORE, AFTER):
            mine, theirs = (side.rows.at(moment, before=sign == BEFORE) for side in (left, right))
            there = np.flatnonzero((mine != NO_ROW) | (theirs != NO_ROW))
            parts.append(self._joined((left, mine[there]), (right, theirs[there]), sign, causes.take(there)))
        return pa.concat_tables(parts)

    def _joined(
        self,
        own: tuple[_Side, np.ndarray],
        theirs: tuple[_Side, np.ndarray],
        sign: int,
        causes: pa.Table,
    ) -> pa.Table:
        """Rows of both sides by number, at least one of each pair."""
        of_left, of_right = (side.table.take(pa.array(at, mask=at == NO_ROW)) for side, at in (own, theirs))
        columns = {
            name: pc.coalesce(of_left[name], of_right[other])
            for name, other in zip(self.key, self.right_key, strict=True)
        }
        for name, side, column in self.values:
            columns[name] = (of_left if side == LEFT else of_right)[column]
        if self.raw:
            columns[MATCHED] = pa.array(theirs[1] != NO_ROW)
        columns |= {name: pc.coalesce(of_left[name], of_right[name]) for name in (KEY, HASH)}
        columns[SIGN] = pa.array(np.full(len(own[1]), sign, np.int8))
        columns |= {name: causes[name] for name in PLACE}
        columns[EVENT] = causes[EVENT]
        if sign == AFTER:
            dated = [causes[EVENT]] if self.per_commit else []
            columns[EVENT] = pc.max_element_wise(of_left[EVENT], of_right[EVENT], *dated)
        schema = delta_schema(self.columns)
        return pa.table(columns).select(schema.names).cast(schema)


class _Side:
    """The rows of one side: those known from before, then those that come."""

    def __init__(self, table: pa.Table, moments: Moments, at: np.ndarray) -> None:
        self.table = table
        self.rows = RightRows(moments, at, table[SIGN].to_numpy())
        self.changes = self.rows.changes()

    def last(self) -> pa.Table:
        """The last row of each key that is not known from before."""
        return self.table.take(pa.array(self.rows.last()))


def _sides(known: Sequence[pa.Table], arrived: Sequence[pa.Table], *, per_commit: bool) -> list[_Side]:
    """Both sides, at common moments."""
    tables = [with_known(*pair) for pair in zip(known, arrived, strict=True)]
    keys = group(pa.chunked_array([chunk for t in tables for chunk in t[KEY].chunks], pa.binary())).codes
    new = [commits(rows, per_commit=per_commit) for rows in arrived]
    moments = Moments(distinct(np.concatenate(new)))
    found, begin = [], 0
    for table, rows, at in zip(tables, known, new, strict=True):
        mine, before = keys[begin : begin + table.num_rows], rows.num_rows
        at = np.concatenate([moments.of(mine[:before], None), moments.of(mine[before:], at)])
        found.append(_Side(table, moments, at))
        begin += table.num_rows
    return found


def _causes(moment: np.ndarray, left: _Side, right: _Side) -> pa.Table:
    """The place and event time of the cause of each change of a key. If both sides changed in one commit, the later row."""
    rows = [side.table.take(pa.array(side.changes[1])).select([EVENT, *PLACE]) for side in (left, right)]
    both = pa.concat_tables(rows).combine_chunks()
    rank, of_left = places(both), rows[0].num_rows
    mine, theirs = (np.full(len(moment), NO_ROW, np.int64) for _ in range(2))
    mine[np.searchsorted(moment, left.changes[0])] = np.arange(of_left)
    theirs[np.searchsorted(moment, right.changes[0])] = np.arange(of_left, both.num_rows)
    later = (theirs == NO_ROW) | ((mine != NO_ROW) & (rank[mine] > rank[theirs]))
    return both.take(pa.array(np.where(later, mine, theirs)))
