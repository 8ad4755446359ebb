"""Operators: folds of the log, as verbs on DataFrames. None of them knows how the log was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.description import Batches, Join, RunningAggregate, Suppressed, Table, WindowedAggregate
from headrace.operators.batches import BatchOperator
from headrace.operators.joins import JoinOperator
from headrace.operators.running import RunningOperator
from headrace.operators.suppression import SuppressionOperator
from headrace.operators.tables import TableOperator
from headrace.operators.windows import WindowOperator

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.operators.operator import Operator

OPERATORS: dict[type[Node], type[Operator[Any]]] = {
    WindowedAggregate: WindowOperator,
    RunningAggregate: RunningOperator,
    Batches: BatchOperator,
    Table: TableOperator,
    Join: JoinOperator,
    Suppressed: SuppressionOperator,
}


def operator_of(node: Node) -> Operator[Any]:
    """The operator that runs a node."""
    return OPERATORS[type(node)](node)
