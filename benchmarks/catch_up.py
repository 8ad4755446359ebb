"""Catch up: from full topics to committed results, the logs included."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from benchmarks.processes import CpuMeter, peak_mib
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.observe.views import Views
from headrace.spark.session import pipeline_session
from headrace.streams.stream_runtime import StreamRuntime

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from benchmarks.readings import Expected
    from headrace.description import Node, WindowedAggregate
    from headrace.spark.kafka import KafkaSettings

    Check = Callable[[Views], None]


@dataclass(frozen=True)
class Measured:
    """One run. Seconds and CPU seconds, of Python and its JVM, from the first trigger with records to the last commit."""

    records: int
    seconds: float
    cpu_seconds: float
    peak_mib: float
    written_mib: float

    @property
    def records_per_second(self) -> float:
        """Records over wall-clock seconds."""
        return self.records / self.seconds


def catch_up(
    spark: SparkSession, folder: Path, kafka: KafkaSettings, node: Node, records: int, check: Check | None
) -> Measured:
    """Fold whole topics of `records` into a new lake, check the result, and say what it took.

    In:     check  raises when the tables are not what they must be; None: not checked
    """
    lake = Lake(f"file:{folder}")
    runtime = StreamRuntime(spark, lake, [node], kafka=kafka, trigger_ms=100)
    try:
        with CpuMeter() as meter:
            runtime.run_until_caught_up(poll_seconds=0.2)
        queries = runtime._spark.streams.active
        began = min(first_record_at(query) for query in queries if query.name.startswith("log/"))
        ended = _last_commit_at(spark, lake, node)
    finally:
        runtime.drain()
    if check is not None:
        check(Views(spark, lake))
    written = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return Measured(records, ended - began, meter.between(began, ended), peak_mib(), written / 2**20)


def first_record_at(query: StreamingQuery) -> float:
    """When the trigger began that read the query's first records, in seconds since 1970."""
    progress = (json.loads(each.json) for each in query.recentProgress)
    first = next(each for each in progress if each["numInputRows"])
    return datetime.fromisoformat(first["timestamp"]).timestamp()


def _last_commit_at(spark: SparkSession, lake: Lake, node: Node) -> float:
    """When the newest micro-batch of a node was committed."""
    path, name = lake.state(node.required_name), node.required_name
    last = lakes.last_commit(lakes.open_table(path), f"node/{name}")
    assert last is not None
    commit = Path(path.removeprefix("file:")) / "_delta_log" / f"{last.version:020d}.json"
    return commit.stat().st_mtime


def backfill_seconds(spark: SparkSession, folder: Path, node: Node) -> float:
    """How long it takes to compute a node's whole table from its log and compare it with what the stream wrote.

    Raises: TerminalError when they differ.
    """
    began = time.monotonic()
    verdicts = verify(pipeline_session(spark), Lake(f"file:{folder}"), node)
    if not all(verdict.equal for verdict in verdicts):
        raise TerminalError(f"{node.required_name}: its backfill differs from what the stream wrote.")
    return time.monotonic() - began


def windows_are(right: Expected, node: WindowedAggregate) -> Check:
    """A check that the final windows of `benchmarks.readings` are what its log says.

    Raises: TerminalError when they are not.
    """

    def check(views: Views) -> None:
        found = views.read(node).agg(F.count("*"), F.sum("n"), F.sum("total")).first()
        late = views.ledger(node).where("fate = 'late'").agg(F.sum("records")).first()
        measured = (*(found or ()), *(late or ()))
        wanted = (right.windows, right.records, right.total, right.late)
        if measured != wanted:
            raise TerminalError(f"Wrong result: windows, records, total, late are {measured}, not {wanted}.")

    return check
