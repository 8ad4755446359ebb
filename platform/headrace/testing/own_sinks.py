"""Nodes without the sinks that need a server: a test has none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.description import Node


def without_servers(node: Node) -> Node:
    """The node, delivering only to sinks of the user's own classes. Its tables and its log are the same."""
    own = tuple(sink for sink in node.sinks if not getattr(sink, "of_a_server", False))
    return node if len(own) == len(node.sinks) else replace(node, sinks=own)
