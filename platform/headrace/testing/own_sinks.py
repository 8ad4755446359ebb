"""Nodes without the sinks that need a server: a test has none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.nodes.descriptions.topics import upstream_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description import Node


def nodes_by_name(nodes: Sequence[Node], *, reaches_servers: bool) -> dict[str, Node]:
    """The nodes by their names, each after those that it reads. In: reaches_servers  False: as `without_servers`."""
    return {
        node.required_name: node if reaches_servers else without_servers(node)
        for node in upstream_first(nodes)
    }


def without_servers(node: Node) -> Node:
    """The node, delivering only to sinks of the user's own classes. Its tables and its log are the same."""
    own = tuple(sink for sink in node.sinks if not getattr(sink, "of_a_server", False))
    return node if len(own) == len(node.sinks) else replace(node, sinks=own)
