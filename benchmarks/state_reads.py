"""Bytes of the state that a micro-batch reads, with few keys in it and with many.

`make bench ARGS="--state-reads"` or `python -m benchmarks.state_reads`. The state gets one record for each key and is
compacted; then micro-batches of the same size touch the same number of keys. Of windows the state is read when they close:
each micro-batch closes one window of as many keys as it touches. Before each micro-batch the process forgets all rows of the
state, for what it remembers it does not read. Logs are written by hand, and not counted. In the end totals and windows are
compared with SQL over the log.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import headrace as hr
from headrace.engine.state_groups import GROUPS
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.log.sequencer import Sequencer
from headrace.observe.views import Views
from headrace.spark.jars import spark_jars
from headrace.spark.lake_rows import read_table
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, SparkSession

    from headrace.description import Node

BEGIN_MS, PARTITIONS, MINUTE_MS = 1_780_000_020_000, 4, 60_000  # the beginning of a minute
GRACE_MS = 30 * 24 * 60 * MINUTE_MS
NOW_MS = BEGIN_MS + 2 * GRACE_MS  # all event times have passed
PRIME = 2_654_435_761  # spreads keys
WARM_UP = 3  # micro-batches that are not counted

readings = hr.Topic("readings", key="sensor_id STRING", value="value BIGINT", idle_timeout=None)
by_sensor = readings.group_by("sensor_id")
TOTALS = {"n": hr.count(), "total": hr.sum("value")}
NODES: Sequence[Node] = (
    by_sensor.aggregate(**TOTALS).named("totals"),
    by_sensor.window(hr.tumbling(MINUTE_MS), grace=GRACE_MS).aggregate(**TOTALS).named("windows"),
)


@dataclass(frozen=True)
class Found:
    """Of each micro-batch that counts the bytes and the seconds; and the size of the state before them."""

    state_bytes: int
    bytes_read: Sequence[int]
    seconds: Sequence[float]


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
        """Compare what people see with SQL over the log.

        Raises: TerminalError when they differ
        """
        log = read_table(self.spark, self.lake.log(readings.name)).where("kind = 'record'")
        start = F.date_trunc("minute", "timestamp").alias("window_start")
        by = [F.col("key.sensor_id"), *([start] if "window_start" in self.node.columns else [])]
        wanted = log.groupBy(*by).agg(F.count("*").alias("n"), F.sum("value.value").alias("total"))
        found = Views(self.spark, self.lake).read(self.node).select(*wanted.columns)
        wrong = wanted.exceptAll(found).count() + found.exceptAll(wanted).count()
        if wrong:
            raise TerminalError(f"{self.node.required_name}: {wrong:,} rows are not what the log says.")


def measure(line: Line, keys: int, records: int, touched: int, batches: int) -> Found:
    """Fill the state, compact it, and run micro-batches. A window of the state has as many keys as one touches."""
    line.append(keys, keys, keys, 0, F.lit(BEGIN_MS) + F.floor(F.col("id") / touched) * MINUTE_MS)
    line.fold()
    line.runner.maintain()
    state_bytes, read, seconds = line.runner.state_bytes(), [], []
    for number in range(WARM_UP + batches):
        closing_ms = BEGIN_MS + GRACE_MS + (number + 1) * MINUTE_MS
        line.append(records, keys, touched, number * touched, F.lit(closing_ms))
        GROUPS.clear()
        began = time.monotonic()
        line.fold()
        seconds.append(time.monotonic() - began)
        assert line.runner.state_bytes_read is not None
        read.append(line.runner.state_bytes_read)
    line.require_right()
    return Found(state_bytes, read[WARM_UP:], seconds[WARM_UP:])


def main(
    keys: Annotated[list[int] | None, typer.Option(help="Keys in the state; repeat.")] = None,
    records: Annotated[int, typer.Option(help="Records of a micro-batch.")] = 1_000,
    touched: Annotated[int, typer.Option(help="Keys that a micro-batch touches.")] = 100,
    batches: Annotated[
        int, typer.Option(help=f"Micro-batches that count; {WARM_UP} before them do not.")
    ] = 20,
) -> None:
    """Print bytes and seconds of a micro-batch by node and by number of keys."""
    spark = pipeline_session(build_session(spark_conf(spark_jars(), master=f"local[{os.cpu_count()}]")))
    table = Table(title=f"Micro-batches of {records:,} records that touch {touched:,} keys")
    for column in ("node", "keys", "state, bytes", "read, median", "read, highest", "seconds, median"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for node in NODES:
            for number in keys or (10_000, 1_000_000):
                lake = Lake(f"file:{folder}/{node.required_name}-{number}")
                found = measure(Line(spark, lake, node), number, records, touched, batches)
                figures = (statistics.median(found.bytes_read), max(found.bytes_read))
                table.add_row(
                    node.required_name,
                    f"{number:,}",
                    f"{found.state_bytes:,}",
                    *(f"{figure:,.0f}" for figure in figures),
                    f"{statistics.median(found.seconds):.2f}",
                )
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
