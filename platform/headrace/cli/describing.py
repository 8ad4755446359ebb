"""`headrace describe`: what nodes are made of."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli.options import DEFAULTS, Pipeline
from headrace.cli.telling import tell
from headrace.description import Node, describe
from headrace.settings import load_pipeline


def describe_nodes(
    node: Annotated[list[str] | None, typer.Argument(help="Nodes; all by default.")] = None,
    mermaid: Annotated[bool, typer.Option(help="A picture, as a flow chart in Mermaid's language.")] = False,
    pipeline: Pipeline = DEFAULTS.pipeline,
) -> None:
    """Show the steps of nodes, from their tables back to the topics. Nothing is started."""
    nodes = {each.required_name: each for each in load_pipeline(pipeline)}
    unknown = [name for name in node or () if name not in nodes]
    if unknown:
        raise typer.BadParameter(
            f"no node {unknown[0]!r} in {pipeline}; there are: {', '.join(sorted(nodes))}"
        )
    wanted = [nodes[name] for name in node or nodes]
    found = describe(*wanted)
    tell(found.mermaid if mermaid else found, nodes=[*map(_facts, wanted)], mermaid=found.mermaid)


def _facts(node: Node) -> dict[str, Any]:
    return {
        "name": node.required_name,
        "description": node.description,
        "says": node.in_words,
        "columns": node.columns,
        "topics": [topic.name for topic in node.topics],
        "sinks": [sink.name for sink in node.sinks],
        "fingerprint": node.fingerprint(),
    }
