"""The demo with everything on: broker, traffic, Dagster's UI and daemon, and the stream that its sensor starts."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from headrace.errors import TerminalError
from headrace.local.demos import scenes
from headrace.local.demos.demo_cluster import beyond_one_machine
from headrace.local.demos.demo_progress import ShownProgress, standing
from headrace.local.demos.report import served_report
from headrace.local.postgres import Postgres
from headrace.local.schema_registry import SchemaRegistry
from headrace.local.servers import lifeline
from headrace.local.servers.broker import Broker
from headrace.local.servers.brokers import Brokers
from headrace.local.servers.dagster_ui import require_free, wait_for_ui
from headrace.local.servers.descendants import end_with_descendants
from headrace.local.servers.settings_file import second_terminal, write_settings
from headrace.local.servers.topics import create_topics
from headrace.local.tightening_message import REGISTRY
from headrace.nodes.descriptions.topics import topics_of
from headrace.observe.progress_bar import progress_bar
from headrace.settings import Settings, load_pipeline
from headrace.sinks.postgres import DSN_VARIABLE
from headrace.spark.jars import project_root

if TYPE_CHECKING:
    import subprocess

HISTORY_DAYS = max(scene.days for scene in scenes.SCENES)
SHOWN_EVERY_SECONDS = 10
DRAIN_SECONDS_MAX, PATIENCE_SECONDS = 90.0, 30.0  # of runs, and of Dagster's own processes
LOCATION = "/locations/__repository__@headrace"
GRAPH, SENSOR = f"{LOCATION}/asset-groups/demo", f"{LOCATION}/sensors/keep_streams_running"


def run_demo(
    *, port: int, rate: float, fresh: bool, cluster: bool = False, console: Console | None = None
) -> None:
    """Start everything in order, show progress, and stop everything in the opposite order on Ctrl-C.

    In: port     of the Dagster UI, on loopback; `rate` live records per second; `fresh` forgets an earlier demo
        cluster  whether there are three brokers, a Spark cluster computes, the lake lies on S3 and Dagster keeps its
                 records in PostgreSQL
        console  where progress is shown; None: the terminal
    """
    console = console or Console()
    home = project_root() / ".headrace" / ("demo-cluster" if cluster else "demo")
    require_free(port)
    if fresh:
        shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    lifeline.hear_signals()
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        console.print("starting three Kafka brokers" if cluster else "starting a Kafka broker")
        broker: Broker | Brokers = Brokers(home / "kafka") if cluster else Broker(home / "kafka")
        stack.enter_context(broker)
        console.print("starting a PostgreSQL server, and a schema registry")
        registry = SchemaRegistry(home / "registry")
        stack.callback(registry.stop)
        registry.start()
        database = stack.enter_context(Postgres(home / "postgres"))
        _fill(console, broker.bootstrap_servers)
        addresses = broker.bootstrap_servers, registry.wait_ready().url
        stack.enter_context(scenes.live(*addresses, rate, home / "republisher.log"))
        console.print("starting Dagster: webserver, daemon and code location (half a minute)")
        report = stack.enter_context(served_report(home / "docs", port + 1))
        metrics_port = os.environ.setdefault("HEADRACE_METRICS_PORT", str(port + 2))
        ours = _settings(home, *addresses, database.dsn, report)
        if cluster:
            ours |= beyond_one_machine(console, stack, home, database.dsn)
        os.environ.update(ours)
        settings = write_settings(home, ours)
        dagster = lifeline.spawn(
            [
                sys.executable,
                "-m",
                "dagster",
                "dev",
                "-h",
                "127.0.0.1",
                "-p",
                str(port),
                "-w",
                "workspace.yaml",
            ],
            log=home / "dagster.log",
            env=dict(os.environ),
            cwd=project_root(),
        )
        stack.callback(_stop, console, dagster, port)
        wait_for_ui(dagster, port, home / "dagster.log")
        console.print(_invitation(port, home, report, metrics_port, registry.url), soft_wrap=True)
        console.print(second_terminal(settings), soft_wrap=True, markup=False)
        _show_progress(console, dagster, home / "dagster.log")


def _fill(console: Console, bootstrap: str) -> None:
    described = topics_of(load_pipeline(Settings().pipeline))
    create_topics(
        bootstrap, dict.fromkeys({*described, *scenes.TOPICS}, scenes.PARTITIONS), any_timestamp=True
    )
    for topic, records in scenes.fill(bootstrap).items():
        console.print(f"produced {records:,} records to '{topic}'")


def _settings(home: Path, bootstrap: str, registry: str, dsn: str, report: str) -> dict[str, str]:
    dagster_home = home / "dagster"
    dagster_home.mkdir(exist_ok=True)
    shutil.copyfile(project_root() / "deploy" / "local" / "dagster.yaml", dagster_home / "dagster.yaml")
    return {
        "DAGSTER_HOME": str(dagster_home),
        "HEADRACE_LAKE": f"file:{home / 'lake'}",
        "HEADRACE_DOCS": str(home / "docs"),
        "HEADRACE_DOCS_URL": report,
        "HEADRACE_KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        REGISTRY: registry,
        DSN_VARIABLE: dsn,
        "HEADRACE_SENSOR": "running",
        "HEADRACE_PARTITIONS_START": _partitions_start(home),
        "GX_ANALYTICS_ENABLED": "false",
        "PYTHONUNBUFFERED": "1",
    }


def _partitions_start(home: Path) -> str:
    """The first day of the demo's history, fixed when the demo first starts."""
    noted = home / "first_day"
    if not noted.exists():
        first = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=HISTORY_DAYS)
        noted.write_text(first.isoformat())
    return noted.read_text()


def _invitation(port: int, home: Path, report: str, metrics_port: str, registry: str) -> str:
    base = f"http://127.0.0.1:{port}"
    return f"""
[bold]Open {base}[/]   What to look at, with pictures: docs/tour.md

  the graph: each log, the query that reads it, the table of results
    {base}{GRAPH}
  the sensor that starts the stream, and says why it does not
    {base}{SENSOR}
  the running query: rows per second, lag, stream time, late records
    {base}/assets/stream/reading_counts_stream
  the table: Materialize… some days is a backfill, with its verdict
    {base}/assets/reading_counts?view=partitions
  the proof, with links into the report
    {base}/assets/reading_counts?view=checks
  the stream is a run: Terminate drains it, and it then stays stopped
    {base}/runs
  the report: what is wrong and what to do, in one sentence for each table
    {report}
  the same figures as on the assets' pages, for Prometheus
    http://127.0.0.1:{metrics_port}/metrics
  the schema of the tightenings, as the registry has it
    {registry}/subjects/tightenings-value/versions/latest

Everything lies below {home}. Ctrl-C stops all of it; the next start goes on from here.
"""


def _show_progress(console: Console, dagster: subprocess.Popen[bytes], log: Path) -> None:
    from dagster import DagsterInstance

    instance = DagsterInstance.get()
    bar = progress_bar(console) if console.is_terminal else None
    with nullcontext() if bar is None else bar:
        shown = ShownProgress(console, bar)
        while dagster.poll() is None:
            time.sleep(SHOWN_EVERY_SECONDS)
            shown.show(standing(instance))
    raise TerminalError("Dagster ended by itself.", hint=f"Read {log}.")


def _stop(console: Console, dagster: subprocess.Popen[bytes], port: int) -> None:
    """Drain the runs first: they are children of Dagster's code server, and would outlive it."""
    from dagster import DagsterInstance, RunsFilter
    from dagster._core.storage.dagster_run import IN_PROGRESS_RUN_STATUSES
    from dagster_graphql import DagsterGraphQLClient

    from headrace.orchestration.keys import SHUTDOWN_TAG

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    console.print("\nstopping: the stream finishes its micro-batches first")
    instance = DagsterInstance.get()
    until = f"{time.time() + DRAIN_SECONDS_MAX + 2 * PATIENCE_SECONDS:.0f}"
    client: Any = DagsterGraphQLClient("127.0.0.1", port_number=port)
    in_progress = RunsFilter(statuses=IN_PROGRESS_RUN_STATUSES)
    stopped = [run.run_id for run in instance.get_runs(in_progress)]
    for run_id in stopped:
        instance.add_run_tags(run_id, {SHUTDOWN_TAG: until})
        with suppress(Exception):
            client.terminate_run(run_id)
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    while instance.get_runs_count(in_progress) and time.monotonic() < deadline and dagster.poll() is None:
        time.sleep(0.5)
    end_with_descendants(dagster, patience_s=PATIENCE_SECONDS)
    for run_id in stopped:
        instance.add_run_tags(run_id, {SHUTDOWN_TAG: "0"})  # it is down: the next start need not wait
    console.print("stopped")
