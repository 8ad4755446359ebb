"""Where the oracle of a node's operator is: `headrace.operators.<operator>.oracle`, imported when it is asked for.

Each has `results(node, log)`. `driving(node)` names the topics whose stream time the node goes by, if not all do.
A relation has `rows_at(node, log, upto_ms, part)`, its rows after a log commit. Tables, totals and windows also have what a
time limit asks (see `operators.time_limits.oracle_updates`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.description import Node


def home_of(node: Node) -> Any:
    """The module with the oracle of a node. The registry alone names the operators."""
    return import_module("headrace.operators.registry").part_of(node, "oracle")
