"""Records of both streams in one table of rows, so that they can be brought together by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import StreamJoin
from headrace.description.join import INNER
from headrace.description.stream_join import OUTER
from headrace.errors import DescriptionError
from headrace.fold.contract import CAUSE, EVENT, FATE, ROW_COLUMNS, STREAM
from headrace.fold.fates import FILTERED, KEPT, LATE, with_column

SIDE = "__side"
LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class BothSides:
    """The two sides of a join of streams.

    on         columns of the key in the left stream; `right_on`: in the right stream
    left       the other columns of the left stream; `right`: of the right stream
    before_ms  how much earlier than a left record its right partner may be; after_ms: how much later
    open_ms    how long after its event time a record stays open, in stream time: a left record, and a right record
    alone      the sides whose records also leave without a partner
    rows       columns of the rows that `decide` gives: SIDE, `on`, `left`, `right`, ROW_COLUMNS, and CAUSE if a side has it
    shared     whether a topic is on both sides, so that its records are there twice
    """

    on: tuple[str, ...]
    right_on: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    before_ms: int
    after_ms: int
    open_ms: tuple[int, int]
    alone: tuple[int, ...]
    rows: pa.Schema
    shared: bool = False

    @classmethod
    def of(cls, node: StreamJoin, left: pa.Schema, right: pa.Schema) -> BothSides:
        """The sides of a node.

        In:     the schemas of the rows of both feeds
        Raises: DescriptionError if the types of a key's column differ
        """
        for mine, theirs in zip(node.on, node.right_on, strict=True):
            types = left.field(mine).type, right.field(theirs).type
            if types[0] != types[1]:
                raise DescriptionError(
                    f"join: '{mine}' is {types[0]} on the left and {types[1]} on the right.",
                    hint=f"Cast one of them before: .with_column('{mine}', 'CAST({mine} AS …)').",
                )
        fields = [pa.field(SIDE, pa.int8())]
        fields += [left.field(name) for name in (*node.on, *node.left_values)]
        fields += [right.field(name) for name in node.right_values]
        caused = [side.field(CAUSE) for side in (left, right) if CAUSE in side.names]
        schema = pa.schema([field.with_nullable(True) for field in (*fields, *ROW_COLUMNS, *caused[:1])])
        alone = () if node.how == INNER else (LEFT, RIGHT) if node.how == OUTER else (LEFT,)
        return cls(
            node.on,
            node.right_on,
            node.left_values,
            node.right_values,
            node.before_ms,
            node.after_ms,
            node.waits_ms,
            alone,
            schema,
            node.shares_topics,
        )

    def decide(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """Both sides in one table, with FATE completed.

        In:  rows of both streams, after their steps
        Law: row by row; no row is dropped. A record without a key is filtered, unless it leaves without a partner.
        """
        own, other = (
            [*ROW_COLUMNS.names, *([CAUSE] if CAUSE in rows.column_names else [])] for rows in (left, right)
        )
        mine = {name: left[name] for name in (*self.on, *self.left, *own)}
        theirs = {name: right[name] for name in (*self.right, *other)}
        theirs |= {name: right[own] for name, own in zip(self.on, self.right_on, strict=True)}
        rows = pa.concat_tables([self._table(LEFT, mine, len(left)), self._table(RIGHT, theirs, len(right))])
        return self._decided(rows)

    def has_key(self, rows: pa.Table) -> np.ndarray:
        """Which rows have no null in their key."""
        found = np.ones(rows.num_rows, bool)
        for name in self.on:
            if rows[name].null_count:
                found &= rows[name].is_valid().to_numpy()
        return found

    def open_of(self, rows: pa.Table) -> pa.Array:
        """How long each row is open after its event time."""
        return pa.array(np.array(self.open_ms, np.int64)[values(rows, SIDE)])

    def _decided(self, rows: pa.Table) -> pa.Table:
        undecided = rows[FATE].is_null()
        closed = pc.fill_null(pc.less_equal(pc.add(rows[EVENT], self.open_of(rows)), rows[STREAM]), False)
        lost = ~self.has_key(rows) & ~np.isin(rows[SIDE].to_numpy(), self.alone)
        own = pc.if_else(pa.array(lost), FILTERED, pc.if_else(closed, LATE, KEPT))
        return with_column(rows, FATE, pc.if_else(undecided, own, rows[FATE]))

    def _table(self, side: int, columns: Mapping[str, pa.ChunkedArray], rows: int) -> pa.Table:
        known = {**columns, SIDE: pa.array(np.full(rows, side, np.int8))}
        found = [
            known[field.name].cast(field.type) if field.name in known else pa.nulls(rows, field.type)
            for field in self.rows
        ]
        return pa.table(found, schema=self.rows)


def values(rows: pa.Table, name: str) -> np.ndarray:
    """A column of whole numbers without nulls."""
    found: np.ndarray = rows[name].to_numpy()
    return found


def taken(rows: pa.Table, names: Sequence[str], which: np.ndarray) -> dict[str, pa.ChunkedArray]:
    """Some columns of some rows."""
    found = rows.select([*names]).take(pa.array(which, pa.int64()))
    return dict(zip(found.column_names, found.columns, strict=True))
