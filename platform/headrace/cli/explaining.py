"""`headrace why`, `why-not`, `what-if` and `audit`: rows, records, another grace, and a table of another system."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.telling import report


def explain_row(
    node: Annotated[str, typer.Argument(help="A node of the pipeline.")],
    values: Annotated[
        list[str], typer.Argument(help="column=value of its rows; window=… is the start of a window.")
    ],
    depth: Annotated[int, typer.Option(min=0, help="How many nodes up the chain are explained, too.")] = 1,
    large: Annotated[bool, typer.Option("--large", help="Read logs of any size, by Spark.")] = False,
    deployment: Deployment = USUAL,
) -> None:
    """Say why a row is what it is: the records that made it, and those of its key that did not count.

    It recomputes the row without each record, reads the lake alone, and changes nothing. Streams may run meanwhile.
    """
    from headrace.explain.cause_in_words import lines_of
    from headrace.explain.row_cause import causes_of

    of = deployment.node(node)
    deployment.require_lake()
    spark = deployment.session_when_needed()
    for cause in causes_of(spark, deployment.lake, of, _pairs(values), depth=depth, large=large):
        report("\n".join(lines_of(cause)), asdict(cause))


def explain_record(
    topic: Annotated[str, typer.Argument(help="The topic; or a node that others read, for its rows.")],
    partition: Annotated[int, typer.Argument(min=0, help="The partition; of a node 0.")],
    offset: Annotated[int, typer.Argument(min=0, help="The offset.")],
    large: Annotated[bool, typer.Option("--large", help="Read logs of any size, by Spark.")] = False,
    deployment: Deployment = USUAL,
) -> None:
    """Say what has become of a record in each node that reads it, and what would have made it count.

    It reads the lake alone, and changes nothing. Streams may run meanwhile.
    """
    from headrace.explain.fate_in_words import lines_of
    from headrace.explain.record_fate import fate_of_record

    of = deployment.topic_or_node(topic.partition("@")[0])
    deployment.require_lake()
    spark, nodes = deployment.session_when_needed(), deployment.nodes
    fate = fate_of_record(spark, deployment.lake, nodes, (of, partition, offset), large=large)
    report("\n".join(lines_of(fate)), asdict(fate))


def ask_what_if(
    node: Annotated[str, typer.Argument(help="A windowed node of the pipeline.")],
    setting: Annotated[
        str,
        typer.Argument(help="grace=… with a duration, such as grace='5 minutes'; nothing: the curve of all."),
    ] = "",
    large: Annotated[bool, typer.Option("--large", help="Read logs of any size, by Spark.")] = False,
    deployment: Deployment = USUAL,
) -> None:
    """Say what another grace changes: how many late records count, how much later results come, which windows differ.

    It folds the log as it is with both graces, reads the lake alone, and changes nothing. Streams may run meanwhile.
    Without a grace it shows how complete windows are with each grace, and how long results wait.
    """
    from headrace.explain.graces.grace_curve import grace_curve
    from headrace.explain.graces.other_grace import what_if
    from headrace.explain.graces.other_grace_in_words import lines_of, lines_of_curve

    of, settings = deployment.node(node), _pairs([setting] if setting else [])
    if [*settings] not in ([], ["grace"]):
        raise typer.BadParameter(f"{setting!r} is not grace=…, with a duration such as grace='5 minutes'")
    deployment.require_lake()
    spark = deployment.session_when_needed()
    if not settings:
        curve = grace_curve(spark, deployment.lake, of)
        report("\n".join(lines_of_curve(curve)), asdict(curve))
        return
    answer = what_if(spark, deployment.lake, of, settings["grace"], large=large)
    report("\n".join(lines_of(answer)), asdict(answer))


def audit_against(
    node: Annotated[str, typer.Argument(help="A node of the pipeline.")],
    against: Annotated[
        str, typer.Option(help="URI of a Delta table or of a folder of Parquet files, or kafka:TOPIC.")
    ],
    column: Annotated[
        list[str] | None, typer.Option(help="column=name: the name that the table has; dots go into structs.")
    ] = None,
    large: Annotated[bool, typer.Option("--large", help="Read logs and tables of any size.")] = False,
    deployment: Deployment = USUAL,
) -> None:
    """Compare a table of another system with what the log says. Exits 1 if a row is wrong, missing or surplus.

    It reads the lake and the table, and changes nothing. Streams may run meanwhile.
    """
    from headrace.explain.tables.audit_in_words import lines_of
    from headrace.explain.tables.audited_table import audit_table

    of = deployment.node(node)
    deployment.require_lake()
    spark = deployment.session_when_needed()
    audit = audit_table(spark, deployment.lake, of, against, columns=_pairs(column or []), large=large)
    report("\n".join(lines_of(audit)), asdict(audit), equal=audit.is_equal)
    if not audit.is_equal:
        raise typer.Exit(1)


def _pairs(values: list[str]) -> dict[str, str]:
    if wrong := [each for each in values if "=" not in each]:
        raise typer.BadParameter(f"{wrong[0]!r} is not column=value")
    return dict(tuple(each.split("=", 1)) for each in values)  # type: ignore[misc]
