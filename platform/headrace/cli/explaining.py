"""`headrace why`: the records behind a row of a node."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from headrace.cli.lake_there import require_lake
from headrace.cli.node_named import node_named
from headrace.cli.options import DEFAULTS, Pipeline, Root
from headrace.cli.telling import report


def explain_row(
    node: Annotated[str, typer.Argument(help="A node of the pipeline.")],
    values: Annotated[
        list[str], typer.Argument(help="column=value of its rows; window=… is the start of a window.")
    ],
    depth: Annotated[int, typer.Option(min=0, help="Through how many nodes above to go.")] = 1,
    large: Annotated[bool, typer.Option("--large", help="Read logs of any size, by Spark.")] = False,
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Say why a row is what it is: the records that made it, and those of its key that did not count.

    It recomputes the row without each record, reads the lake alone, and changes nothing. Streams may run meanwhile.
    """
    from headrace.cli.commands import _session
    from headrace.explain.cause_in_words import lines_of
    from headrace.explain.row_cause import causes_of
    from headrace.lake.paths import Lake
    from headrace.spark.on_demand import SparkOnDemand

    of = node_named(node, pipeline)
    require_lake(lake)
    spark = SparkOnDemand.session(lambda: _session(lake))
    for cause in causes_of(spark, Lake(lake), of, _pairs(values), depth=depth, large=large):
        report("\n".join(lines_of(cause)), asdict(cause))


def _pairs(values: list[str]) -> dict[str, str]:
    if wrong := [each for each in values if "=" not in each]:
        raise typer.BadParameter(f"{wrong[0]!r} is not column=value")
    return dict(tuple(each.split("=", 1)) for each in values)  # type: ignore[misc]
