"""`headrace pause` and `headrace resume`: one node of a stream rests."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.node_named import node_named
from headrace.cli.options import DEFAULTS, Pipeline, Root
from headrace.cli.telling import report
from headrace.lake.paths import Lake
from headrace.streams.pausing import pause, resume


def pause_node(
    node: Annotated[str, typer.Argument(help="The node to pause.")],
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Pause one node while the others of its stream go on. A restart keeps the pause, until `headrace resume`."""
    pause(Lake(lake), node_named(node, pipeline).required_name)
    told = f"Node '{node}' is paused: a running stream follows within seconds. Its logs go on."
    report(told, node=node, paused=True)


def resume_node(
    node: Annotated[str, typer.Argument(help="The node to resume.")],
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Let a paused node go on. It folds all records that its logs have got meanwhile."""
    rested = resume(Lake(lake), node_named(node, pipeline).required_name)
    report(f"Node '{node}' {'goes on' if rested else 'was not paused'}.", node=node, was_paused=rested)
