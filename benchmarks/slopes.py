"""Slopes for `docs/scaling.md`: what catching up costs with more cores, buckets, Kafka partitions and keys.

`python -m benchmarks.slopes` runs on one machine with one broker. Each line is a catch-up of a whole topic into a new lake,
the log included: the second of two in one session, so it is warm. On two cores, `local[4]` and `local[8]` show the cost of
more buckets than cores. The lines on keys keep a total for each key. After their catch-up a micro-batch of a thousand
records shows what a small one costs with a state of that size.

Windows are compared with plain Python, and the sum of all counts with the number of records. All rows are compared with a
backfill.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import headrace as hr
from benchmarks import readings
from benchmarks.catch_up import Measured, catch_up, windows_are
from benchmarks.workbench import session_on
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lake.storage import local_path
from headrace.lifecycle.backfill import verify
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import pipeline_session
from headrace.streams.stream_runtime import StreamRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from benchmarks.catch_up import Check
    from headrace.description import Node

TASKS, PARTITIONS, KEYS = (1, 2, 4, 8), (1, 8, 64), (10**3, 10**4, 10**5, 10**6, 10**7)
FEW = 1_000  # of the last micro-batch


@dataclass(frozen=True)
class Trial:
    """One line of the table. In: tasks  Spark's at a time, and so the buckets of a large increment."""

    what: str
    records: int
    tasks: int = 2
    partitions: int = readings.PARTITIONS
    keys: int = 5_000
    totals: bool = False

    @property
    def topic(self) -> str:
        """Trials with the same records share it."""
        return f"readings-{self.partitions}-{self.keys}-{self.records}"

    @property
    def node(self) -> Node:
        """Totals of each key, or final windows."""
        if not self.totals:
            return readings.counts(topic=self.topic)
        topic = hr.Topic(self.topic, key="sensor_id STRING", value=readings.COLUMNS, idle_timeout=None)
        totals = {"n": hr.count(), "total": hr.sum("value")}
        return topic.group_by("sensor_id").aggregate(**totals).named("totals")


def trials(records: int, keys_max: int) -> Iterator[Trial]:
    """All lines; those with the same number of tasks share a session."""
    for tasks in TASKS:
        yield Trial(f"{tasks} tasks", records, tasks=tasks)
    for partitions in PARTITIONS:
        yield Trial(f"{partitions} partitions", records, partitions=partitions)
    for keys in KEYS:
        if keys <= keys_max:
            yield Trial(f"{keys:,} keys", max(records, keys), keys=keys, totals=True)


def main(
    records: Annotated[int, typer.Option(help="In each topic, at least one for each key.")] = 1_000_000,
    keys_max: Annotated[int, typer.Option(help="Leave out what has more keys.")] = KEYS[-1],
    only: Annotated[str, typer.Option(help="Lines whose name holds this.")] = "",
) -> None:
    """Measure and print."""
    shown = Table(title="Catch-up by cores, buckets, partitions and keys; warm")
    for column in ("", "records/s", "CPU s / million", "peak MiB", "lake MiB", f"{FEW:,} records more, s"):
        shown.add_column(column, justify="right" if column else "left")
    filled: set[str] = set()
    chosen = [trial for trial in trials(records, keys_max) if only in trial.what]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-slopes-")))
        broker = stack.enter_context(Broker(folder / "kafka"))
        for tasks in TASKS:
            of_session = [trial for trial in chosen if trial.tasks == tasks]
            if not of_session:
                continue
            with ExitStack() as session:
                spark = session_on(f"local[{tasks}]", f"file:{folder}", folder, session)
                for trial in of_session:
                    if trial.topic not in filled:
                        _fill(broker, trial)
                    filled.add(trial.topic)
                    measured, seconds = _tried(spark, folder, broker, trial)
                    figures = (measured.records_per_second, measured.peak_mib, measured.written_mib)
                    speed, peak, lake = (f"{figure:,.0f}" for figure in figures)
                    row = (
                        trial.what,
                        speed,
                        f"{measured.cpu_per_million:.1f}",
                        peak,
                        lake,
                        "" if seconds is None else f"{seconds:.2f}",
                    )
                    print(" | ".join(row), flush=True)
                    shown.add_row(*row)
                spark.stop()
    Console(width=120).print(shown)


def _fill(broker: Broker, trial: Trial) -> None:
    create_topics(broker.bootstrap_servers, {trial.topic: trial.partitions})
    servers = broker.bootstrap_servers
    readings.produce(servers, trial.records, topic=trial.topic, keys=trial.keys, partitions=trial.partitions)


def _tried(spark: SparkSession, folder: Path, broker: Broker, trial: Trial) -> tuple[Measured, float | None]:
    """The second of two catch-ups, and of totals the seconds of a small micro-batch after it."""
    kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    sent = trial.records + trial.partitions  # one closes each partition's windows
    for run in ("warm-up", "measured"):
        lake = Lake(f"file:{folder}/{trial.topic}-{trial.tasks}-{run}")
        measured = catch_up(spark, lake, kafka, trial.node, sent, _check(spark, trial, sent))
        if run == "warm-up":
            shutil.rmtree(local_path(lake.root))
    seconds = _little(spark, lake, broker, kafka, trial) if trial.totals else None
    _require(
        all(each.equal for each in verify(pipeline_session(spark), lake, trial.node)), "a backfill differs"
    )
    shutil.rmtree(local_path(lake.root))
    return measured, seconds


def _check(spark: SparkSession, trial: Trial, sent: int) -> Check:
    if not trial.totals:
        return windows_are(readings.expected(trial.records, partitions=trial.partitions), trial.node)

    def check(views: Views) -> None:
        row = views.read(trial.node).agg(F.sum("n")).first()
        _require(row is not None and row[0] == sent, f"{row} records counted, not {sent}")

    return check


def _little(spark: SparkSession, lake: Lake, broker: Broker, kafka: KafkaSettings, trial: Trial) -> float:
    """Seconds of the node's micro-batch with few records, in a stream that begins with the state on disk."""
    steps: dict[str, float] = {}
    runtime = StreamRuntime(
        spark,
        lake,
        [trial.node],
        kafka=kafka,
        trigger_ms=100,
        on_step=lambda a, s: steps.update({f"{a}: {s}": time.time()}),
    )
    try:
        for _ in range(2):  # the first one reads the state
            readings.produce(
                broker.bootstrap_servers, FEW, topic=trial.topic, keys=trial.keys, partitions=trial.partitions
            )
            runtime.run_until_caught_up(poll_seconds=0.2)
    finally:
        runtime.drain()
    node = f"stream/{trial.node.required_name}_stream"
    return steps[f"{node}: after state"] - steps[f"log/{trial.topic}: after log commit"]


def _require(is_right: bool, what: str) -> None:
    if not is_right:
        raise TerminalError(f"Wrong result: {what}.")


if __name__ == "__main__":
    typer.run(main)
