"""The commands that show the records and rows behind counts (`dead-letters`, `records`, `refused`), and `redrive`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.long_work import long_work
from headrace.cli.console.telling import report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.observe.fates.fated_records import FatedRecords


def show_dead_letters(
    name: Annotated[str, typer.Argument(help="The topic, or the node, whose dead letters are shown.")],
    examples: Annotated[int, typer.Option(min=0, help="How many of each reason are shown.")] = 2,
    nodes: Annotated[bool, typer.Option(help="Of a topic: also records that nodes cannot use.")] = False,
    deployment: Deployment = USUAL,
) -> None:
    """Show the records that a topic or a node could not use, by reason, with examples. Streams may run meanwhile.

    A node also shows the rows that its sinks refused. Spark starts only if it has to compute a step of a node.
    """
    from headrace.description import Topic
    from headrace.fold.fates import DEAD_LETTER
    from headrace.observe.fates.refused_rows import RefusedRows, refused_rows

    described, again = deployment.topic_or_node(name), 0
    parked: list[RefusedRows] = []
    deployment.require_lake()
    if not isinstance(described, Topic):
        groups = _fated(deployment, examples).of_node(described, DEAD_LETTER)
        parked = refused_rows(deployment.lake, described.required_name, examples)
    elif nodes:
        groups, again = _fated(deployment, examples).of_topic(described, deployment.nodes)
    else:
        groups, again = _fated(deployment, examples).of_log(described)
    for each in (*groups, *parked):
        report(each)
    if not groups and not parked:
        report(
            f"{'Topic' if isinstance(described, Topic) else 'Node'} '{described.name}' has no dead letters."
        )
    elif again:
        report(f"{again:,} of them stand in the log again.", topic=described.name, redriven=again)


def _fated(deployment: Deployment, examples: int) -> FatedRecords:
    """Spark starts only where it has to compute a step of a node, or the logs are large."""
    from headrace.observe.fates.fated_records import FatedRecords
    from headrace.spark.on_demand import SparkOnDemand

    def start() -> SparkSession:
        with long_work("Starts Spark: it alone computes a step of a node, or the logs are large."):
            return deployment.session()

    return FatedRecords(SparkOnDemand.session(start), deployment.lake, examples)


def show_records(
    node: Annotated[str, typer.Argument(help="The node whose ledger counts the records.")],
    fate: Annotated[
        str | None,
        typer.Argument(
            help="late, filtered, replay, duplicate, tombstone, dead_letter, erased, used; all but used by default."
        ),
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="How many of each reason are shown.")] = 2,
    deployment: Deployment = USUAL,
) -> None:
    """Show the records behind a count of a node, by reason, with examples. Streams may run meanwhile."""
    from headrace.explain.asking import why_not
    from headrace.fold.fates import FATES, OPEN, USED

    described = deployment.node(node)
    deployment.require_lake()
    dropped = [each for each in FATES if each not in (USED, OPEN)]
    found = _fated(deployment, examples).of_node(described, *([fate] if fate else dropped))
    for each in found:
        report(each)
    shown = [example for each in found for example in each.examples]
    if shown:
        report(f"More about one: {why_not(shown[0].topic, shown[0].partition, shown[0].offset)}")
    if not found:
        wanted = f"of fate {fate}" if fate else "that did not count"
        report(f"Node '{node}' has no records {wanted} as far as it has read, or they were cut off its logs.")


def show_refused(
    node: Annotated[str, typer.Argument(help="The node whose sinks refused rows.")],
    examples: Annotated[int, typer.Option(min=0, help="How many of each reason are shown.")] = 2,
    deployment: Deployment = USUAL,
) -> None:
    """Show the rows that a node's sinks refused, by reason, with examples. Streams may run meanwhile."""
    from headrace.observe.fates.refused_rows import refused_rows

    name = deployment.node(node).required_name
    deployment.require_lake()
    found = refused_rows(deployment.lake, name, examples)
    for each in found:
        report(each)
    if not found:
        report(f"No sink of node '{name}' has refused a row.")


def redrive(
    topic: Annotated[str, typer.Argument(help="The topic whose dead letters are sent again.")],
    reason: Annotated[str | None, typer.Option(help="Only those whose reason contains this text.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="Corrected records, one JSON object a line; only these are sent.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Say what would be sent, and send nothing.")] = False,
    deployment: Deployment = USUAL,
) -> None:
    """Send dead letters that the topic's description can read now to Kafka again. Streams may run meanwhile."""
    from headrace.lifecycle.corrections import read_corrections
    from headrace.lifecycle.redrive import Redrive
    from headrace.spark.kafka import KafkaSettings

    corrections = None if file is None else read_corrections(file)
    work = Redrive(deployment.session(), deployment.lake, deployment.topic(topic), KafkaSettings())
    with long_work("Reads the dead letters.") as shown:
        done = work.run(
            reason=reason,
            corrections=corrections,
            dry_run=dry_run,
            on_read=lambda read: shown.reach(read, None, "dead letters read"),
        )
    lines = [f"{done.sent:,} dead letters {'can be' if dry_run else 'were'} sent again."]
    if done.before:
        lines.append(f"{done.before:,} had been sent before.")
    for why, number in sorted(done.left.items(), key=lambda each: -each[1]):
        lines.append(f"{number:,} still cannot be read: {why}")
    of_reason = "" if reason is None else f" whose reason contains '{reason}'"
    lines += [
        f"Partition {partition}, offset {offset} is no dead letter{of_reason}."
        for partition, offset in done.missing
    ]
    report("\n".join(lines), {"topic": topic, "dry_run": dry_run, **vars(done)})


def show_failing(
    node: Annotated[str, typer.Argument(help="The node whose table is read.")],
    rows: Annotated[int, typer.Option(min=1, help="How many rows are shown for each expectation.")] = 5,
    deployment: Deployment = USUAL,
) -> None:
    """Show rows of a node's table that fail its expectations. Exits 1 if any row fails. Streams may run meanwhile."""
    from headrace.quality.figures.failing_rows import failing_rows

    described = deployment.node(node)
    deployment.require_lake()
    spark = deployment.session_when_needed()
    with long_work("Reads the table."):
        found = failing_rows(spark, deployment.lake, described, rows)
    for each in found:
        report(each)
    if not found:
        report(f"Node '{node}' has no expectations: describe it with .named(…, expectations=[…]).", node=node)
    sys.exit(1 if any(each.failing for each in found) else 0)
