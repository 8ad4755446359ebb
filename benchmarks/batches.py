"""Batches: how fast a log of skewed customers becomes batches, and how late the batches of idle customers leave.

`python -m benchmarks.batches speed` and `python -m benchmarks.batches lateness`; the latter starts a broker.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from confluent_kafka import Producer
from pyspark.sql import functions as F

import headrace as hr
from benchmarks.processes import Meter
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.log.clock import ManualClock
from headrace.log.sequencer import Sequencer
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.streams.stream_runtime import StreamRuntime
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.sinks import Delivery

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
CUSTOMERS, MAX_RECORDS, WAIT_MS, BEGIN_MS = 10_000, 100, 10_000, 1_780_000_000_000
PARTITIONS = 4

visits = hr.Topic(
    "visits", key="customer_id STRING", value="visitor_id STRING, action STRING", idle_timeout=None
)
visit_batches = visits.group_by().batch(
    max_records=MAX_RECORDS, max_wait=WAIT_MS, collect=["visitor_id", "action"]
)


@app.command()
def speed(
    records: Annotated[int, typer.Option(help="Records in the log.")] = 1_000_000,
    commits: Annotated[int, typer.Option(help="Log commits, one second of commit time apart.")] = 10,
    together: Annotated[
        bool, typer.Option(help="All commits in one micro-batch, as after an outage.")
    ] = False,
    cores: Annotated[int, typer.Option(help="Cores of the local session.")] = os.cpu_count() or 2,
) -> None:
    """Records per second from the log to committed batches; the log is written first, and not counted."""
    spark = pipeline_session(build_session(spark_conf(spark_jars(), master=f"local[{cores}]")))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for run in ("cold", "warm"):
            lake = Lake(f"file:{folder}/{run}")
            clock = ManualClock(BEGIN_MS)
            sequencer = Sequencer(spark, visits, lake.log(visits.name), clock)
            runner = NodeRunner(spark, visit_batches.named("visit_batches"), lake)
            seconds, cpu = 0.0, 0.0
            for number in range(commits):
                clock.set(BEGIN_MS + number * 1_000)
                sequencer.append(_raw(spark, number * records // commits, (number + 1) * records // commits))
                if not together or number == commits - 1:
                    with Meter() as meter:
                        while runner.advance():
                            pass
                    seconds, cpu = (one + more for one, more in zip((seconds, cpu), meter.used, strict=True))
            _require_right(spark, lake, records, commits)
            typer.echo(
                f"{run}: {records / seconds:,.0f} records/s, {seconds:.1f} s, "
                f"{cpu / records * 1e6:.0f} CPU s per million"
            )


def _raw(spark: SparkSession, first: int, end: int) -> DataFrame:
    """Records as Kafka delivers them; the first customer has a twentieth of all, most have few."""
    ids = spark.range(first, end, numPartitions=PARTITIONS)
    sixteen = F.shiftright(F.pmod(F.col("id") * 2654435761, F.lit(2**32)), 16)
    customer = F.shiftright(sixteen * sixteen * sixteen * CUSTOMERS, 48)
    value = F.to_json(
        F.struct(F.concat(F.lit("v"), F.col("id") % 977).alias("visitor_id"), F.lit("look").alias("action"))
    )
    return ids.select(
        F.concat(F.lit("c"), customer).cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        F.lit(visits.name).alias("topic"),
        (F.col("id") % PARTITIONS).cast("int").alias("partition"),
        F.floor(F.col("id") / PARTITIONS).cast("long").alias("offset"),
        F.timestamp_millis(F.lit(BEGIN_MS) + F.col("id")).alias("timestamp"),
        F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
    )


def _expected(records: int, commits: int) -> tuple[int, int, int]:
    """Batches that closed, their records, and how many of them by count, in plain Python."""
    held: dict[int, tuple[int, int]] = {}
    closed = used = by_count = 0
    last = (commits - 1) * 1_000
    for number in range(commits):
        ids = np.arange(number * records // commits, (number + 1) * records // commits, dtype=np.uint64)
        sixteen = ((ids * np.uint64(2654435761)) % np.uint64(2**32)) >> np.uint64(16)
        customers, counts = np.unique(
            (sixteen**3 * np.uint64(CUSTOMERS)) >> np.uint64(48), return_counts=True
        )
        for customer, count in zip(customers.tolist(), counts.tolist(), strict=True):
            opened, n = held.get(customer, (0, 0))
            if n and number * 1_000 >= opened + WAIT_MS:
                closed, used, n = closed + 1, used + n, 0
            full, rest = divmod(n + count, MAX_RECORDS)
            closed, used, by_count = closed + full, used + full * MAX_RECORDS, by_count + full
            held[customer] = (opened if n and not full else number * 1_000, rest)
    overdue = [n for opened, n in held.values() if n and opened + WAIT_MS <= last]
    return closed + len(overdue), used + sum(overdue), by_count


def _require_right(spark: SparkSession, lake: Lake, records: int, commits: int) -> None:
    table = spark.read.format("delta").load(lake.table("visit_batches"))
    found = table.agg(
        F.count("*"), F.sum(F.size("events")), F.count_if(F.col("closed_by") == "count")
    ).first()
    wanted = _expected(records, commits)
    if tuple(found or ()) != wanted:
        raise TerminalError(f"Wrong result: batches, records and those by count are {found}, not {wanted}.")


@dataclass
class Clocked:
    """A sink that notes of each batch its `closed_at`, in ms, how much later it arrived, and its records."""

    name: str = "clocked"
    late_ms: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """Note the arrivals."""
        some = rows.where("closed_by = 'wait'").select("batch_id", "__sequence", "records").collect()
        now = time.time_ns() // 1_000_000
        self.late_ms |= {
            row["batch_id"]: (row["__sequence"], now - row["__sequence"], row["records"]) for row in some
        }


@app.command()
def lateness(
    seconds: Annotated[int, typer.Option(help="How long records arrive.")] = 120,
    warm_up: Annotated[int, typer.Option(help="Batches opened in the first seconds are not counted.")] = 60,
    trigger_ms: Annotated[int, typer.Option(help="The shortest time between micro-batches.")] = 1_000,
) -> None:
    """How long after its deadline a batch has left: each of 10,000 customers sends one visit in twenty seconds, in turn."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        Broker(Path(folder) / "kafka") as broker,
    ):
        create_topics(broker.bootstrap_servers, {visits.name: PARTITIONS})
        spark = build_session(spark_conf(spark_jars()))
        kafka, sink = KafkaSettings(bootstrap_servers=broker.bootstrap_servers), Clocked()
        node, rate = visit_batches.to(sink).named("visit_batches"), CUSTOMERS / (2 * WAIT_MS / 1000)
        runtime = StreamRuntime(
            spark, Lake(f"file:{folder}/lake"), [node], kafka=kafka, trigger_ms=trigger_ms
        )
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
        try:
            began, sent = time.monotonic(), 0
            while (passed := time.monotonic() - began) < seconds + WAIT_MS / 1000 + 10:
                for number in range(sent, due := int(min(passed, seconds) * rate)):
                    visit = json.dumps({"visitor_id": "v", "action": "look"})
                    producer.produce(visits.name, visit, f"c{number % CUSTOMERS}")
                sent = due
                producer.poll(0)
                runtime.poll()
                time.sleep(0.1)
        finally:
            runtime.drain()
        since_ms = time.time_ns() // 1_000_000 - round((time.monotonic() - began - warm_up) * 1000)
        late = np.array(
            sorted(late for closed, late, _ in sink.late_ms.values() if closed - WAIT_MS >= since_ms)
        )
        left = sum(records for _, _, records in sink.late_ms.values())
        if left != sent:
            raise TerminalError(f"Of {sent:,} records {left:,} have left in batches by wait.")
        p50, p99 = (float(np.percentile(late, p)) / 1000 for p in (50, 99))
        typer.echo(
            f"{len(late):,} batches by wait of {CUSTOMERS:,} customers; past the deadline: "
            f"median {p50:.2f} s, p99 {p99:.2f} s, max {late[-1] / 1000:.2f} s"
        )


if __name__ == "__main__":
    app()
