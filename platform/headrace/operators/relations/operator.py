"""Joins of tables, groups of tables, and tables after steps."""

from __future__ import annotations

from headrace.description import Join, Refined, TableAggregate
from headrace.operators.contract import OfNode


class Relations(OfNode[Join | Refined | TableAggregate]):
    """Current rows that follow from other tables; both sides of a join drive."""
