"""`headrace describe`: what nodes are made of."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli.node_named import node_named
from headrace.cli.options import DEFAULTS, Pipeline
from headrace.cli.telling import report
from headrace.description import Node, describe
from headrace.settings import load_pipeline


def describe_nodes(
    node: Annotated[list[str] | None, typer.Argument(help="Nodes; all by default.")] = None,
    mermaid: Annotated[bool, typer.Option(help="A picture, as a flow chart in Mermaid's language.")] = False,
    pipeline: Pipeline = DEFAULTS.pipeline,
) -> None:
    """Show the steps of nodes, from their tables back to the topics. Nothing is started."""
    wanted = [node_named(name, pipeline) for name in node] if node else load_pipeline(pipeline)
    found = describe(*wanted)
    report(found.mermaid if mermaid else found, nodes=[*map(_facts, wanted)], mermaid=found.mermaid)


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
