"""How long after it was produced a record is in a committed Delta table, at a steady rate, and what that does over time.

`python -m benchmarks.freshness` runs the four jobs of `benchmarks.jobs`, first W2 alone and then all in one Spark session.
`--minutes 10` shows growth as well. `--lake s3 --delay-ms 30` puts the lake on an S3 server, 30 ms away.

A record has arrived when the state commit that has folded it is made: each view of the node shows it from then on. Where
the time went is told by the commits, for every record. At the end each node is drained and its tables are compared with a
backfill: exits 1 when one differs.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import headrace as hr
from benchmarks.jobs import Job, jobs
from benchmarks.processes import cpu_seconds, jvm_of, resident_mib
from benchmarks.steady import PARTITIONS
from benchmarks.workbench import root_of, session_on
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.spark.kafka import KafkaSettings
from headrace.spark.lake_rows import read
from headrace.spark.session import pipeline_session
from headrace.streams.stream_runtime import StreamRuntime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node, Stream, Topic
    from headrace.lake.commits.commit_file import CommitFile

READ_EVERY_SECONDS = 60.0  # commit files are kept for minutes
WARM_UP_SECONDS = 90.0  # not counted: the JVM compiles
STEPS = ("until the log's commit begins", "the log's commit", "until the node's commit")


@dataclass
class Seen:
    """What a run showed.

    steps       by stream and step of a commit: when it was done, in ms since 1970
    latency_ms  by node and record: the time of each of `STEPS`, in ms, one row per record
    produced_ms by node: when each record was produced
    samples     seconds since the start, CPU seconds and resident MiB of the JVM
    """

    steps: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    latency_ms: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    produced_ms: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    samples: list[tuple[float, float, float]] = field(default_factory=list)
    batch_seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def main(
    rate: Annotated[float, typer.Option(help="Records per second, in all.")] = 5_000.0,
    minutes: Annotated[float, typer.Option(help="How long is measured, after 90 s of warming up.")] = 3.0,
    trigger_ms: Annotated[int, typer.Option(help="The shortest time between two micro-batches.")] = 200,
    only: Annotated[str, typer.Option(help="Runs, as in 'W2' or 'W2,all'.")] = "W2,all",
    lake: Annotated[
        str, typer.Option(help="Where the lake lies: `file`, or `s3` for a server here.")
    ] = "file",
    master: Annotated[
        str, typer.Option(help="Spark's master URL, or `standalone`: two workers are started here.")
    ] = "",
    delay_ms: Annotated[float, typer.Option(help="With `s3`: added to each request.")] = 0.0,
    streams: Annotated[
        int, typer.Option(help="So many streams like W2 in one run, each with a topic of its own; 0: `only`.")
    ] = 0,
    steps: Annotated[
        bool, typer.Option("--steps", help="With `streams`: each has a `where` and two computed columns.")
    ] = False,
) -> None:
    """Measure freshness."""
    console, right = Console(width=120), True
    for name in [f"{streams} streams"] if streams else only.split(","):
        chosen = [quiet(number, steps=steps) for number in range(streams)] or [
            job for job in jobs() if name in ("all", job.name)
        ]
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-fresh-")))
            place = Lake(f"{root_of(lake, folder, stack, delay_ms)}/lake")
            broker = stack.enter_context(Broker(folder / "kafka"))
            topics = [topic for job in chosen for topic in job.topics]
            create_topics(broker.bootstrap_servers, dict.fromkeys(topics, PARTITIONS))
            spark = session_on(master, place.root, folder, stack)
            kafka, nodes, seen = (
                KafkaSettings(bootstrap_servers=broker.bootstrap_servers),
                [job.node for job in chosen],
                Seen(),
            )
            history = History(place, nodes)
            runtime = StreamRuntime(
                spark, place, nodes, kafka=kafka, trigger_ms=trigger_ms, on_step=partial(note_step, seen)
            )
            _run(runtime, spark, broker.bootstrap_servers, rate, topics, minutes * 60, seen, history)
            session = pipeline_session(spark)
            for node in nodes:
                read_latencies(session, place, node, seen, history)
                if not all(verdict.equal for verdict in verify(session, place, node)):
                    console.print(f"{node.required_name}: its backfill DIFFERS")
                    right = False
            shown = [_together(chosen, seen)] if streams else chosen
            console.print(_table(f"{name}: {rate:,.0f} records/s in all", shown, seen))
            _growth(console, seen)
            spark.stop()
    sys.exit(0 if right else 1)


def quiet(number: int, *, steps: bool = False) -> Job:
    """A stream like W2, on a topic of its own. In: steps  with a `where` and two computed columns."""
    topic = hr.Topic(
        f"ks-readings-{number}",
        key="sensorId STRING",
        value="sensorId STRING, value BIGINT",
        idle_timeout=None,
    )
    topics = (topic.name,)
    readings: Topic | Stream = topic
    if steps:
        labelled = readings.with_column("label", "upper(substring(sensorId, 1, 3))")
        readings = labelled.with_column("value", "value * 2 + 1").where("label <> 'ZZZ' AND value > 0")
    windows = readings.group_by("sensorId").window(hr.tumbling("2 minutes"), grace="2 minutes")
    node = windows.aggregate(count=hr.count(), sum=hr.sum("value")).suppress(hr.until_window_closes())
    return Job(f"S{number}", "windows", "readings", topics, "rocks", node.named(f"windows_{number}"))


def _together(chosen: Sequence[Job], seen: Seen) -> Job:
    """The records of all, as those of the first."""
    names = [job.node.required_name for job in chosen]
    seen.latency_ms = {names[0]: np.concatenate([seen.latency_ms[name] for name in names])}
    seen.produced_ms = {names[0]: np.concatenate([seen.produced_ms[name] for name in names])}
    return chosen[0]


class History:
    """The commits of a lake's logs and states: read while it runs, for old ones are cleaned away."""

    def __init__(self, lake: Lake, nodes: Sequence[Node]) -> None:
        """Nothing is read yet."""
        states = {lake.state(node.required_name) for node in nodes}
        self._tables = [*states, *{lake.log(topic.name) for node in nodes for topic in node.topics}]
        self._known: dict[str, dict[int, CommitFile]] = {uri: {} for uri in self._tables}

    def read(self) -> None:
        """Read what is new."""
        for uri, known in self._known.items():
            if not lakes.exists(uri):
                continue
            table = lakes.open_table(uri)
            for commit in table.commits_back(table.version):
                if commit is None or commit.version in known:
                    break
                known[commit.version] = commit

    def of(self, uri: str, writer: str) -> list[CommitFile]:
        """The commits of a writer, the oldest first."""
        found = (commit for _, commit in sorted(self._known[uri].items()))
        return [commit for commit in found if (commit.record or {}).get("writer") == writer]


def note_step(seen: Seen, asset: str, step: str) -> None:
    """Note when a step of a commit was done."""
    seen.steps[asset, step].append(time.time() * 1000)


def _run(
    runtime: StreamRuntime,
    spark: SparkSession,
    bootstrap: str,
    rate: float,
    topics: Sequence[str],
    seconds: float,
    seen: Seen,
    history: History,
) -> None:
    """Run with traffic, stop that, catch up and drain."""
    jvm, read_at = jvm_of(spark), time.monotonic()
    traffic = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.steady", bootstrap, str(rate), *topics],
        start_new_session=True,
    )
    try:
        began = time.monotonic()
        while (passed := time.monotonic() - began) < WARM_UP_SECONDS + seconds:
            for status in runtime.poll():
                if status.state == "failed":
                    raise TerminalError(f"{status.asset} failed.", detail=status.error or "")
                if status.batch_seconds is not None and passed > WARM_UP_SECONDS:
                    seen.batch_seconds[status.asset].append(status.batch_seconds)
            if passed > WARM_UP_SECONDS:
                # A look at the streams takes seconds when the cores are full.
                sampled = time.monotonic() - began
                seen.samples.append((sampled, cpu_seconds(), resident_mib(jvm)))
            if time.monotonic() - read_at > READ_EVERY_SECONDS:
                history.read()
                read_at = time.monotonic()
            time.sleep(1.0)
        traffic.send_signal(signal.SIGTERM)
        traffic.wait()
        runtime.run_until_caught_up()
    finally:
        traffic.kill()
        traffic.wait()
        runtime.drain()
        history.read()


def read_latencies(spark: SparkSession, lake: Lake, node: Node, seen: Seen, history: History) -> None:
    """Where each record's time went, from the commits of its log and of its node."""
    name = node.required_name
    folded = _done(
        history.of(lake.state(name), f"node/{name}"), seen.steps[f"stream/{name}_stream", "after state"]
    )
    parts, produced = [], []
    for topic in node.topics:
        commits = history.of(lake.log(topic.name), f"log/{topic.name}")
        done = _done(commits, seen.steps[f"log/{topic.name}", "after log commit"])
        logged = {record["ingested_at_ms"]: at for at, record in done}
        reached = [record["progress"]["upto_ms"].get(topic.name, 0) for _, record in folded]
        counted = (
            read(spark, lake.log(topic.name))
            .where("kind = 'record'")
            .groupBy(F.unix_millis("ingested_at").alias("at"), F.unix_millis("timestamp").alias("ts"))
            .count()
            .collect()
        )
        for row in counted:
            commit = bisect_left(reached, row["at"])
            steps = (
                row["at"] - row["ts"],
                logged[row["at"]] - row["at"],
                folded[commit][0] - logged[row["at"]],
            )
            parts.append(np.repeat([steps], row["count"], axis=0))
            produced.append(np.repeat(row["ts"], row["count"]))
    at = np.concatenate(produced)
    measured = at >= at.min() + WARM_UP_SECONDS * 1000
    seen.latency_ms[node.required_name] = np.concatenate(parts)[measured]
    seen.produced_ms[node.required_name] = at[measured]


def _done(commits: Sequence[CommitFile], steps: Sequence[float]) -> list[tuple[float, Any]]:
    """When each commit was done, in ms, and what it says: the first step after it was begun."""
    found = []
    for commit in commits:
        place = bisect_left(steps, commit.timestamp_ms)
        if place < len(steps):
            found.append((steps[place], commit.record))
    return found


def _table(title: str, jobs: Sequence[Job], seen: Seen) -> Table:
    table = Table(title=f"{title}; seconds from produce to a committed row")
    for column in ("job", "records", "median", "p99", "highest", *(f"{step} (median)" for step in STEPS)):
        table.add_column(column, justify="right")
    for job in jobs:
        steps = seen.latency_ms[job.node.required_name] / 1000
        whole = steps.sum(axis=1)
        figures = (np.median(whole), np.percentile(whole, 99), whole.max(), *np.median(steps, axis=0))
        table.add_row(f"{job.name} {job.title}", f"{len(whole):,}", *(f"{figure:.2f}" for figure in figures))
    return table


def _growth(console: Console, seen: Seen) -> None:
    """The first and the last third: latency, seconds of a micro-batch, CPU and memory."""
    if not seen.samples:
        return
    for name, steps in seen.latency_ms.items():
        at, whole = seen.produced_ms[name], steps.sum(axis=1) / 1000
        thirds = np.quantile(at, (1 / 3, 2 / 3))
        first, last = np.median(whole[at <= thirds[0]]), np.median(whole[at >= thirds[1]])
        console.print(f"{name}: median {first:.2f} s in the first third, {last:.2f} s in the last")
    for asset, seconds in seen.batch_seconds.items():
        third = max(1, len(seconds) // 3)
        console.print(
            f"{asset}: a micro-batch takes {np.median(seconds[:third]):.2f} s, then {np.median(seconds[-third:]):.2f} s"
        )
    (began, cpu, mib), (ended, cpu_end, mib_end) = seen.samples[0], seen.samples[-1]
    cores = (cpu_end - cpu) / max(ended - began, 1e-9)
    console.print(f"{cores:.2f} cores used; JVM {mib:,.0f} MiB at first, {mib_end:,.0f} MiB at last")


if __name__ == "__main__":
    typer.run(main)
