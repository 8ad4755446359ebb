"""The parts of a description that alter no row: texts, owners, sinks, how often a table is worked out, bounds."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headrace.description.limits import is_suppressed, policy_of

if TYPE_CHECKING:
    from headrace.description.node import Node


def remarks_of(node: Node) -> dict[str, Any]:
    """The remarks of a node, as JSON. A lake keeps them beside the rules, so that a change of them can be told."""
    return {
        "description": node.description,
        "owners": list(node.owners),
        "sinks": [sink.name for sink in node.sinks],
        "throttle_ms": node.throttle_ms,
        "bound": asdict(policy_of(node).bound) if is_suppressed(node) else None,
    }
