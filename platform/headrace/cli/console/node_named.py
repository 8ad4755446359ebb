"""The nodes of a pipeline by their names, as people give them to commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headrace.description import is_unnamed, with_unnamed
from headrace.nodes.descriptions.asset_names import stream_name
from headrace.settings import load_pipeline

if TYPE_CHECKING:
    from headrace.description import Node, Topic


def topic_or_node(name: str, pipeline: str) -> Topic | Node:
    """The topic or the node of a name. `log/<topic>` and `stream/<node>_stream`, as `headrace status` shows them, say which.

    Raises: typer.BadParameter when there is neither, with the names that there are
    """
    from headrace.nodes.descriptions.topics import topics_of

    nodes = load_pipeline(pipeline)
    topics = topics_of(nodes)
    kind, _, rest = name.rpartition("/")
    if kind in ("", "log") and rest in topics:
        return topics[rest]
    if node := next((each for each in with_unnamed(nodes) if name in _names(each)), None):
        return node
    known = [*(f"log/{each}" for each in topics), *(stream_name(each.required_name) for each in nodes)]
    raise typer.BadParameter(f"no topic and no node {name!r} in {pipeline}; there are: {', '.join(known)}")


def _names(node: Node) -> tuple[str, str]:
    return node.required_name, stream_name(node.required_name)


def node_named(name: str, pipeline: str) -> Node:
    """The node of a pipeline that has this name; a step without a name has the one that the lake knows it by.

    Raises: typer.BadParameter when there is none, with the names that there are
    """
    nodes = {node.required_name: node for node in with_unnamed(load_pipeline(pipeline))}
    if name not in nodes:
        known = ", ".join(sorted(each for each in nodes if not is_unnamed(each)))
        raise typer.BadParameter(f"no node {name!r} in {pipeline}; there are: {known}")
    return nodes[name]
