"""Records of both streams in one table of rows, so that they can be brought together by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import StreamJoin
from headrace.description.join import INNER
from headrace.description.stream_join import OUTER
from headrace.errors import DescriptionError
from headrace.fold.contract import CAUSE, EVENT, FATE, ROW_COLUMNS, STREAM, Clock
from headrace.fold.fates import FILTERED, KEPT, LATE, with_column
from headrace.fold.lookups.sides import SIDE, rows_of_side
from headrace.fold.segments import NO_TIME, ms_or_no_time
from headrace.fold.values.columns import int64

LEFT, RIGHT = 0, 1  # values of SIDE


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
        for on_left, on_right in zip(node.on, node.right_on, strict=True):
            types = left.field(on_left).type, right.field(on_right).type
            if types[0] != types[1]:
                raise DescriptionError(
                    f"join: '{on_left}' is {types[0]} on the left and {types[1]} on the right.",
                    hint=f"Cast one of them before: .with_column('{on_left}', 'CAST({on_left} AS …)').",
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

    @property
    def causes(self) -> tuple[str, ...]:
        """CAUSE, if a node writes a topic of either side; else no column."""
        return (CAUSE,) if CAUSE in self.rows.names else ()

    def decide(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """Both sides in one table, with FATE completed.

        In:  rows of both streams, after their steps
        Law: row by row; no row is dropped. A record without a key is filtered, unless it leaves without a partner. One that
             has closed by its own stream time is late.
        """
        of_left = (*self.on, *self.left, *_row_columns(left))
        of_right = (*self.right, *_row_columns(right))
        keys = {name: right[own] for name, own in zip(self.on, self.right_on, strict=True)}
        sides = [
            self._table(LEFT, {name: left[name] for name in of_left}, len(left)),
            self._table(RIGHT, keys | {name: right[name] for name in of_right}, len(right)),
        ]
        return self._decided(pa.concat_tables(sides))

    def has_key(self, rows: pa.Table) -> np.ndarray:
        """Which rows have no null in their key."""
        has_key = np.ones(rows.num_rows, bool)
        for name in self.on:
            if rows[name].null_count:
                has_key &= rows[name].is_valid().to_numpy()
        return has_key

    def closes_ms(self, rows: pa.Table) -> np.ndarray:
        """The stream time at which each row closes. A row without an event time never closes."""
        open_ms = np.array(self.open_ms, np.int64)[int64(rows[SIDE])]
        return np.asarray(int64(rows[EVENT], -NO_TIME) + open_ms)

    def is_closed(self, rows: pa.Table, clock: Clock) -> pa.Array:
        """Which records no record after a clock can have as its partner."""
        return pa.array(self.closes_ms(rows) <= lowest_ms(clock))

    def _decided(self, rows: pa.Table) -> pa.Table:
        no_partner = pa.array(~self.has_key(rows) & ~np.isin(rows[SIDE].to_numpy(), self.alone))
        late = pa.array(self.closes_ms(rows) <= int64(rows[STREAM], NO_TIME))
        fates = pc.if_else(no_partner, FILTERED, pc.if_else(late, LATE, KEPT))
        return with_column(rows, FATE, pc.coalesce(rows[FATE], fates))

    def _table(self, side: int, columns: Mapping[str, pa.ChunkedArray], rows: int) -> pa.Table:
        """Rows of one side as `rows` has them; the columns of the other side are null."""
        return rows_of_side(self.rows, side, columns, rows)


def lowest_ms(clock: Clock) -> int:
    """The lowest stream time of the node; NO_TIME until there is one."""
    return ms_or_no_time(clock.lowest_ms)


def _row_columns(rows: pa.Table) -> list[str]:
    return [*ROW_COLUMNS.names, *([CAUSE] if CAUSE in rows.column_names else [])]
