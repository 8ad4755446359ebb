"""Steps of a chain that nobody named: each is a node with a log of its own, which people do not see.

Its name follows from its description. So equal steps of one pipeline are one node, and a process finds it again.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.description.wording import listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.node import Node

PREFIX = "unnamed_"
_NAME = re.compile(rf"{PREFIX}[0-9a-f]{{12}}")


def under_a_name(node: Node) -> Node:
    """The node itself if it has a name; else the same under the name that follows from its description.

    Raises: DescriptionError when it has a sink and no name
    """
    if node.name is not None:
        return node
    if node.sinks:
        raise DescriptionError(
            f"A step of this chain has no name, and delivers to {listed([sink.name for sink in node.sinks])}.",
            hint="Add .named('…') before the chain goes on.",
        )
    return replace(
        node, name=f"{PREFIX}{node.fingerprint()[:12]}", description="", owners=(), expectations=()
    )


def refuse_clashes(nodes: Sequence[Node]) -> None:
    """Raise DescriptionError when two nodes have one name, or deliver to one store that takes the rows of one node alone.

    A name is that of a table, and of its assets. In one table of PostgreSQL each node would delete the other's rows.
    """
    names = [node.name for node in nodes if node.name is not None]
    for name in sorted(names):
        if names.count(name) > 1:
            raise DescriptionError(
                f"Two nodes are named {name!r}.", hint="Give each its own name with .named(…)."
            )
    owners: dict[Hashable, Node] = {}
    for node, sink in ((each, sink) for each in nodes for sink in each.sinks):
        store = getattr(sink, "exclusive_store", None)
        if store is not None and (other := owners.setdefault(store, node)) is not node:
            raise DescriptionError(
                f"Nodes {listed([repr(each.name) for each in (other, node)])} deliver to one store, {sink.name}: each would "
                "replace and delete the other's rows.",
                hint="Give each a store of its own; a view of the database can bring them together.",
            )


def is_unnamed(name: str) -> bool:
    """True for the name of a step that nobody named."""
    return _NAME.fullmatch(name) is not None


def with_unnamed(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, and before each the steps without a name that it reads, each once."""
    from headrace.description.node_output import written_by  # it makes such names itself

    found: list[Node] = []
    known: set[str] = set()

    def add(node: Node) -> None:
        if is_unnamed(node.required_name):
            if node.required_name in known:
                return
            known.add(node.required_name)
        for topic in node.topics:
            step = written_by(topic)
            if step is not None and is_unnamed(step.required_name):
                add(step)
        found.append(node)

    for node in nodes:
        add(node)
    return found
