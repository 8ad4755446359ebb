"""`headrace preview`: the rows after each step of a node, over the newest records."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.node_named import node_named
from headrace.cli.options import DEFAULTS, Pipeline, Root
from headrace.cli.telling import report
from headrace.observe.preview import preview


def preview_node(
    node: Annotated[str, typer.Argument(help="The node to look at.")],
    records: Annotated[
        int,
        typer.Option(
            min=1, help="Records from each topic's log; without a log, from each of Kafka's partitions."
        ),
    ] = 20,
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Run a node over the newest records of its topics and show the rows after each step. Nothing is written.

    A topic that has no log in the lake is read from Kafka. Streams may run meanwhile.
    """
    report(preview(node_named(node, pipeline), records, lake=lake))
