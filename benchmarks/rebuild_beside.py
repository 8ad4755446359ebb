"""How fresh a stream's rows are while its whole log is rebuilt at the same time.

`python -m benchmarks.rebuild_beside` fills a topic with 10,000,000 readings, lets a stream of final windows catch up, and
sends on at a steady rate. After a minute a second process applies another grace (`headrace apply`): it folds the log beside
the stream's tables, compares the rows, and swaps the new tables in. The stream hands the node over and waits, as one with
the former code does; it is started again with the new description, and its tables are compared with a backfill. Exits 1
when they differ.

A record has arrived when the commit of the state that has folded it is made. While the node is swapped, the rebuild folds
the records; they arrive with the commit of the swap.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import readings
from benchmarks.freshness import History, Seen, note_step, read_latencies
from benchmarks.workbench import session_on
from headrace.changing.apply_changes import ApplyChanges
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.log.site import Site
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import pipeline_session
from headrace.streams.stream_runtime import StreamRuntime

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

TOPIC, CHANGED_GRACE = "readings", "5 minutes"
TRIGGER_MS = 200
READ_EVERY_SECONDS = 30.0


@dataclass
class Moments:
    """When what happened, in seconds since 1970; `stages` of the apply with their beginnings."""

    steady: float = 0.0
    begun: float = 0.0
    waits: float = 0.0
    applied: float = 0.0
    stages: list[tuple[float, str]] = field(default_factory=list)


def main(
    records: Annotated[int, typer.Option(help="Readings that the log has before.")] = 10_000_000,
    rate: Annotated[float, typer.Option(help="Records per second that come meanwhile.")] = 1_000.0,
    alone: Annotated[float, typer.Option(help="Seconds before the change is applied.")] = 60.0,
    apply_to: Annotated[str, typer.Option(help="Only apply the change to this lake.", hidden=True)] = "",
) -> None:
    """Measure and print."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-rebuild-")))
        if apply_to:
            _apply(session_on("", apply_to, folder, stack), Lake(apply_to))
            return
        lake = Lake(f"file:{folder}/lake")
        broker = stack.enter_context(Broker(folder / "kafka"))
        create_topics(broker.bootstrap_servers, {TOPIC: readings.PARTITIONS})
        print(f"{readings.produce(broker.bootstrap_servers, records):,} records produced", flush=True)
        spark = session_on("", lake.root, folder, stack)
        right = _measure(spark, lake, broker.bootstrap_servers, rate, alone)
        spark.stop()
    sys.exit(0 if right else 1)


def _apply(spark: SparkSession, lake: Lake) -> None:
    """Apply the change, and print each stage when it begins."""
    applied = ApplyChanges(Site(spark, lake), [readings.counts(grace=CHANGED_GRACE)]).run(
        on_stage=lambda stage: print(f"{time.time()} {stage}", flush=True)
    )
    print(applied, file=sys.stderr)


def _measure(spark: SparkSession, lake: Lake, servers: str, rate: float, alone: float) -> bool:
    node, changed = readings.counts(), readings.counts(grace=CHANGED_GRACE)
    kafka, seen, moments = KafkaSettings(bootstrap_servers=servers), Seen(), Moments()
    history = History(lake, [node])
    runtime = StreamRuntime(
        spark, lake, [node], kafka=kafka, trigger_ms=TRIGGER_MS, on_step=partial(note_step, seen)
    )
    began = time.monotonic()
    runtime.run_until_caught_up()
    print(f"caught up in {time.monotonic() - began:.0f} s", flush=True)
    traffic = subprocess.Popen([sys.executable, "-m", "benchmarks.steady", servers, str(rate), TOPIC])
    try:
        moments.steady = time.time()
        _watch(runtime, history, lambda: time.time() >= moments.steady + alone)
        moments.begun = time.time()
        act = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.rebuild_beside", "--apply-to", lake.root],
            stdout=subprocess.PIPE,
            text=True,
        )
        _watch(runtime, history, lambda: act.poll() is not None, moments)
        moments.applied = time.time()
        if act.returncode:
            raise TerminalError(f"The apply ended with {act.returncode}.")
        assert act.stdout is not None
        for line in act.stdout:
            at, _, stage = line.strip().partition(" ")
            moments.stages.append((float(at), stage))
        runtime.drain()
        again = StreamRuntime(
            spark, lake, [changed], kafka=kafka, trigger_ms=TRIGGER_MS, on_step=partial(note_step, seen)
        )
        _watch(again, history, lambda: time.time() >= moments.applied + alone)
    finally:
        traffic.kill()
        traffic.wait()
    again.run_until_caught_up()
    again.drain()
    history.read()
    session = pipeline_session(spark)
    read_latencies(session, lake, changed, seen, history)
    _print(seen, moments, rate, alone)
    right = all(verdict.equal for verdict in verify(session, lake, changed))
    print("the tables equal a backfill by the new description" if right else "a backfill DIFFERS")
    return right


def _watch(
    runtime: StreamRuntime, history: History, over: Callable[[], bool], moments: Moments | None = None
) -> None:
    """Let a stream run, and read commits while they are kept."""
    read_at = time.monotonic()
    while not over():
        for status in runtime.poll():
            if status.state == "failed":
                raise TerminalError(f"{status.asset} failed.", detail=status.error or "")
            if moments is not None and status.state == "waiting" and not moments.waits:
                moments.waits = time.time()
        if time.monotonic() - read_at > READ_EVERY_SECONDS:
            history.read()
            read_at = time.monotonic()
        time.sleep(0.2)


def _print(seen: Seen, moments: Moments, rate: float, alone: float) -> None:
    """The apply's stages, and the freshness of records by when they were produced."""
    ends = [*(at for at, _ in moments.stages[1:]), moments.applied]
    for (at, stage), end in zip(moments.stages, ends, strict=True):
        print(f"{at - moments.begun:6.1f} s  {stage} ({end - at:.1f} s)")
    print(
        f"{moments.applied - moments.begun:6.1f} s  applied; the stream waited from {moments.waits - moments.begun:.1f} s on"
    )
    shown = Table(title=f"{rate:,.0f} records/s; seconds from produce to a committed row")
    for column in ("records produced", "records", "median", "p99", "highest"):
        shown.add_column(column, justify="left" if column == "records produced" else "right")
    produced_ms, whole = (found["reading_counts"] for found in (seen.produced_ms, seen.latency_ms))
    spans = {
        "before": (moments.steady + alone / 3, moments.begun),
        "while it is rebuilt": (moments.begun, moments.waits),
        "while it is swapped, until the new code has come": (moments.waits, moments.applied),
        "after it": (moments.applied + alone / 3, moments.applied + alone),
    }
    for name, (first, last) in spans.items():
        steps = whole[(produced_ms >= first * 1000) & (produced_ms < last * 1000)].sum(axis=1) / 1000
        figures = (np.median(steps), np.percentile(steps, 99), steps.max()) if len(steps) else (np.nan,) * 3
        shown.add_row(name, f"{len(steps):,}", *(f"{figure:.2f}" for figure in figures))
    Console(width=120).print(shown)


if __name__ == "__main__":
    typer.run(main)
