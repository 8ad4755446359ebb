"""`headrace tail`: the rows of a node as they come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.lake_there import require_lake
from headrace.cli.node_named import node_named
from headrace.cli.options import DEFAULTS, Pipeline, Root
from headrace.cli.telling import report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.observe.tail import TailRow

EVERY_SECONDS = 0.5


def tail_node(
    node: Annotated[str, typer.Argument(help="The node whose rows are shown.")],
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="Rows of the last commits first.")] = 10,
    follow: Annotated[bool, typer.Option(help="Go on until Ctrl-C.")] = True,
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Show rows of a node's table as commits add, change or remove them. It starts no Spark."""
    from headrace.lake.paths import Lake
    from headrace.observe.tail import Tail

    described = node_named(node, pipeline)
    require_lake(lake)
    tail = Tail(Lake(lake), described)
    _show(tail.newest(rows))
    while follow:
        _show(tail.news())
        time.sleep(EVERY_SECONDS)


def _show(rows: Iterable[TailRow]) -> None:
    for each in rows:
        values = "  ".join(f"{name}={value}" for name, value in each.row.items())
        report(f"{'-' if each.gone else '+'} {values}", {"gone": each.gone, **each.row})
