"""`headrace failing`: rows of a node's table that fail its expectations."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli.lake_there import require_lake
from headrace.cli.long_work import long_work
from headrace.cli.node_named import node_named
from headrace.cli.options import DEFAULTS, Pipeline, Root
from headrace.cli.telling import report


def show_failing(
    node: Annotated[str, typer.Argument(help="The node whose table is read.")],
    rows: Annotated[int, typer.Option(min=1, help="How many rows are shown for each expectation.")] = 5,
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Show rows of a node's table that fail its expectations. Exits 1 if any row fails. Streams may run meanwhile."""
    from headrace.cli import commands
    from headrace.lake.paths import Lake
    from headrace.quality.failing_rows import failing_rows
    from headrace.spark.on_demand import SparkOnDemand

    described = node_named(node, pipeline)
    require_lake(lake)
    spark = SparkOnDemand.session(lambda: commands._session(lake))
    with long_work("Reads the table."):
        found = failing_rows(spark, Lake(lake), described, rows)
    for each in found:
        report(each)
    if not found:
        report(f"Node '{node}' has no expectations: describe it with .named(…, expectations=[…]).", node=node)
    sys.exit(1 if any(each.failing for each in found) else 0)
