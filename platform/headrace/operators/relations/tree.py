"""A relation as a tree: its sides, theirs, and so on down to folds of logs."""

from __future__ import annotations

from headrace.description import Join, Relation, RunningAggregate, Table, TableAggregate, WindowedAggregate
from headrace.operators.relations.grouped import GroupedSide
from headrace.operators.relations.sides import JoinSide, Side, TableSide
from headrace.operators.relations.store import RESULT
from headrace.operators.relations.totals import TotalsSide, WindowsSide


def side_of(node: Relation, part: str = RESULT) -> Side:
    """A relation as a side; the parts below are named after its own, the outermost lends them none."""
    prefix = "" if part == RESULT else f"{part}_"
    match node:
        case Table():
            return TableSide(node, part)
        case RunningAggregate():
            return TotalsSide(node, part)
        case WindowedAggregate():
            return WindowsSide(node, part)
        case Join():
            return JoinSide(
                node, part, side_of(node.left, f"{prefix}left"), side_of(node.right, f"{prefix}right")
            )
        case TableAggregate():
            return GroupedSide(node, part, side_of(node.table, f"{prefix}rows"))
    raise AssertionError(f"a relation of another kind: {type(node)}")
