"""`headrace plan`, `apply` and `rollback`: what becomes of a changed pipeline, and to let it become so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.long_work import long_work
from headrace.cli.options import DEFAULTS, Pipeline, Root
from headrace.cli.telling import tell
from headrace.settings import load_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan_pipeline(
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Say what becomes of each topic and node under its changed description; nothing is changed.

    Exits 1 when something is refused.
    """
    from headrace.changing.plan_changes import plan_changes
    from headrace.lake.paths import Lake

    plan = plan_changes(Lake(lake), load_pipeline(pipeline))
    tell(plan, plan.to_json())
    if plan.refused:
        raise typer.Exit(1)


def apply_pipeline(
    emit: Annotated[
        str,
        typer.Option(
            help="What sinks get: none; differences (those that can be corrected are put right); all (every row)."
        ),
    ] = "none",
    keep_hours: Annotated[
        float, typer.Option(help="How long the tables before are kept, for a rollback.")
    ] = 168.0,
    build_only: Annotated[
        bool, typer.Option("--build-only", help="Build beside the tables, and swap nothing; streams may run.")
    ] = False,
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Rebuild what the plan names beside its tables, compare, and swap it in; streams may run.

    A stream that runs waits after the swap, until it is restarted with the new code. An apply that was broken off goes on
    where it stopped.
    """
    from headrace.changing.apply_changes import ApplyChanges
    from headrace.lake.paths import Lake

    act = ApplyChanges(_session(lake), Lake(lake), load_pipeline(pipeline), emit=emit, kept_hours=keep_hours)
    with long_work("Applies the plan.") as work:
        if not build_only:
            applied = act.run(on_stage=work.begin)
        else:
            act.build(on_stage=work.begin)
    if not build_only:
        tell(applied)
        return
    told = "Built as far as the tables before have read the logs. Run headrace apply: it goes on from here."
    tell(told, built=[each.node for each in act.plan.rebuilt])


def roll_pipeline_back(lake: Root = DEFAULTS.lake) -> None:
    """Put the tables back that the last apply replaced; a stream that runs waits until it has the code before again."""
    from headrace.changing.roll_back import RESTORED, roll_back
    from headrace.lake.paths import Lake

    back = roll_back(_session(lake), Lake(lake))
    tell(f"{', '.join(back) or 'No node'}: the tables are those from before. Now {RESTORED}", nodes=back)


def _session(lake: str) -> SparkSession:
    from headrace.spark.jars import spark_jars
    from headrace.spark.session import build_session, configured

    return build_session(configured(spark_jars(), lake))
