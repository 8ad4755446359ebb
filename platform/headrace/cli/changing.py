"""`headrace plan`, `apply` and `rollback`: plan a changed pipeline, apply the change, and go back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.long_work import long_work
from headrace.cli.console.telling import report
from headrace.log.site import Site


@dataclass(frozen=True)
class RowsCompared:
    """The rows that `plan --rows` compares."""

    days: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="DAYS", help="With --rows: compare the rows of the last DAYS days alone."
        ),
    ] = None
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="KEYS",
            help="With --rows: compare the rows of this number of keys, always the same ones.",
        ),
    ] = None
    large: Annotated[bool, typer.Option("--large", help="With --rows: read logs of any size.")] = False


WHOLE = RowsCompared()


def plan_pipeline(
    rows: Annotated[
        bool, typer.Option("--rows", help="Say which rows change: fold the logs in a temporary folder.")
    ] = False,
    group: RowsCompared = WHOLE,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With --rows: print Markdown, for a pull request.")
    ] = False,
    deployment: Deployment = USUAL,
) -> None:
    """Show what happens to each topic and node under the changed description. It changes nothing.

    It also proposes columns for fields that records have and no column takes.

    Exits 1 if something is refused.
    """
    from headrace.changing.drift import untaken_fields
    from headrace.changing.plan_changes import plan_changes
    from headrace.explain.tables.planned_rows import planned_rows
    from headrace.explain.tables.planned_rows_in_words import lines_of, markdown_of
    from headrace.nodes.descriptions.topics import topics_of

    if (group != WHOLE or markdown) and not rows:
        raise typer.BadParameter("--days, --sample, --markdown and --large go with --rows")
    nodes = deployment.nodes
    if not rows:
        untaken = [
            each for topic in topics_of(nodes).values() for each in untaken_fields(deployment.lake, topic)
        ]
        plan = replace(plan_changes(deployment.lake, nodes), untaken=tuple(untaken))
        report(plan, plan.to_json())
    else:
        spark = deployment.session_when_needed()
        planned = planned_rows(spark, deployment.lake, nodes, **vars(group))
        plan = planned.plan
        words = markdown_of(planned) if markdown else "\n".join([str(plan), "", *lines_of(planned)])
        report(words, {**plan.to_json(), "rows": [asdict(each) for each in planned.nodes]})
    if plan.refused:
        raise typer.Exit(1)


def apply_pipeline(
    emit: Annotated[
        str,
        typer.Option(
            help="What sinks get: none; differences (correctable sinks are corrected); all (every row)."
        ),
    ] = "none",
    keep_hours: Annotated[
        float, typer.Option(help="How long the former tables are kept, for a rollback.")
    ] = 168.0,
    build_only: Annotated[
        bool, typer.Option("--build-only", help="Build the new tables, and swap nothing; streams may run.")
    ] = False,
    deployment: Deployment = USUAL,
) -> None:
    """Build new tables for the nodes that the plan names, compare rows, and swap the tables in. Streams may run.

    After the swap a running stream waits until it is restarted with the new code. An interrupted apply goes on where it
    stopped.
    """
    from headrace.changing.apply_changes import ApplyChanges

    act = ApplyChanges(
        Site(deployment.session(), deployment.lake), deployment.nodes, emit=emit, kept_hours=keep_hours
    )
    with long_work("Applies the plan.") as work:
        act.on_folded = work.reach
        if not build_only:
            applied = act.run(on_stage=work.begin)
        else:
            act.build(on_stage=work.begin)
    if not build_only:
        report(applied)
        return
    told = "The new tables are built as far as the old ones have read the logs. Run headrace apply: it goes on from here."
    report(told, built=[each.node for each in act.plan.rebuilt])


def roll_pipeline_back(deployment: Deployment = USUAL) -> None:
    """Put back the tables that the pipeline's last apply replaced. A running stream waits until it has the former code."""
    from headrace.changing.roll_back import RESTORED, roll_back

    nodes = deployment.nodes
    back = roll_back(deployment.session(), deployment.lake, nodes=nodes)
    report(f"{', '.join(back) or 'No node'}: the former tables are back. Now {RESTORED}", nodes=back)
