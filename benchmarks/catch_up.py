"""Catch up: from full topics to committed results, the logs included."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from benchmarks.processes import Meter, Resident
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.fold.fates import NOT_RECORDS
from headrace.lake.storage import is_local, local_path, store_of
from headrace.lifecycle.backfill import verify
from headrace.nodes.progress import Progress
from headrace.observe.views import Views
from headrace.spark.session import pipeline_session
from headrace.streams.stream_runtime import StreamRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from benchmarks.readings import Expected
    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.spark.kafka import KafkaSettings

    Check = Callable[[Views], None]


@dataclass(frozen=True)
class Measured:
    """One run. Seconds and CPU seconds, of Python and its JVM, from the opened log to the last commit.

    highest  the highest resident sizes meanwhile
    thirds   records per second of the first, second and last third of the records, by the node's commits; none if one
             commit held them all
    """

    records: int
    seconds: float
    cpu_seconds: float
    written_mib: float
    highest: Resident = field(default_factory=Resident)
    thirds: Sequence[float] = ()

    @property
    def peak_mib(self) -> float:
        """The most memory that all processes had at one moment."""
        return self.highest.all

    @property
    def records_per_second(self) -> float:
        """Records over wall-clock seconds."""
        return self.records / self.seconds

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds for a million records."""
        return self.cpu_seconds / self.records * 1e6


def catch_up(
    spark: SparkSession, lake: Lake, kafka: KafkaSettings, node: Node, records: int, check: Check | None
) -> Measured:
    """Fold whole topics of `records` into a new lake, check the result, and say what it took.

    In:     check  raises when the tables are not what they must be; None: not checked
    """
    begun, folded_at, stream = [], [], f"stream/{node.required_name}_stream"

    def on_step(asset: str, step: str) -> None:
        if step == "after log commit":  # the first one of a log records where it begins
            begun.append(time.time())
        if (asset, step) == (stream, "after state"):
            folded_at.append(time.time())

    runtime = StreamRuntime(spark, lake, [node], kafka=kafka, trigger_ms=100, on_step=on_step)
    try:
        with Meter() as meter:
            runtime.run_until_caught_up(poll_seconds=0.2)
        began, ended = begun[0], folded_at[-1]
    finally:
        runtime.drain()
    if check is not None:
        check(Views(spark, lake))
    cpu, written = meter.cpu_between(began, ended), size_mib(lake)
    thirds = _thirds(lake, node, began, records)
    return Measured(records, ended - began, cpu, written, meter.highest, thirds)


def _thirds(lake: Lake, node: Node, began: float, records: int) -> Sequence[float]:
    """See `Measured`. Between two commits records are taken to be folded evenly."""
    table = lakes.open_table(lake.state(node.required_name))
    moments, folded = [began], [0]
    for commit in reversed([*table.commits_back(table.version)]):
        record = commit.record if commit is not None else None
        if commit is not None and (record or {}).get("writer") == f"node/{node.required_name}":
            totals = Progress.from_json(record["progress"]).totals()  # type: ignore[index]
            moments.append(commit.timestamp_ms / 1000)
            folded.append(sum(number for fate, number in totals.items() if fate not in NOT_RECORDS))
    if len(moments) < 3:
        return ()
    ends = np.interp([records * part / 3 for part in (1, 2, 3)], folded, moments)
    return [float(each) for each in records / 3 / np.diff([began, *ends])]


def size_mib(lake: Lake) -> float:
    """The bytes of all files of a lake."""
    if is_local(lake.root):
        return sum(f.stat().st_size for f in local_path(lake.root).rglob("*") if f.is_file()) / 2**20
    store, path = store_of(lake.root)
    return sum(file["size"] for page in store.list(path) for file in page) / 2**20


def backfill_seconds(spark: SparkSession, lake: Lake, node: Node) -> float:
    """How long it takes to compute a node's whole table from its log and compare it with what the stream wrote.

    Raises: TerminalError when they differ.
    """
    began = time.monotonic()
    verdicts = verify(pipeline_session(spark), lake, node)
    if not all(verdict.equal for verdict in verdicts):
        raise TerminalError(f"{node.required_name}: its backfill differs from what the stream wrote.")
    return time.monotonic() - began


def windows_are(right: Expected, node: Node) -> Check:
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
