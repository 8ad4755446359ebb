"""`headrace describe`: what nodes are made of."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.options import DEFAULTS, Pipeline
from headrace.cli.console.telling import report
from headrace.description import Node, describe
from headrace.observe.previews.preview import preview


def describe_nodes(
    node: Annotated[list[str] | None, typer.Argument(help="Nodes; all by default.")] = None,
    mermaid: Annotated[bool, typer.Option(help="A picture, as a flow chart in Mermaid's language.")] = False,
    pipeline: Pipeline = DEFAULTS.pipeline,
) -> None:
    """Show the steps of nodes, from their tables back to the topics. Nothing is started."""
    deployment = Deployment(pipeline)
    wanted = [deployment.node(name) for name in node] if node else deployment.nodes
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


def preview_node(
    node: Annotated[str, typer.Argument(help="The node to look at.")],
    records: Annotated[
        int,
        typer.Option(
            min=1, help="Records from each topic's log; without a log, from each of Kafka's partitions."
        ),
    ] = 20,
    deployment: Deployment = USUAL,
) -> None:
    """Run a node over the newest records of its topics and show the rows after each step. Nothing is written.

    A topic that has no log in the lake is read from Kafka. Streams may run meanwhile.
    """
    report(preview(deployment.node(node), records, lake=deployment.lake_root))
