"""The cells that cannot occur, each with its sentence; and the store that stands for each sink."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from headrace.description import Node, Suppressed
from headrace.operators.registry import operator_for
from tests.matrix.kinds import nodes
from tests.matrix.stores import KeyedStore, Store

SORTS: Mapping[str, type[Store]] = {"KafkaSink": Store, "PostgresSink": KeyedStore, "each": Store}


@cache
def impossible(operation: str, kind: str) -> str:
    """Why an operation cannot meet a kind of node; empty: it can."""
    node = _nodes()[kind]
    if operation == "set-limits" and not isinstance(node, Suppressed):
        return "Only a node with a time limit has limits that a person can set; the command refuses others."
    if operation == "retain" and (why := operator_for(node).uncuttable):
        return f"The log of such a node cannot be cut, and `retain` refuses it: {why}."
    return ""


@cache
def _nodes() -> Mapping[str, Node]:
    return nodes()
