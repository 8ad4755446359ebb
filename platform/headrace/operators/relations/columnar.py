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
from headrace.operators.columnar import Columnar, ComputedFold, Found, Sql
from headrace.operators.columnar.fold import REPORT, tallied
from headrace.operators.columnar.places import PLACE_TYPES, sorted_topics
from headrace.operators.relations.arrow_sides import MATCHED, ArrowJoin, ArrowTable
from headrace.operators.relations.held import HeldRows
from headrace.operators.relations.sides import CAUSE, JoinSide, TableSide
from headrace.operators.relations.store import RESULT
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

    sql = _sql_of(root, state) if isinstance(side, ArrowJoin) and side.values is None else None
    return Columnar(ColumnarRelation(side, topics, tables), rows, sql)


def _sql_of(join: Side, state: StructType) -> Sql:
    """How Spark computes the values of a join."""
    assert isinstance(join, JoinSide)
    sides = {
        name: [field for field in _row(state, side.part) if field.name not in ("__deleted", *CAUSE)]
        for name, side in (("left", join.left), ("right", join.right))
    }
    left, right = (
        F.struct(*(F.col(quote(f"{name}:{field.name}")).alias(field.name) for field in fields))
        for name, fields in sides.items()
    )
    types = {"__deleted": T.BooleanType(), "__event_ms": T.LongType(), **PLACE_TYPES}
    internal = [F.col(name) for name in (*types, REPORT)]
    both = Selection(left.alias("left"), F.when(F.col(MATCHED), right).alias("right"), *internal)
    unambiguous = Selection(F.col("*"), *(column.alias(name) for name, column in join.unambiguous.items()))
    found = Selection(*join.keys, *join.computed, *internal)
    columns = [
        *(T.StructField(f"{name}:{f.name}", f.dataType) for name, fields in sides.items() for f in fields),
        T.StructField(MATCHED, T.BooleanType()),
        *(T.StructField(name, of) for name, of in types.items()),
        T.StructField(REPORT, T.StringType()),
    ]
    return Sql(T.StructType(columns), lambda rows: found.of(unambiguous.of(both.of(rows))))


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
            if left is None or right is None or (values is None and side.part != RESULT):
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
class ColumnarRelation(ComputedFold):
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
        for_sql = None
        if isinstance(self.root, ArrowJoin) and self.root.values is None:
            for_sql = rows_held.changes.pop(RESULT)
        return Found(None, rows_held.as_state(), after, for_sql=for_sql)

    def computed(self, rows: pa.Table, held: HeldFiles) -> Sequence[pa.Table]:
        """The rows of the result."""
        rows_held = HeldRows(held, 0, self.topics)
        rows_held.changes[RESULT] = rows
        return rows_held.as_state()
