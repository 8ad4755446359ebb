"""`make bench`: start a broker, fill a topic once, catch up some times, print the figures.

Other measurements begin with an option of their own, and have options of their own (`--descriptions --help`):

- `--descriptions`: what each kind of description costs, beside plain tumbling windows;
- `--state-reads`: bytes of the state that a micro-batch reads, with 10,000 keys and with 1,000,000;
- `--processors`: what counting by processors costs, beside an aggregate and Spark's `transformWithStateInPandas`;
- `--memory`: peak memory with values that compress a hundredfold, and with one key that has half of all records;
- `--formats`: Avro and Protobuf beside JSON;
- `--nexmark`: the queries of Nexmark, each checked against SQL over whole topics;
- `--compared`: four jobs beside Kafka Streams and Flink SQL, results checked; needs Maven and Java 17;
- `--transfers`: how often a reader sees a sum of balances that is not zero, of the same systems;
- `--topic-to-table`: losses and duplicates in a table while its writer is killed, beside Flink SQL and Kafka Connect.
"""

from __future__ import annotations

import os
import platform as machine
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import headrace as hr
from benchmarks import (
    compared,
    descriptions,
    formats,
    memory,
    processors,
    state_reads,
    topic_to_table,
    transfers,
)
from benchmarks.catch_up import backfill_seconds, catch_up, windows_are
from benchmarks.nexmark import measure as nexmark
from benchmarks.readings import PARTITIONS, counts, expected, produce
from benchmarks.workbench import root_of, session_on
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.spark.kafka import KafkaSettings

OTHERS: Mapping[str, Callable[..., None]] = {
    "--descriptions": descriptions.main,
    "--state-reads": state_reads.main,
    "--memory": memory.main,
    "--processors": processors.main,
    "--nexmark": nexmark.main,
    "--formats": formats.main,
    "--compared": compared.main,
    "--transfers": transfers.main,
    "--topic-to-table": topic_to_table.main,
}
PLAIN = {"": counts()}
MIRRORED = {"off": counts(), "mirrored": counts()}
GUARDED = {
    "off": counts(),
    "monotone": counts(hr.ReplayGuard()),
    "exact": counts(hr.ReplayGuard(mode="exact")),
}


def main(
    records: Annotated[int, typer.Option(help="Records in the topic.")] = 1_000_000,
    runs: Annotated[int, typer.Option(help="Runs; the first warms the JVM up and is shown apart.")] = 3,
    master: Annotated[
        str,
        typer.Option(help="Spark's master URL, as local[1]; or `standalone`: two workers are started here."),
    ] = (f"local[{os.cpu_count()}]"),
    lake: Annotated[
        str, typer.Option(help="Where the lake lies: `file`, or `s3` for a server here.")
    ] = "file",
    guards: Annotated[
        bool,
        typer.Option("--guards", help="Records have chains, 5 % come again: with no guard, and with each."),
    ] = False,
    mirrored: Annotated[
        bool, typer.Option("--mirrored", help="In turns without and with an Iceberg mirror, each second.")
    ] = False,
) -> None:
    """Measure how fast a full topic becomes final windows; every run is checked against plain Python.

    `--descriptions`, `--state-reads`, `--processors`, `--memory`, `--formats`, `--nexmark` and `--compared` as the first
    option measure something else; each has a `--help` of its own.
    """
    console, right = Console(), expected(records)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        root = root_of(lake, folder, stack)
        with Broker(folder / "kafka") as broker:
            create_topics(broker.bootstrap_servers, {"readings": PARTITIONS})
            console.print(f"producing {records:,} records")
            delivered = produce(broker.bootstrap_servers, records, chains=guards)
            spark = session_on(master, root, folder, stack)
            kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
            table = Table(
                title=f"Catch-up, {delivered:,} records, {master}, {lake}, {machine.machine()}; backfill in records/s"
            )
            for column in (
                "run",
                "records/s",
                "seconds",
                "CPU s / million",
                "peak MiB",
                "written MiB",
                "backfill records/s",
            ):
                table.add_column(column, justify="right")
            rates: dict[str, list[float]] = defaultdict(list)
            for run in range(runs):
                for guard, node in (GUARDED if guards else MIRRORED if mirrored else PLAIN).items():
                    checked = None if guard == "off" and guards else windows_are(right, node)
                    place = Lake(f"{root}/lake{guard}{run}")
                    with _mirror(folder / f"mirror{run}", guard == "mirrored"):
                        m = catch_up(spark, place, kafka, node, delivered, checked)
                    backfill = delivered / backfill_seconds(spark, place, node)
                    figures = (
                        m.records_per_second,
                        m.seconds,
                        m.cpu_per_million,
                        m.peak_mib,
                        m.written_mib,
                        backfill,
                    )
                    name = f"{guard} {'cold' if run == 0 else run}".strip()
                    table.add_row(name, *(f"{figure:,.0f}" for figure in figures))
                    rates[guard] += [m.records_per_second] if run else []
            console.print(table)
            for guard, measured in rates.items():
                if measured:
                    said = f"{guard} warm median".strip()
                    console.print(f"{said}: {statistics.median(measured):,.0f} records/s")
                if measured and guard not in ("", "off"):
                    cost = statistics.median(rates["off"]) / statistics.median(measured) - 1
                    console.print(f"{guard}: {cost:+.0%} time against off")


@contextmanager
def _mirror(folder: Path, wanted: bool) -> Iterator[None]:
    """Mirror the tables of the body in an Iceberg catalog of their own, if that is wanted."""
    if not wanted:
        yield
        return
    folder.mkdir()
    settings = {
        "HEADRACE_ICEBERG_URI": f"sqlite:///{folder}/catalog.db",
        "HEADRACE_ICEBERG_EVERY_SECONDS": "1",
    }
    os.environ |= settings
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]


if __name__ == "__main__":
    other = OTHERS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if other is not None:
        del sys.argv[1]
    typer.run(other or main)
