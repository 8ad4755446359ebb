"""Foreign-key joins: how fast changelogs become the joined table, and what a micro-batch costs as the state grows.

`python -m benchmarks.joins speed`, `growth` and `history`. The logs are written first, and not counted.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pyspark.sql import functions as F

import headrace as hr
from benchmarks.processes import Meter, heap_mib, jvm_of, resident_mib
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.log.sequencer import Sequencer
from headrace.observe.views import Views
from headrace.spark.jars import spark_jars
from headrace.spark.rows.varying import varying
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
BEGIN_MS, PARTITIONS = 1_780_000_000_000, 4
PRIME = 2_654_435_761  # spreads keys over micro-batches

positions = hr.Topic("positions", key="id BIGINT", value="ticker BIGINT, amount BIGINT", idle_timeout=None)
tickers = hr.Topic("tickers", key="ticker BIGINT", value="exchange STRING, version BIGINT", idle_timeout=None)
enriched = positions.table().join(tickers.table(), on="ticker", how="left").named("enriched")


class Line:
    """Both logs and the join, driven by hand."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Empty logs below a folder."""
        self.spark, self.lake, self._clock = spark, Lake(f"file:{folder}"), ManualClock(BEGIN_MS)
        self._logs = {
            t.name: Sequencer(spark, t, self.lake.log(t.name), self._clock) for t in (positions, tickers)
        }
        self._next = dict.fromkeys(self._logs, 0)
        self.runner = NodeRunner(spark, enriched, self.lake)

    def append(self, topic: str, numbers: DataFrame, key: Column, value: Column) -> None:
        """Commit one record for each row of `numbers` (`id` from 0 on) to a log."""
        records, first = numbers.count(), self._next[topic]
        self._next[topic] += records
        self._clock.set(self._clock.now_ms() + 1_000)
        self._logs[topic].append(
            numbers.select(
                F.to_json(F.struct(key)).cast("binary").alias("key"),
                F.to_json(value).cast("binary").alias("value"),
                F.lit(topic).alias("topic"),
                (F.col("id") % PARTITIONS).cast("int").alias("partition"),
                (F.floor(F.col("id") / PARTITIONS) + first).cast("long").alias("offset"),
                F.timestamp_millis(F.lit(BEGIN_MS) + F.col("id")).alias("timestamp"),
                F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
            )
        )

    def move(self, records: int, rows: int, tickers: int, version: int) -> None:
        """Positions as of a version: `records` of `rows` keys."""
        numbers = self.spark.range(0, records, numPartitions=PARTITIONS)
        key = F.pmod((F.col("id") + version * records) * PRIME, F.lit(rows)).alias("id")
        ticker = F.pmod(F.col("id") * 7 + version, F.lit(tickers)).alias("ticker")
        self.append("positions", numbers, key, F.struct(ticker, varying(version).alias("amount")))

    def list(self, records: int, tickers: int, version: int) -> None:
        """Tickers as of a version: `records` of `tickers` keys."""
        numbers = self.spark.range(0, records, numPartitions=PARTITIONS)
        key = F.pmod((F.col("id") + version * records) * PRIME, F.lit(tickers)).alias("ticker")
        self.append(
            "tickers", numbers, key, F.struct(F.lit("X").alias("exchange"), varying(version).alias("version"))
        )

    def fold(self) -> tuple[float, float]:
        """Run the join to the end of its logs; seconds and CPU seconds."""
        # As a stream's logs do; else the join waits for the next commit of the other.
        for log in self._logs.values():
            log.promise(self._clock.now_ms())
        with Meter() as meter:
            while self.runner.advance():
                pass
        return meter.used

    def require_right(self) -> None:
        """Compare the joined table with a join of the latest records, in plain Spark."""
        views = Views(self.spark, self.lake)
        latest = {}
        for topic, key in (("positions", "id"), ("tickers", "ticker")):
            log = (
                self.spark.read.format("delta")
                .load(self.lake.log(topic))
                .where("kind = 'record'")
                .select("key.*", "value.*", "ingested_at")
            )
            row = F.struct(*(name for name in log.columns if name not in (key, "ingested_at")))
            latest[topic] = (
                log.groupBy(key).agg(F.max_by(row, "ingested_at").alias("row")).select(key, "row.*")
            )
        wanted = latest["positions"].join(latest["tickers"], "ticker", "left")
        found = views.read(enriched)
        columns = found.columns
        wrong = (
            found.exceptAll(wanted.select(columns)).count() + wanted.select(columns).exceptAll(found).count()
        )
        if wrong or found.count() != latest["positions"].count():
            raise TerminalError(f"Wrong result: {wrong} rows differ.")


def _session() -> SparkSession:
    return pipeline_session(build_session(spark_conf(spark_jars(), master=f"local[{os.cpu_count()}]")))


@app.command()
def speed(
    updates: Annotated[int, typer.Option(help="Updates of positions.")] = 500_000,
    rows: Annotated[int, typer.Option(help="Positions.")] = 100_000,
    listings: Annotated[int, typer.Option(help="Updates of tickers.")] = 20_000,
    commits: Annotated[
        int, typer.Option(help="Log commits on either side, one second of commit time apart.")
    ] = 10,
) -> None:
    """Records per second from the logs to the joined table."""
    spark = _session()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for run in ("cold", "warm"):
            line, seconds, cpu = Line(spark, f"{folder}/{run}"), 0.0, 0.0
            for number in range(commits):
                line.list(listings // commits, 2_000, number)
                line.move(updates // commits, rows, 2_000, number)
                took = line.fold()
                seconds, cpu = seconds + took[0], cpu + took[1]
            line.require_right()
            records = updates + listings
            typer.echo(
                f"{run}: {records / seconds:,.0f} records/s, {seconds:.1f} s, "
                f"{cpu / records * 1e6:.0f} CPU s per million"
            )


@app.command()
def growth(
    rows: Annotated[list[int] | None, typer.Option(help="Positions in the state; repeat.")] = None,
    changes: Annotated[int, typer.Option(help="Updates of positions in each micro-batch.")] = 1_000,
    listings: Annotated[
        int, typer.Option(help="Updates of tickers in each micro-batch; ten positions refer to each.")
    ] = 20,
    batches: Annotated[int, typer.Option(help="Micro-batches measured; two before them warm up.")] = 8,
) -> None:
    """Seconds and memory of a micro-batch of the same changes, with more and more rows in the state."""
    spark = _session()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for number in rows or [10_000, 100_000, 1_000_000, 10_000_000]:
            line, known = Line(spark, str(Path(folder) / str(number))), number // 10
            line.list(known, known, 0)
            line.move(number, number, known, 0)
            line.fold()
            line.runner.maintain()
            measured = []
            for version in range(1, batches + 3):
                line.list(listings, known, version)
                line.move(changes, number, known, version)
                measured.append(line.fold())
            resident, heap = resident_mib(jvm_of(spark)), heap_mib(spark)
            line.require_right()
            seconds = statistics.median(took for took, _ in measured[2:])
            cpu = statistics.median(used for _, used in measured[2:])
            typer.echo(
                f"{number:>10,} rows: {seconds:.2f} s and {cpu:.2f} CPU s for a micro-batch (medians); "
                f"JVM: heap in use {heap:,.0f} MiB, resident {resident:,.0f} MiB"
            )


@app.command()
def history(
    commits: Annotated[list[int] | None, typer.Option(help="Commits of each table before; repeat.")] = None,
    batches: Annotated[int, typer.Option(help="Micro-batches measured; two before them warm up.")] = 16,
) -> None:
    """Seconds of a log's append, of a micro-batch, of a fold and of a view, with more and more commits in each table."""
    spark, rows = _session(), 10_000
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for number in commits or [0, 3_000, 15_000]:
            root = Path(folder) / str(number)
            line = Line(spark, str(root))
            line.list(rows // 10, rows // 10, 0)
            line.move(rows, rows, rows // 10, 0)
            line.fold()
            line.runner.maintain()
            for log in root.rglob("_delta_log") if number else ():
                _repeat_last(log, number)
                lakes.open_table(f"file:{log.parent}").checkpoint()
            appended, measured = [], []
            for version in range(1, batches + 3):
                began = time.monotonic()
                line.list(20, rows // 10, version)
                line.move(1_000, rows, rows // 10, version)
                appended.append((time.monotonic() - began) / 2)
                measured.append(line.fold()[0])
            took = [
                _seconds(line.runner.maintain),
                _seconds(Views(spark, line.lake).read(enriched).count),
            ]
            line.require_right()
            typer.echo(
                f"{number:>7,} commits: an append to a log {statistics.median(appended[2:]):.2f} s, a micro-batch "
                f"{statistics.median(measured[2:]):.2f} s (medians), a fold {took[0]:.2f} s, a view {took[1]:.2f} s"
            )


def _repeat_last(log: Path, times: int) -> None:
    """Commits that change nothing and say what the table's last one says, as if a stream had made them."""
    table = lakes.open_table(f"file:{log.parent}")
    newest = table.version
    said = next(
        action["commitInfo"]
        for commit in table.commits_back(newest)
        for action in (commit.actions if commit else ())
        if "userMetadata" in action.get("commitInfo", {})
    )
    for version in range(newest + 1, newest + 1 + times):
        (log / f"{version:020d}.json").write_text(json.dumps({"commitInfo": said}) + "\n")


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


if __name__ == "__main__":
    app()
