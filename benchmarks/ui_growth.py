"""`python -m benchmarks.ui_growth`: how fast a stream makes Dagster's database grow, by what; and how soon it starts.

Dagster runs as on a laptop (webserver, daemon, code server, SQLite), its sensor starts the stream, and records come all
the time. SQLite keeps a run's events twice, in the run's own file and, those of assets, in an index; a row costs more on
disk than its text, by a factor that is measured as well. A day is extrapolated by kind of event: observations and
materializations by the cadence that is configured, counted with the same `Throttle`; each materialization repeats the
verdicts on its asset; all else is said once a run, at its start and end.

The job `quality` runs twice: while the stream runs, so that its verdicts are among those repeated, and once more when
the stream has ended, when whatever the files grow by is its own.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import dagster as dg
import typer
from confluent_kafka import Producer
from dagster_graphql import DagsterGraphQLClient
from rich.console import Console
from rich.table import Table

from benchmarks.readings import counts
from headrace.local.servers import lifeline
from headrace.local.servers.broker import Broker
from headrace.local.servers.broker_config import free_port
from headrace.local.servers.topics import create_topics
from headrace.orchestration.events.progress import Cadence, Throttle
from headrace.orchestration.keys import key_of
from headrace.orchestration.pipeline import pipeline_of
from headrace.orchestration.sensors import LOOK_EVERY_SECONDS
from headrace.orchestration.streams import POLL_SECONDS, StreamConfig

ROOT = Path(__file__).resolve().parents[1]
LOCATION = Path(__file__).with_name("ui_location.py")
ASSETS = ("log/readings", "stream/reading_counts_stream")
OBSERVED, MATERIALIZED = "ASSET_OBSERVATION", "ASSET_MATERIALIZATION"
CHECKED = "ASSET_CHECK_EVALUATION"
OF_CHECKS = "of the run that judges"
DAY_SECONDS, MB = 86_400, 1_000_000
EVENTS = (
    "SELECT CASE run_id WHEN '{checks}' THEN '{of_checks}' ELSE coalesce(dagster_event_type, 'log line') END, "
    "count(*), sum(length(event)) FROM event_logs GROUP BY 1"
)
TICKS = "SELECT 'tick', count(*), sum(length(tick_body)) FROM job_ticks"
RUNS = "SELECT 'run', count(*), sum(length(run_body)) FROM runs"
CHECKS_A_DAY = 24  # the default `quality_cron`: once an hour
PATIENCE_SECONDS = 420
T = TypeVar("T")


@dataclass(frozen=True)
class Kept:
    """What the database holds: rows, bytes of text over all copies by kind of event, and bytes beyond an empty one."""

    rows: Counter[str]
    text: Counter[str]
    bytes: int


def main(
    minutes: Annotated[float, typer.Option(help="How long to watch the stream once it runs.")] = 4.0,
    rate: Annotated[float, typer.Option(help="Records per second.")] = 50.0,
) -> None:
    """Run a stream under Dagster for some minutes and extrapolate to a day."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="headrace-growth-") as folder:
        root, home = Path(folder), Path(folder) / "dagster"
        with _dagster(root, home, rate) as (instance, client):
            stream = _until(lambda: _speaks(instance), root / "dagster.log")
            started = _started_within(
                instance, stream, root / "lake" / "state" / "reading_counts" / "partials"
            )
            time.sleep(minutes * 30)
            checks = _judge(instance, client, root / "dagster.log")
            time.sleep(minutes * 30)
            _terminate(instance, client)
            events = EVENTS.format(checks=checks, of_checks=OF_CHECKS)
            before = _kept(_run_files(home), events), _kept(_runs_file(home), RUNS)
            _judge(instance, client, root / "dagster.log")
            after = _kept(_run_files(home), events), _kept(_runs_file(home), RUNS)
        report(console, home, before[0])
        report_checks(console, before, after)
    console.print(f"From Dagster's launch of the run to the node's first state on disk: {started:.1f} s.")


def report(console: Console, home: Path, events: Kept) -> None:
    """Print what one stream run has left in Dagster's files, and the day that it makes."""
    ticks = _kept([home / "schedules" / "schedules.db"], TICKS)
    table = Table("kind", "rows seen", "kB on disk each", "rows a day", "MB a day")
    cadence, factor, total = events_a_day(), events.bytes / events.text.total(), 0.0
    runs = DAY_SECONDS / (StreamConfig().rotate_after_hours * 3600)
    for kind, a_day in cadence.items():
        total += _line(table, kind, events.rows[kind], factor * events.text[kind] / events.rows[kind], a_day)
    others = events.text.total() - sum(events.text[kind] for kind in (*cadence, OF_CHECKS))
    total += _line(table, "a run's start and end", 1, factor * others, runs)
    (seen,) = ticks.rows.values()
    _line(table, "ticks, deleted after a day", seen, ticks.bytes / seen, DAY_SECONDS / LOOK_EVERY_SECONDS)
    console.print(table)
    console.print(
        f"{factor:.2f} bytes on disk for a byte of text. A day: {total:.1f} MB for one stream of two assets."
    )


def report_checks(console: Console, before: Sequence[Kept], after: Sequence[Kept]) -> None:
    """Print what one run of the checks has added: its events and its own row, by their growth on disk."""
    rows = sum(a.rows.total() - b.rows.total() for a, b in zip(after, before, strict=True))
    grown = sum(a.bytes - b.bytes for a, b in zip(after, before, strict=True))
    console.print(
        f"One run of the checks: {rows:,} rows, {grown / 1000:,.1f} kB on disk; "
        f"once an hour {grown * CHECKS_A_DAY / MB:.2f} MB a day."
    )


def events_a_day() -> dict[str, float]:
    """Events of a day, by the configured cadence: the same throttle, polled as the run does."""
    config = StreamConfig()
    hours = config.rotate_after_hours
    settles = config.settle_after_minutes * 60
    slow = config.materialize_every_minutes * 60
    observe = Throttle(Cadence(config.observe_every_seconds, config.observe_settled_every_seconds, settles))
    # Both assets have checks: they are materialized at the settled pace from the first moment on.
    materialize = Throttle(Cadence(slow, slow))
    checks = pipeline_of([counts()], partitions_start="2026-01-01").checks()
    events = Counter[str]()
    for second in range(int(hours * 3600 / POLL_SECONDS)):
        for asset in ASSETS:
            events[OBSERVED] += observe.due(asset, "running", second * POLL_SECONDS)
            if materialize.due(asset, "running", second * POLL_SECONDS):
                events[MATERIALIZED] += 1
                repeated = checks[key_of(asset)]
                events[CHECKED] += len(repeated)
    return {kind: number * 24 / hours for kind, number in events.items()}


def _line(table: Table, kind: str, seen: int, each: float, a_day: float) -> float:
    table.add_row(kind, f"{seen:,}", f"{each / 1000:,.1f}", f"{a_day:,.0f}", f"{each * a_day / MB:.2f}")
    return each * a_day / MB


def _kept(files: Sequence[Path], query: str) -> Kept:
    """In: query  kind, number and bytes of text; of an event in two files the number counts once."""
    rows, text, size = Counter[str](), Counter[str](), 0
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy.db"
            with (
                closing(sqlite3.connect(file)) as kept,
                closing(sqlite3.connect(copy, isolation_level=None)) as database,
            ):
                kept.backup(database)  # what is still in its write-ahead log included
                database.execute("PRAGMA journal_mode = DELETE")
                for kind, number, length in database.execute(query):
                    rows[kind] = max(rows[kind], number)
                    text[kind] += length
                database.execute("VACUUM")
                size += copy.stat().st_size
                for (name,) in database.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
                ).fetchall():
                    database.execute(f'DELETE FROM "{name}"')
                database.execute("VACUUM")
                size -= copy.stat().st_size
    return Kept(rows, text, size)


@contextmanager
def _dagster(
    root: Path, home: Path, rate: float
) -> Iterator[tuple[dg.DagsterInstance, DagsterGraphQLClient]]:
    """A broker, records, and Dagster whose sensor starts the stream; ended in order."""
    stop = threading.Event()
    home.mkdir()
    shutil.copyfile(ROOT / "deploy" / "local" / "dagster.yaml", home / "dagster.yaml")
    with Broker(root / "kafka") as broker:
        create_topics(broker.bootstrap_servers, {"readings": 2})
        threading.Thread(target=_produce, args=[broker.bootstrap_servers, rate, stop], daemon=True).start()
        os.environ |= {
            "DAGSTER_HOME": str(home),
            "HEADRACE_LAKE": f"file:{root / 'lake'}",
            "HEADRACE_DOCS": str(root / "docs"),
            "HEADRACE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "GX_ANALYTICS_ENABLED": "false",
            "PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}",
        }
        port = free_port()
        command = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(port)]
        location = ["-f", str(LOCATION), "-d", str(ROOT)]
        dagster = lifeline.spawn([*command, *location], log=root / "dagster.log", env=os.environ, cwd=ROOT)
        try:
            with dg.DagsterInstance.get() as instance:
                _until(lambda: _answers(port), root / "dagster.log")
                yield instance, DagsterGraphQLClient("127.0.0.1", port_number=port)
        finally:
            stop.set()
            lifeline.stop(dagster, patience_s=30)


def _produce(bootstrap: str, rate: float, stop: threading.Event) -> None:
    producer, number = Producer({"bootstrap.servers": bootstrap}), 0
    while not stop.wait(1 / rate):
        sensor, number = f"s{number % 50}", number + 1
        value = f'{{"sensor_id": "{sensor}", "value": {number % 1_000}}}'
        producer.produce("readings", value, sensor, number % 2)
        producer.poll(0)
    producer.flush(1)


def _run_files(home: Path) -> list[Path]:
    return sorted((home / "history" / "runs").glob("*.db"))


def _runs_file(home: Path) -> list[Path]:
    return [home / "history" / "runs.db"]


def _answers(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=2):
        return True
    return False


def _speaks(instance: dg.DagsterInstance) -> str | None:
    """The stream's run, once its node has read records."""
    observed = instance.fetch_observations(key_of(ASSETS[1]), limit=1).records
    seen = observed[0].asset_observation if observed else None
    return observed[0].run_id if seen is not None and seen.metadata["rows_total"].value else None


def _started_within(instance: dg.DagsterInstance, run: str, state: Path) -> float:
    """Seconds between Dagster's launch of the run and the first rows in the node's state."""
    (launched,) = instance.all_logs(run, of_type=dg.DagsterEventType.PIPELINE_STARTING)
    commits = [file for file in (state / "_delta_log").glob("*.json") if '"add":' in file.read_text()]
    return min(file.stat().st_mtime for file in commits) - launched.timestamp


def _judge(instance: dg.DagsterInstance, client: DagsterGraphQLClient, log: Path) -> str:
    """Run the checks to their end; the run."""
    run: str = client.submit_job_execution("quality", LOCATION.name, "__repository__")

    def ended() -> bool:
        found = instance.get_run_by_id(run)
        return found is not None and found.is_finished

    _until(ended, log)
    found = instance.get_run_by_id(run)
    if found is None or not found.is_success:
        raise SystemExit(f"The checks did not run to their end.\n{log.read_text(errors='replace')[-3000:]}")
    return run


def _until(reached: Callable[[], T | None], log: Path) -> T:
    """What `reached` says, as soon as it is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (said := reached()):
        if time.monotonic() > deadline:
            raise SystemExit(f"Dagster did not come so far.\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(1)
    return said


def _terminate(instance: dg.DagsterInstance, client: DagsterGraphQLClient) -> None:
    running = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
    for run in instance.get_runs(running):
        with suppress(Exception):
            client.terminate_run(run.run_id)
    deadline = time.monotonic() + 90
    while instance.get_runs_count(running) and time.monotonic() < deadline:
        time.sleep(1)


if __name__ == "__main__":
    typer.run(main)
