"""The sides of a join, as its node's state holds them, and the rows that SQL makes of them: a proof beside the fold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.description.feeds import RESULT
from headrace.description.join import LEFT, OUTER
from headrace.engine.folding.spark_fold import computed_columns
from headrace.fold.contract import DELETED
from headrace.fold.joins import ForeignKeyJoin, OuterJoin
from headrace.fold.joins.refer import LEFT_KEY
from headrace.fold.relations import Relations
from headrace.fold.relations.leaf import TableStation
from headrace.fold.relations.station_step import StationStep
from headrace.nodes.bound_operator import bound
from headrace.nodes.rows import state_views
from headrace.nodes.rows.current_results import newest, rows_of_table
from headrace.nodes.rows.state_frames import StateFrame
from headrace.operators.relation_tree import selection_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace.description import Join
    from headrace.fold.changes.station import Selection
    from headrace.nodes.bound_operator import BoundOperator


@dataclass(frozen=True)
class JoinSides:
    """The sides of one node.

    refers  the state's table of left rows that refer to a key, and that of right rows
    left    the one with all left rows, also those that refer to none; None: there is none
    """

    of: BoundOperator
    node: Join
    state: DataFrame
    refers: tuple[str, str]
    left: str | None

    @classmethod
    def in_state(cls, state: DataFrame, node: Join) -> JoinSides:
        """The sides that a state holds."""
        of = bound(state.sparkSession, node)
        kernel = of.operator.kernel
        assert isinstance(kernel, Relations)
        stations = [s for step in kernel.steps if isinstance(step, StationStep) for s in step.stations]
        join = next(s for s in stations if isinstance(s, ForeignKeyJoin | OuterJoin) and s.part == RESULT)
        left, right = join.state
        tables = (s for s in stations if isinstance(s, TableStation) and s.part == join.left)
        whole = next((name for table in tables for name in table.state), None) if node.how != OUTER else None
        return cls(of, node, state, (left, right), whole)

    @property
    def are_whole(self) -> bool:
        """Whether left rows that refer to no key are there, too."""
        return self.left is not None or self.node.how != LEFT

    def rejoined(self) -> DataFrame:
        """The rows of the join anew, whatever stands in the result table: the node's columns, one row per left row."""
        node, carried = self.node, selection_of(self.node, RESULT, pa.schema([]))
        left = rows_of_table(self.state, self.left or self.refers[0])
        by_reference = not self.left and self.node.how != OUTER
        left = newest(left, LEFT_KEY) if by_reference else newest(left)
        right = newest(rows_of_table(self.state, self.refers[1]))
        mine, theirs = (
            rows.where(~F.col(DELETED)).select(*(F.col(quote(n)).alias(as_) for n, as_ in names.items()))
            for rows, names in ((left, carried.left), (right, carried.right))
        )
        pairs = zip(node.on, node.right.key, strict=True)
        same = (self._same(mine[quote(carried.left[a])], theirs[quote(carried.right[b])]) for a, b in pairs)
        both = mine.join(theirs, reduce(lambda one, other: one & other, same), node.how)
        values = carried.values
        if node.selection is None:
            values = {name: f"left.{quote(name)}" for name in node.left.values}
            values |= {name: f"right.{quote(name)}" for name in node.right.values}
        key = {name: f"{RESULT}:{name}" for name in node.key}
        whole = both.select("*", *(column.alias(key[name]) for name, column in self._keys(carried).items()))
        told = computed_columns({RESULT: replace(carried, values=values)}, whole)
        keys = (F.col(quote(carry)).alias(name) for name, carry in key.items())
        named = (F.col(quote(f"{RESULT}:{name}")).alias(name) for name in node.columns if name in values)
        return told.select(*keys, *named)

    def _same(self, own: Column, theirs: Column) -> Column:
        """A null refers to nothing; a full outer join has one row for each key, and null is a key."""
        return own.eqNullSafe(theirs) if self.node.how == OUTER else own == theirs

    def _keys(self, carried: Selection) -> dict[str, Column]:
        """The key columns of the join, of rows with those of both sides."""
        left = {name: F.col(quote(carried.left[name])) for name in self.node.key}
        if self.node.how != OUTER:
            return left
        pairs = zip(left.items(), self.node.right.key, strict=True)
        return {name: F.coalesce(mine, F.col(quote(carried.right[other]))) for (name, mine), other in pairs}

    def orphans(self) -> DataFrame:
        """The left rows that refer to a right row, with `__orphan`: that row does not exist."""
        return state_views.orphans(self.of, StateFrame(self.state), self.refers, self.node.key, self.node.on)
