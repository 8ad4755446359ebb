"""The nodes of a pipeline by their names, as people give them to commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headrace.description import is_unnamed, with_unnamed
from headrace.settings import load_pipeline

if TYPE_CHECKING:
    from headrace.description import Node


def node_named(name: str, pipeline: str) -> Node:
    """The node of a pipeline that has this name; a step without a name has the one that the lake knows it by.

    Raises: typer.BadParameter when there is none, with the names that there are
    """
    nodes = {node.required_name: node for node in with_unnamed(load_pipeline(pipeline))}
    if name not in nodes:
        known = ", ".join(sorted(each for each in nodes if not is_unnamed(each)))
        raise typer.BadParameter(f"no node {name!r} in {pipeline}; there are: {known}")
    return nodes[name]
