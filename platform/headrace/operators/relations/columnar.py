"""Foreign-key joins of tables by Arrow: what `RelationOperator.fold` does, behind the fates that Spark decides.

The rows of all tables come in one frame. As many columns as the widest of them has of a type are shared by all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import Join, Table, quote
from headrace.description.join import INNER
from headrace.operators.columnar import Columnar, ColumnarFold, Found
from headrace.operators.columnar.fold import tallied
from headrace.operators.columnar.places import sorted_topics
from headrace.operators.relations.arrow_sides import ArrowJoin, ArrowTable
from headrace.operators.relations.held import HeldRows
from headrace.operators.relations.sides import JoinSide, TableSide
from headrace.operators.tables.columnar import (
    columnar_rows,
    decided_columns,
)
from headrace.spark.frames import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.operators.columnar import HeldFiles
    from headrace.operators.progress import Progress
    from headrace.operators.relations.arrow_sides import ArrowSide
    from headrace.operators.relations.sides import Leaf, Side


def columnar_relation(root: Side, state: StructType) -> Columnar | None:
    """How the increments of a node are folded; None: Spark has to.

    In: root   of its sides, whose topics are read by one of them each
        state  the schema of its state
    """
    topics = sorted_topics([topic.name for leaf in root.leaves for topic in leaf.node.topics])
    side = _side_of(root, state)
    if side is None:
        return None
    leaves = [*root.leaves]
    wanted = [decided_columns(leaf.node, topics) for leaf in leaves if isinstance(leaf.node, Table)]
    shared = [_shared(leaf, _row(state, leaf.part)) for leaf in leaves]
    selections = [Selection(*_renamed(columns, names)) for columns, names in zip(wanted, shared, strict=True)]
    tables = {
        leaf.part: Decided(
            {ours: theirs for theirs, ours in names.items()},
            tuple(topics.index(topic.name) for topic in leaf.node.topics),
        )
        for leaf, names in zip(leaves, shared, strict=True)
    }

    def rows(logs: Mapping[str, DataFrame]) -> DataFrame:
        frames = [
            selection.of(leaf.operator.decide(logs))
            for leaf, selection in zip(leaves, selections, strict=True)
        ]
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    return Columnar(ColumnarRelation(side, topics, tables), rows)


def _side_of(side: Side, state: StructType) -> ArrowSide | None:
    """The side as Arrow works it out; None: it cannot."""
    match side:
        case TableSide():
            assert isinstance(side.node, Table)
            rows = columnar_rows(side.node, _row(state, side.part))
            return None if rows is None else ArrowTable(side.part, rows, side.remembers)
        case JoinSide():
            sides = [_side_of(each, state) for each in (side.left, side.right)]
            values = _values(side.node)
            left, right = sides
            if left is None or right is None or values is None:
                return None
            return ArrowJoin(side.part, left, right, side.node.on, side.node.how == INNER, values)
    return None


def _row(state: StructType, part: str) -> StructType:
    """The columns of a part's rows."""
    columns = state[part].dataType
    assert isinstance(columns, T.StructType)
    return columns


def _values(node: Join) -> tuple[tuple[str, str, str], ...] | None:
    """Each value's name, and the side and the column that it repeats; None: one is computed."""
    if node.selection is None:
        left = [(name, "left", name) for name in node.left.values]
        return (*left, *((name, "right", name) for name in node.right.values))
    sides = {"left": node.left, "right": node.right}
    found = []
    for expression in node.selected:
        match expression.repeats:
            case (("left" | "right") as side, name):
                pass
            case (name,):
                side = "left" if name.lower() in {n.lower() for n in node.left.columns} else "right"
            case _:
                return None
        spelled = {column.lower(): column for column in sides[side].columns}.get(name.lower())
        if spelled is None:
            return None
        if expression.name not in node.identity:
            found.append((expression.name, side, spelled))
    return tuple(found)


def _shared(leaf: Leaf, columns: StructType) -> dict[str, str]:
    """For each column of a table the one that carries it: of each type so many as it has of it."""
    seen: Counter[str] = Counter()
    names = {}
    for name in (*leaf.node.identity, *leaf.node.values):
        kind = columns[name].dataType.simpleString()
        names[name] = f"{kind}:{seen[kind]}"
        seen[kind] += 1
    return names


def _renamed(columns: Sequence[Expr], names: Mapping[str, str]) -> list[Expr]:
    """`decided_columns` of a table under the names that carry them; the table's own come first."""
    carried = [F.col(quote(name)).alias(carrier) for name, carrier in names.items()]
    return [*carried, *columns[len(names) :]]


@dataclass(frozen=True)
class Decided:
    """Where the rows of a table are among all.

    columns  for each column that carries one of the table's that one
    topics   the table's, by number
    """

    columns: Mapping[str, str]
    topics: tuple[int, ...]

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows that are the table's, with its columns."""
        columns = [name for name in rows.column_names if name in self.columns or name.startswith("__")]
        mine = rows.select(columns).rename_columns([self.columns.get(name, name) for name in columns])
        row = np.flatnonzero(np.isin(rows["__source"].to_numpy(), self.topics))
        if not len(row) or row[-1] - row[0] == len(row) - 1:  # they lie together, and are not copied
            return mine.slice(row[0] if len(row) else 0, len(row))
        return mine.take(pa.array(row))


@dataclass(frozen=True)
class ColumnarRelation(ColumnarFold):
    """A tree of joins and tables as a node.

    topics  of all tables, as they are numbered
    tables  by their parts
    """

    root: ArrowSide
    topics: tuple[str, ...]
    tables: Mapping[str, Decided]

    def fold(self, rows: pa.Table, upto_ms: Mapping[str, int], held: HeldFiles, progress: Progress) -> Found:
        """See `RelationOperator.fold`."""
        after = progress.after(upto_ms, tallied(rows, self.topics), self.topics)
        rows_held = HeldRows(held, progress.batch, self.topics)
        self.root.changes({part: table.of(rows) for part, table in self.tables.items()}, rows_held)
        return Found(None, rows_held.as_state(), after)
