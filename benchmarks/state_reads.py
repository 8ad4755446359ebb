"""Bytes of the state that a micro-batch reads, with few keys in it and with many, and how long it takes.

`make bench ARGS="--state-reads"` or `python -m benchmarks.state_reads`. The state gets one record for each key, in pieces
as a catch-up reads them. Then micro-batches of the same size touch the same number of keys, in three phases: as the catch-up
has left the state, packed as a stream packs it then, and with local copies.

Of windows the state is read when they close: each micro-batch closes one window of as many keys as it touches. Of sessions,
time limits and timers as many are due in each micro-batch, and all others are open. Before each micro-batch the process
forgets all rows of the state. Logs are written by hand, and not counted. In the end totals, windows and sessions are
compared with SQL over the log, and the others with a fold of the whole log.
"""

from __future__ import annotations

import datetime as dt
import os
import resource
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import headrace as hr
from headrace.engine import state_reads
from headrace.engine.state_copies import StateCopies
from headrace.engine.state_groups import GROUPS
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lake.state_limits import COPIES_BYTES_DEFAULT
from headrace.lifecycle.backfill import verify
from headrace.log.clock import ManualClock
from headrace.log.sequencer import Sequencer
from headrace.observe.views import Views
from headrace.spark.jars import spark_jars
from headrace.spark.lake_rows import read_table
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import Column, SparkSession

    from headrace.description import Node

BEGIN_MS, PARTITIONS, MINUTE_MS = 1_780_000_020_000, 4, 60_000  # the beginning of a minute
GRACE_MS = 30 * 24 * 60 * MINUTE_MS
NOW_MS = BEGIN_MS + 2 * GRACE_MS  # all event times have passed
PRIME = 2_654_435_761  # spreads keys
PIECE = 500_000  # records of a log commit while the state fills
WARM_UP = 3  # micro-batches that are not counted

readings = hr.Topic("readings", key="sensor_id STRING", value="value BIGINT", idle_timeout=None)
by_sensor = readings.group_by("sensor_id")
TOTALS = {"n": hr.count(), "total": hr.sum("value")}


class Reminded(hr.Processor):
    """Gives a row thirty days after a sensor's last record."""

    def init(self, context: hr.Context) -> None:
        """Keep the store."""
        self.context, self.last = context, context.store("last")

    def process(self, record: hr.Record) -> None:
        """Set the timer anew."""
        self.last.put(record["value"])
        self.context.schedule("30 days", self.remind, once=True)

    def remind(self, moment: dt.datetime) -> None:
        """Give the row."""
        self.context.forward(sensor_id=self.context.key["sensor_id"], value=self.last.get(), at=moment)


NODES: Sequence[Node] = (
    by_sensor.aggregate(**TOTALS).named("totals"),
    by_sensor.window(hr.tumbling(MINUTE_MS), grace=GRACE_MS).aggregate(**TOTALS).named("windows"),
    by_sensor.window(hr.session(MINUTE_MS), grace=GRACE_MS).aggregate(**TOTALS).named("sessions"),
    by_sensor.aggregate(**TOTALS).suppress(hr.until_time_limit(GRACE_MS)).named("limits"),
    by_sensor.process(
        Reminded,
        output="sensor_id STRING, value BIGINT, at TIMESTAMP",
        stores=[hr.value_store("last", "value BIGINT")],
        stream_wait="30 days",
    ).named("timers"),
)
BY_SQL = "totals", "windows", "sessions"  # each session has records of one moment


@dataclass(frozen=True)
class Phase:
    """Micro-batches in one phase.

    state_bytes  before them
    bytes_read, seconds, cpu  of each micro-batch that counts; rows: those of the state that it needed
    """

    name: str
    state_bytes: int
    bytes_read: Sequence[int]
    rows: Sequence[int]
    seconds: Sequence[float]
    cpu: Sequence[float]


class Line:
    """A log and a node, driven by hand."""

    def __init__(self, spark: SparkSession, lake: Lake, node: Node) -> None:
        self.spark, self.lake, self.node = spark, lake, node
        self.runner = NodeRunner(spark, node, lake)
        self._clock, self._next = ManualClock(NOW_MS), 0
        self._log = Sequencer(spark, readings, lake.log(readings.name), self._clock)

    def append(self, records: int, keys: int, touched: int, first: int, event_ms: Column) -> None:
        """Commit records that touch some of the keys, from a place on. In: event_ms  by `id`, the record's number."""
        number = F.col("id")
        key = F.pmod((number % touched + first) * PRIME, F.lit(keys))
        self._clock.set(self._clock.now_ms() + 1_000)
        raw = self.spark.range(0, records, numPartitions=PARTITIONS).select(
            F.concat(F.lit("s"), key).cast("binary").alias("key"),
            F.format_string('{"value":%d}', number % 1_000).cast("binary").alias("value"),
            F.lit(readings.name).alias("topic"),
            F.pmod(key, F.lit(PARTITIONS)).cast("int").alias("partition"),
            (number + self._next).alias("offset"),
            F.timestamp_millis(event_ms.cast("long")).alias("timestamp"),
            F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
        )
        self._next += records
        self._log.append(raw)

    def fold(self) -> None:
        """Run the node to the end of its log."""
        while self.runner.advance():
            pass

    def require_right(self) -> None:
        """Compare what people see with SQL over the log, or with a fold of it.

        Raises: TerminalError when they differ
        """
        if self.node.required_name not in BY_SQL:
            for verdict in verify(self.spark, self.lake, self.node):
                if not verdict.equal:
                    raise TerminalError(
                        f"{self.node.required_name}: a fold of the log differs.", detail=str(verdict)
                    )
            return
        log = read_table(self.spark, self.lake.log(readings.name)).where("kind = 'record'")
        start = F.date_trunc("minute", "timestamp").alias("window_start")
        by = [F.col("key.sensor_id"), *([start] if "window_start" in self.node.columns else [])]
        wanted = log.groupBy(*by).agg(F.count("*").alias("n"), F.sum("value.value").alias("total"))
        found = Views(self.spark, self.lake).read(self.node).select(*wanted.columns)
        wrong = wanted.exceptAll(found).count() + found.exceptAll(wanted).count()
        if wrong:
            raise TerminalError(f"{self.node.required_name}: {wrong:,} rows are not what the log says.")


class Measure:
    """Fills the state of one node, and measures phase by phase. A window of the state has as many keys as one touches."""

    def __init__(self, line: Line, keys: int, records: int, touched: int, batches: int) -> None:
        self.line, self._keys, self._records = line, keys, records
        self._touched, self._batches, self._number = touched, batches, 0

    def fill(self) -> float:
        """Catch up with one record for each key; the records of a second."""
        seconds = 0.0
        for first in range(0, self._keys, PIECE):
            records = min(PIECE, self._keys - first)
            window = F.floor((F.col("id") + first) / self._touched)
            self.line.append(records, self._keys, records, first, F.lit(BEGIN_MS) + window * MINUTE_MS)
            began = time.monotonic()
            self.line.fold()
            seconds += time.monotonic() - began
        return self._keys / seconds

    def pack(self) -> float:
        """Pack as a stream does once it has caught up; seconds."""
        began = time.monotonic()
        while self.line.runner.is_packing_due(at_rest=True):
            self.line.runner.pack(at_rest=True)
        return time.monotonic() - began

    def phase(self, name: str) -> Phase:
        """Run micro-batches."""
        reads = self.line.runner.reads
        state_bytes, read, rows, seconds, cpu = self.line.runner.state_bytes(), [], [], [], []
        for _ in range(WARM_UP + self._batches):
            closing_ms = BEGIN_MS + GRACE_MS + (self._number + 1) * MINUTE_MS
            first = self._number * self._touched
            self._number += 1
            self.line.append(self._records, self._keys, self._touched, first, F.lit(closing_ms))
            GROUPS.clear()
            known = reads.numbers()["state_rows_read"]
            began, cpu_began = time.monotonic(), time.process_time()
            self.line.fold()
            seconds.append(time.monotonic() - began)
            cpu.append(time.process_time() - cpu_began)
            state_reads.COPIES.wait()  # type: ignore[attr-defined]
            assert reads.last_bytes is not None
            read.append(reads.last_bytes)
            rows.append(reads.numbers()["state_rows_read"] - known)
        return Phase(name, state_bytes, read[WARM_UP:], rows[WARM_UP:], seconds[WARM_UP:], cpu[WARM_UP:])


def main(
    keys: Annotated[list[int] | None, typer.Option(help="Keys in the state; repeat.")] = None,
    records: Annotated[int, typer.Option(help="Records of a micro-batch.")] = 1_000,
    touched: Annotated[int, typer.Option(help="Keys that a micro-batch touches.")] = 100,
    batches: Annotated[
        int, typer.Option(help=f"Micro-batches that count; {WARM_UP} before them do not.")
    ] = 20,
    only: Annotated[
        str, typer.Option(help="Names of nodes, as in 'sessions,limits,timers'; all of them.")
    ] = "",
    root: Annotated[str | None, typer.Option(help="URI below which lakes lie, as s3://bucket/x.")] = None,
    folder: Annotated[str | None, typer.Option(help="For temporary files.")] = None,
) -> None:
    """Print bytes and seconds of a micro-batch by node and by number of keys."""
    spark = pipeline_session(build_session(spark_conf(spark_jars(), master=f"local[{os.cpu_count()}]")))
    table = Table(title=f"Micro-batches of {records:,} records that touch {touched:,} keys; medians")
    for column in (
        "node",
        "keys",
        "phase",
        "state, bytes",
        "read, bytes",
        "highest",
        "rows of it",
        "seconds",
        "CPU seconds",
    ):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=folder) as below:
        for node in [each for each in NODES if not only or each.required_name in only.split(",")]:
            for number in keys or (10_000, 1_000_000):
                _require_in_time(number, touched)
                lake = Lake(f"{root or 'file:' + below}/{node.required_name}-{number}-{os.getpid()}")
                measure = Measure(Line(spark, lake, node), number, records, touched, batches)
                _add(table, node.required_name, number, _phases(measure, Path(below) / "copies"))
    Console(width=140).print(table)
    typer.echo(
        f"driver's Python: at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB resident"
    )


def _require_in_time(keys: int, touched: int) -> None:
    """The records that fill the state may not span more than the grace: those of micro-batches would be late.

    In: touched  keys of a micro-batch; as many have the same minute
    """
    if keys // touched * MINUTE_MS >= GRACE_MS:
        least = keys * MINUTE_MS // GRACE_MS + 1
        raise typer.BadParameter(
            f"with {keys:,} keys a micro-batch has to touch {least:,} at least: --touched {least}"
        )


def _phases(measure: Measure, copies: Path) -> Iterator[Phase]:
    state_reads.COPIES = StateCopies(copies, 0)  # type: ignore[attr-defined]
    typer.echo(f"catch-up: {measure.fill():,.0f} records/s")
    yield measure.phase("as caught up")
    typer.echo(f"packed in {measure.pack():.1f} s")
    yield measure.phase("packed")
    state_reads.COPIES = StateCopies(copies, COPIES_BYTES_DEFAULT)  # type: ignore[attr-defined]
    yield measure.phase("copied")
    typer.echo(f"copies: {state_reads.COPIES.bytes:,} bytes")  # type: ignore[attr-defined]
    measure.line.require_right()


def _add(table: Table, node: str, keys: int, phases: Iterable[Phase]) -> None:
    for phase in phases:
        table.add_row(
            node,
            f"{keys:,}",
            phase.name,
            f"{phase.state_bytes:,}",
            *(f"{each:,.0f}" for each in (statistics.median(phase.bytes_read), max(phase.bytes_read))),
            f"{statistics.median(phase.rows):,.0f}",
            *(f"{statistics.median(each):.3f}" for each in (phase.seconds, phase.cpu)),
        )


if __name__ == "__main__":
    typer.run(main)
