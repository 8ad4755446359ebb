"""The operator of each kind of node. Its module is imported when a node of that kind is asked about."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.description import WindowedAggregate

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.operators.contract import Operator

# The class of a node, or of a windowed aggregate's windows -> folder, and class of the operator.
KINDS = {
    "Batches": ("batches", "Batches"),
    "CalendarWindows": ("windows", "Windows"),
    "Distinct": ("distinct", "DistinctRecords"),
    "FlatMapped": ("flat_maps", "FlatMaps"),
    "Join": ("relations", "Relations"),
    "Lookup": ("lookups", "Lookups"),
    "Merged": ("merges", "Merges"),
    "NamedStream": ("records", "Records"),
    "Processed": ("processors", "Processors"),
    "Refined": ("relations", "Relations"),
    "RunningAggregate": ("totals", "Totals"),
    "SessionWindows": ("sessions", "Sessions"),
    "SlidingWindows": ("windows", "Windows"),
    "StreamJoin": ("stream_joins", "StreamJoins"),
    "Suppressed": ("time_limits", "TimeLimits"),
    "Table": ("tables", "Tables"),
    "TableAggregate": ("relations", "Relations"),
    "TableChanges": ("changes", "Changes"),
    "TimeWindows": ("windows", "Windows"),
}


def operator_for(node: Node) -> Operator[Any]:
    """The operator of a node."""
    made: Operator[Any] = getattr(part_of(node, "operator"), KINDS[_kind(node)][1])(node)
    return made


def part_of(node: Node, part: str) -> Any:
    """The module of a node's operator. In: part  "operator"; or "oracle", with `results`."""
    return import_module(f"headrace.operators.{KINDS[_kind(node)][0]}.{part}")


def _kind(node: Node) -> str:
    return type(node.window if isinstance(node, WindowedAggregate) else node).__name__
