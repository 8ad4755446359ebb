"""`python -m benchmarks.ui_growth`: how fast a running stream makes Dagster's database grow, by what.

Dagster runs as on a laptop (webserver, daemon, code server, SQLite), its sensor starts the stream, and records come all
the time. SQLite keeps a run's events twice, in the run's own file and, those of assets, in an index; a row costs more on
disk than its text, by a factor that is measured as well. A day is extrapolated by kind of event: observations and
materializations by the cadence that is configured, counted with the same `Throttle`; verdicts of checks follow
materializations; all else is said once a run, at its start and end.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import dagster as dg
import typer
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from headrace.local import lifeline
from headrace.local.broker import Broker
from headrace.local.topics import create_topics
from headrace.orchestration.progress import Cadence, Throttle
from headrace.orchestration.streams import POLL_SECONDS, StreamConfig

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ("log/readings", "stream/reading_counts")
OBSERVED, MATERIALIZED = "ASSET_OBSERVATION", "ASSET_MATERIALIZATION"
CHECKED = "ASSET_CHECK_EVALUATION"
DAY_SECONDS, MB = 86_400, 1_000_000
EVENTS = (
    "SELECT coalesce(dagster_event_type, 'log line'), count(*), sum(length(event)) FROM event_logs GROUP BY 1"
)
TICKS = "SELECT 'tick', count(*), sum(length(tick_body)) FROM job_ticks"
PATIENCE_SECONDS = 240


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
    with tempfile.TemporaryDirectory(prefix="headrace-growth-") as folder:
        home = Path(folder) / "dagster"
        with _stream(Path(folder), home, rate):
            time.sleep(minutes * 60)
        report(home, minutes)


def report(home: Path, minutes: float) -> None:
    """Print what one run has left in Dagster's files, and the day that it makes."""
    events = _kept(sorted((home / "history" / "runs").glob("*.db")), EVENTS)
    ticks = _kept([home / "schedules" / "schedules.db"], TICKS)
    table = Table("kind", "rows seen", "kB on disk each", "rows a day", "MB a day")
    cadence, factor, total = events_a_day(), events.bytes / events.text.total(), 0.0
    runs = DAY_SECONDS / (StreamConfig().rotate_after_hours * 3600)
    for kind, a_day in cadence.items():
        total += _line(table, kind, events.rows[kind], factor * events.text[kind] / events.rows[kind], a_day)
    others = events.text.total() - sum(events.text[kind] for kind in cadence)
    total += _line(table, "a run's start and end", 1, factor * others, runs)
    (seen,) = ticks.rows.values()
    a_day = seen * DAY_SECONDS / (minutes * 60)
    _line(table, "ticks, deleted after a day", seen, ticks.bytes / seen, a_day)
    console = Console()
    console.print(table)
    console.print(
        f"{factor:.2f} bytes on disk for a byte of text. A day: {total:.1f} MB for one stream of two assets."
    )


def events_a_day() -> dict[str, float]:
    """Observations and materializations of a day, by the configured cadence: the same throttle, polled as the run does."""
    config = StreamConfig()
    hours = config.rotate_after_hours
    settles = config.settle_after_minutes * 60
    slow = config.materialize_every_minutes * 60
    observe = Throttle(Cadence(config.observe_every_seconds, config.observe_settled_every_seconds, settles))
    # Both assets have checks: they are materialized at the settled pace from the first moment on.
    materialize = Throttle(Cadence(slow, slow))
    counts = Counter[str]()
    for second in range(int(hours * 3600 / POLL_SECONDS)):
        for asset in ASSETS:
            counts[OBSERVED] += observe.due(asset, "running", second * POLL_SECONDS)
            counts[MATERIALIZED] += materialize.due(asset, "running", second * POLL_SECONDS)
    counts[CHECKED] = counts[MATERIALIZED]  # each repeats the verdict of `stream_is_advancing`
    return {kind: number * 24 / hours for kind, number in counts.items()}


def _line(table: Table, kind: str, seen: int, each: float, a_day: float) -> float:
    table.add_row(kind, f"{seen:,}", f"{each / 1000:,.1f}", f"{a_day:,.0f}", f"{each * a_day / MB:.2f}")
    return each * a_day / MB


def _kept(files: Sequence[Path], query: str) -> Kept:
    """In: query  kind, number and bytes of text; of an event in two files the number counts once."""
    rows, text, size = Counter[str](), Counter[str](), 0
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copyfile(file, Path(folder) / "copy.db"))
            with closing(sqlite3.connect(copy, isolation_level=None)) as database:
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
def _stream(root: Path, home: Path, rate: float) -> Iterator[None]:
    """A broker, records, and Dagster with a stream that runs; ended in order, so that all is in the files."""
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
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(port)]
        location = ["-f", str(Path(__file__).with_name("ui_location.py")), "-d", str(ROOT)]
        dagster = lifeline.spawn([*command, *location], log=root / "dagster.log", env=os.environ, cwd=ROOT)
        try:
            with dg.DagsterInstance.get() as instance:
                _until(lambda: _speaks(instance), root / "dagster.log")
                yield
                _terminate(instance, port)
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


def _speaks(instance: dg.DagsterInstance) -> bool:
    observed = instance.fetch_observations(dg.AssetKey.from_user_string(ASSETS[1]), limit=1).records
    seen = observed[0].asset_observation if observed else None
    return seen is not None and bool(seen.metadata["rows_total"].value)


def _until(reached: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise SystemExit(f"The stream did not start.\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(1)


def _terminate(instance: dg.DagsterInstance, port: int) -> None:
    from dagster_graphql import DagsterGraphQLClient

    running = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
    for run in instance.get_runs(running):
        with suppress(Exception):
            DagsterGraphQLClient("127.0.0.1", port_number=port).terminate_run(run.run_id)
    deadline = time.monotonic() + 90
    while instance.get_runs_count(running) and time.monotonic() < deadline:
        time.sleep(1)


if __name__ == "__main__":
    typer.run(main)
