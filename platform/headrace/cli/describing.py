"""`headrace describe`: what nodes are made of."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.options import DEFAULTS, Pipeline
from headrace.description import describe
from headrace.settings import load_pipeline


def describe_nodes(
    node: Annotated[list[str] | None, typer.Argument(help="Nodes; all by default.")] = None,
    mermaid: Annotated[bool, typer.Option(help="A picture, as a flow chart in Mermaid's language.")] = False,
    pipeline: Pipeline = DEFAULTS.pipeline,
) -> None:
    """Say what nodes are made of, from their tables back to the topics. Nothing is started."""
    nodes = {each.required_name: each for each in load_pipeline(pipeline)}
    unknown = [name for name in node or () if name not in nodes]
    if unknown:
        raise typer.BadParameter(
            f"no node {unknown[0]!r} in {pipeline}; there are: {', '.join(sorted(nodes))}"
        )
    found = describe(*(nodes[name] for name in node or nodes))
    typer.echo(found.mermaid if mermaid else str(found))
