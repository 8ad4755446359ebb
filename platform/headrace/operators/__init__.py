"""Operators: folds of the log, as verbs on DataFrames. None of them knows how the log was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.description import (
    Batches,
    Join,
    Lookup,
    RunningAggregate,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    Table,
    TableAggregate,
    TimeWindows,
    WindowedAggregate,
)
from headrace.description.lookup import EVENT, LOG
from headrace.operators.batches import BatchOperator
from headrace.operators.lookups import EventLookupOperator, LookupOperator
from headrace.operators.relations import RelationOperator
from headrace.operators.running import RunningOperator
from headrace.operators.sessions import SessionOperator
from headrace.operators.sliding import SlidingOperator
from headrace.operators.suppression import SuppressionOperator
from headrace.operators.tables import TableOperator
from headrace.operators.windows import WindowOperator

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.operators.operator import Operator

OPERATORS: dict[type[Node], type[Operator[Any]]] = {
    RunningAggregate: RunningOperator,
    Batches: BatchOperator,
    Table: TableOperator,
    Join: RelationOperator,
    TableAggregate: RelationOperator,
    Suppressed: SuppressionOperator,
}

OF_WINDOWS: dict[type, type[Operator[WindowedAggregate]]] = {
    TimeWindows: WindowOperator,
    SessionWindows: SessionOperator,
    SlidingWindows: SlidingOperator,
}

OF_LOOKUPS: dict[str, type[Operator[Lookup]]] = {LOG: LookupOperator, EVENT: EventLookupOperator}


def operator_of(node: Node) -> Operator[Any]:
    """The operator that runs a node; that of a windowed aggregate goes by its windows, of a lookup by what it is as of."""
    if isinstance(node, WindowedAggregate):
        return OF_WINDOWS[type(node.window)](node)
    if isinstance(node, Lookup):
        return OF_LOOKUPS[node.as_of](node)
    return OPERATORS[type(node)](node)
