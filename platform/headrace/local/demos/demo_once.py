"""The whole line once, without a UI: produce, stream until drained, backfill, check, print the proof."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from rich.console import Console
from rich.table import Table

from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import Backfill
from headrace.local.demos import scenes
from headrace.local.demos.republisher import SOURCE, TARGET
from headrace.local.postgres import Postgres
from headrace.local.schema_registry import SchemaRegistry
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.local.tightening_message import REGISTRY
from headrace.nodes.descriptions.topics import topics_of
from headrace.observe.views import Views
from headrace.quality import check_log, check_node
from headrace.quality.results import WARN
from headrace.settings import Settings, load_pipeline
from headrace.sinks.postgres import DSN_VARIABLE
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.streams.stream_runtime import StreamRuntime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.lifecycle.backfills.backfill_plan import DayVerdict
    from headrace.quality import CheckResult

SHOWN = 5


def run_demo_once(*, records: int, console: Console | None = None) -> bool:
    """Run the demo in `.headrace/demo-once`, made anew.

    In:  records  how many readings to produce; the other topics get their share
         console  where progress and tables are shown; None: the terminal
    Out: whether every check passed, every backfill equals the stream and the totals are exact
    """
    console = console or Console()
    folder = Path.cwd() / ".headrace" / "demo-once"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lake, docs = Lake(f"file:{folder / 'lake'}"), str(folder / "docs")
    nodes = load_pipeline(Settings().pipeline)
    with (
        console.status("starting a Kafka broker, a PostgreSQL server and a schema registry") as status,
        Broker(folder / "kafka") as broker,
        Postgres(folder / "postgres") as database,
        SchemaRegistry(folder / "registry") as registry,
    ):
        os.environ |= {DSN_VARIABLE: database.dsn, REGISTRY: registry.url}
        create_topics(
            broker.bootstrap_servers,
            dict.fromkeys({*topics_of(nodes), *scenes.TOPICS}, scenes.PARTITIONS),
            any_timestamp=True,
        )
        status.update("producing")
        written = scenes.fill(broker.bootstrap_servers, readings=records)
        for topic, number in written.items():
            console.print(f"[bold]1. produced[/]   {number:,} records to '{topic}'")
        status.update("republishing, with crashes")
        crashes = scenes.republish_once(broker.bootstrap_servers, registry.url, folder / "republisher.log")
        console.print(f"                sent on to '{TARGET}' by a service that was killed {crashes} times")
        status.update("starting Spark")
        spark = pipeline_session(build_session(spark_conf(spark_jars())))
        status.update("streaming until everything is folded")
        kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        _stream(console, spark, lake, nodes, kafka)
        delivered = _delivered(console, database.dsn, written["visits"])
        status.update("backfilling")
        verdicts = {node.required_name: _backfill(console, spark, lake, node) for node in nodes}
        status.update("checking")
        results = [r for topic in topics_of(nodes).values() for r in check_log(spark, lake, topic, docs)]
        for node in nodes:
            results += check_node(spark, lake, node, docs, verdicts=verdicts[node.required_name])
    views = Views(spark, lake)
    for node in nodes:
        name = node.required_name
        finals = views.read(node)
        console.print(_table(f"{name}: {finals.count():,} rows", finals.orderBy(*node.key)))
        fates = views.ledger(node).groupBy("fate").sum("records").withColumnRenamed("sum(records)", "records")
        console.print(
            _table(f"{name}: the ledger, where every record ended up", fates.orderBy("fate"), shown=10)
        )
    exact = _totals(console, views, nodes, written[SOURCE], crashes) and delivered
    return _proof(console, results, [v for day in verdicts.values() for v in day], docs) and exact


def _stream(
    console: Console,
    spark: SparkSession,
    lake: Lake,
    nodes: Sequence[Node],
    kafka: KafkaSettings,
) -> None:
    began = time.monotonic()
    runtime = StreamRuntime(spark, lake, nodes, kafka=kafka)
    try:
        statuses = runtime.run_until_caught_up()
    finally:
        runtime.drain(close_batches=True)
    seconds = time.monotonic() - began
    for status in statuses:
        console.print(f"[bold]2. streamed[/]   {status.asset}: {status.rows_total:,} records")
    console.print(f"                in {seconds:.0f} s, the start of the queries included")


def _backfill(console: Console, spark: SparkSession, lake: Lake, node: Node) -> list[DayVerdict]:
    backfill = Backfill(spark, lake, node)
    console.print("[bold]3. backfill[/]")
    console.print(backfill.plan().explain())
    return backfill.run()


def _totals(console: Console, views: Views, nodes: Sequence[Node], reports: int, crashes: int) -> bool:
    """Whether the totals are those of the reports, each counted once however often it was sent."""
    (node,) = (node for node in nodes if node.name == "screw_totals")
    reported = scenes.tightenings(reports)
    row = views.read(node).groupBy().sum("n").first()
    counted = row[0] if row is not None else 0
    replays = sum(r["records"] for r in views.ledger(node).where("fate = 'replay'").collect())
    console.print(
        f"[bold]4. totals[/]     {reported:,} tightenings were reported, {counted:,} are in the totals; "
        f"{replays:,} reports came again and were refused"
    )
    return bool(reported == counted and bool(replays) == bool(crashes))


def _delivered(console: Console, dsn: str, visits: int) -> bool:
    """Whether the database holds every visit once, in batches."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT count(*), sum(records) FROM visit_batches").fetchone()
    batches, records = found or (0, 0)
    console.print(
        f"[bold]   delivered[/]   {visits:,} visits were written, {records:,} are in PostgreSQL, in {batches:,} batches"
    )
    return bool(records == visits)


def _table(title: str, frame: DataFrame, *, shown: int = SHOWN) -> Table:
    table = Table(title=title, title_justify="left")
    for column in frame.columns:
        table.add_column(column)
    for row in frame.limit(shown).collect():
        table.add_row(*(str(value) for value in row))
    return table


def _proof(
    console: Console, results: Sequence[CheckResult], verdicts: Sequence[DayVerdict], docs: str
) -> bool:
    for result in results:
        mark = (
            "[green]passed[/]"
            if result.passed
            else "[yellow]look[/]  "
            if result.severity == WARN
            else "[red]FAILED[/]"
        )
        console.print(f"{mark}  {result.name}: {result.sentence}")
    for verdict in verdicts:
        word = "[green]equal[/]" if verdict.equal else f"[red]{verdict.rows_differing} rows differ[/]"
        console.print(f"{verdict.what}  {verdict.rows_recomputed:,} rows recomputed from the log: {word}")
    proven = (
        all(r.passed or r.severity == WARN for r in results)
        and bool(verdicts)
        and all(v.equal for v in verdicts)
    )
    console.print(
        "[bold green]The stream and the backfill wrote the same tables.[/]"
        if proven
        else "[bold red]Not proven.[/]"
    )
    console.print(f"The report: {docs}/index.html")
    return proven
