"""`headrace pause` and `headrace resume`: one node of a stream rests."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Annotated

import typer

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.options import DEFAULTS, Root
from headrace.cli.console.telling import report


def pause_node(
    node: Annotated[str, typer.Argument(help="The node to pause.")],
    deployment: Deployment = USUAL,
) -> None:
    """Pause one node while the others of its stream go on. A restart keeps the pause, until `headrace resume`."""
    from headrace.streams.pausing import pause

    pause(deployment.lake, deployment.node(node).required_name)
    told = f"Node '{node}' is paused: a running stream follows within seconds. Its logs go on."
    report(told, node=node, paused=True)


def resume_node(
    node: Annotated[str, typer.Argument(help="The node to resume.")],
    deployment: Deployment = USUAL,
) -> None:
    """Let a paused node go on. It folds all records that its logs have got meanwhile."""
    from headrace.streams.pausing import resume

    rested = resume(deployment.lake, deployment.node(node).required_name)
    report(f"Node '{node}' {'goes on' if rested else 'was not paused'}.", node=node, was_paused=rested)


def pending_erasures(lake: Root = DEFAULTS.lake) -> None:
    """List pending erasures, with the nodes for which they wait. Exits 1 if there is one.

    An erasure is pending that was broken off, or that was run without the nodes of another pipeline.
    """
    from headrace.lake.paths import Lake
    from headrace.lifecycle.pending_erasures import pending

    found = pending(Lake(lake))
    for each in found:
        at = dt.datetime.fromtimestamp(each.since_ms / 1000, dt.UTC).isoformat(timespec="seconds")
        told = f"{each.node}: pending since {at}; run `headrace erase {each.topic} …` again, with its pipeline's nodes, too."
        report(told, vars(each))
    if not found:
        report("No erasure is pending.")
    sys.exit(1 if found else 0)
