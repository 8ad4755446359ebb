"""`make bench`: start a broker, fill a topic once, catch up some times, print the figures."""

from __future__ import annotations

import os
import platform as machine
import statistics
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.catch_up import catch_up
from benchmarks.readings import PARTITIONS, produce, readings
from headrace.local.broker import Broker
from headrace.local.jars import spark_jars
from headrace.local.topics import create_topics
from headrace.runtime.kafka import KafkaSettings
from headrace.spark.session import build_session, spark_conf


def main(
    records: Annotated[int, typer.Option(help="Records in the topic.")] = 1_000_000,
    runs: Annotated[int, typer.Option(help="Runs; the first warms the JVM up and is shown apart.")] = 3,
) -> None:
    """Measure how fast a full topic becomes final windows; every run is checked against plain Python."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as temporary:
        folder = Path(temporary)
        with Broker(folder / "kafka") as broker:
            create_topics(broker.bootstrap_servers, {readings.name: PARTITIONS})
            console.print(f"producing {records:,} records")
            produce(broker.bootstrap_servers, records)
            spark = build_session(spark_conf(spark_jars(), master=f"local[{os.cpu_count()}]"))
            kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
            table = Table(
                title=f"Catch-up, {records:,} records, {os.cpu_count()} cores, {machine.processor() or machine.machine()}"
            )
            for column in ("run", "records/s", "seconds", "CPU s / million", "peak MiB", "written MiB"):
                table.add_column(column, justify="right")
            rates = []
            for run in range(runs):
                m = catch_up(spark, folder / f"lake{run}", kafka, records)
                per_million = m.cpu_seconds / records * 1e6
                figures = (m.records_per_second, m.seconds, per_million, m.peak_mib, m.written_mib)
                table.add_row("cold" if run == 0 else str(run), *(f"{figure:,.0f}" for figure in figures))
                rates += [m.records_per_second] if run else []
            console.print(table)
            if rates:
                console.print(f"warm median: {statistics.median(rates):,.0f} records/s")


if __name__ == "__main__":
    typer.run(main)
