"""A topic becomes an Iceberg table, exactly once, while the writer is killed every twenty seconds.

`make bench ARGS="--topic-to-table"`; needs Maven and Java 17. Each side in turn is a real process that copies a topic to a
table of its own: `headrace run` with its Iceberg mirror, Flink SQL, and a worker of Kafka Connect with Iceberg's connector.
A producer writes at an even rate meanwhile. Rows carry partition and offset, by which losses and duplicates are counted.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from rich.console import Console
from rich.table import Table

from benchmarks.peers import logs
from benchmarks.peers.applications import OPENED, built
from headrace.local import lifeline
from headrace.local.broker import Broker
from headrace.local.broker_config import free_port
from headrace.local.topics import create_topics

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

PARTITIONS = 2
QUIET_SECONDS = 120.0  # a table that does not grow for so long is all that will come


@dataclass
class Side:
    """One writer of a table. Its process is started again with the same command.

    catalog  of Iceberg: its name, and the file of its database
    ready    called after each start; it waits for what the process needs before its work can begin
    """

    title: str
    command: list[str]
    catalog: tuple[str, Path]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    ready: Callable[[], None] = lambda: None

    def start(self) -> subprocess.Popen[bytes]:
        """A new process, in a group of its own."""
        log = self.folder / "process.log"
        process = lifeline.spawn(self.command, log=log, cwd=self.folder, env=os.environ | self.environment)
        self.ready()
        return process

    def places(self) -> pa.Table:
        """Partition and offset of each row that a reader of the table sees now."""
        name, database = self.catalog
        empty = pa.table({"partition": pa.array([], pa.int32()), "offset": pa.array([], pa.int64())})
        if not database.exists():
            return empty
        try:
            table = SqlCatalog(name, uri=f"sqlite:///{database}").load_table(("compared", "visits"))
            return table.scan(selected_fields=("partition", "offset")).to_arrow()
        except (NoSuchTableError, OSError):
            return empty


def main(
    records: Annotated[
        int, typer.Option(help="How many, written evenly while the writers are killed.")
    ] = 1_000_000,
    minutes: Annotated[float, typer.Option(help="How long a writer is killed again and again.")] = 10.0,
    every_seconds: Annotated[float, typer.Option(help="From a start to its kill.")] = 20.0,
    sides: Annotated[str, typer.Option(help="Which.")] = "headrace,flink,connect",
) -> None:
    """Kill each writer, and count losses and duplicates in its table."""
    shown = Table(title=f"{records:,} records in {minutes:g} min, a SIGKILL every {every_seconds:g} s")
    for column in ("side", "kills", "in the table after the last kill", "caught up after", "lost", "twice"):
        shown.add_column(column, justify="left" if column == "side" else "right")
    makers = {"headrace": _headrace, "flink": _flink, "connect": _connect}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        broker = stack.enter_context(Broker(folder / "kafka"))
        for name in sides.split(","):
            (folder / name).mkdir()
            topic = f"visits-{name}"
            create_topics(broker.bootstrap_servers, {topic: PARTITIONS})
            side = makers[name](folder / name, broker.bootstrap_servers, topic)
            shown.add_row(
                side.title, *_tried(side, broker.bootstrap_servers, topic, records, minutes, every_seconds)
            )
            Console(width=120).print(shown)


def _tried(
    side: Side, bootstrap: str, topic: str, records: int, minutes: float, every_seconds: float
) -> tuple[str, ...]:
    ended, kills = time.monotonic() + minutes * 60, 0
    with _produced(bootstrap, topic, records, minutes * 60):
        while time.monotonic() < ended:
            process = side.start()
            time.sleep(every_seconds)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    then, began = side.places().num_rows, time.monotonic()
    process = side.start()
    seconds = _caught_up(side, records) - began
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    places = side.places()
    distinct = places.group_by(["partition", "offset"]).aggregate([]).num_rows
    rows, lost = places.num_rows, records - distinct
    return (
        f"{kills}",
        f"{then:,}",
        f"{seconds:.0f} s" if not lost else "never",
        f"{lost:,}",
        f"{rows - distinct:,}",
    )


def _caught_up(side: Side, records: int) -> float:
    """When the table had all rows, or stopped to grow."""
    rows, grown = -1, time.monotonic()
    while time.monotonic() < grown + QUIET_SECONDS:
        now = side.places().num_rows
        if now != rows:
            rows, grown = now, time.monotonic()
        if rows >= records:
            break
        time.sleep(0.5)
    return grown


@contextmanager
def _produced(bootstrap: str, topic: str, records: int, seconds: float) -> Iterator[None]:
    """Write visits at an even rate beside the body, and to the last one before it ends."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            visits = (record._replace(topic=topic) for record in logs.visits(records))
            logs.write(bootstrap, visits, records / seconds)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]


def _headrace(folder: Path, bootstrap: str, topic: str) -> Side:
    catalog = folder / "catalog.db"
    environment = {
        "HEADRACE_COMPARED_TOPIC": topic,
        "HEADRACE_ICEBERG_URI": f"sqlite:///{catalog}",
        "HEADRACE_ICEBERG_NAMESPACE": "compared",
        "HEADRACE_ICEBERG_EVERY_SECONDS": "1",
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "HEADRACE_KAFKA_BOOTSTRAP_SERVERS": bootstrap,
    }
    command = [
        str(Path(sys.executable).with_name("headrace")),
        "run",
        "--pipeline",
        "benchmarks.peers.table_pipeline",
    ]
    command += ["--lake", f"file:{folder}/lake", "--trigger-ms", "1000"]
    return Side("Headrace, mirrored each second", command, ("headrace", catalog), folder, environment)


def _flink(folder: Path, bootstrap: str, topic: str) -> Side:
    class_path = built("flink_iceberg", folder / "built")
    command = ["java", "-Xmx1500m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*OPENED, "java.nio")]
    command += ["-cp", class_path, "headrace.peers.TableJob", str(folder), bootstrap, topic]
    return Side("Flink SQL, checkpoints of a second", command, ("lake", folder / "catalog.db"), folder)


def _connect(folder: Path, bootstrap: str, topic: str) -> Side:
    """A worker with the connector; sessions are short, so that a killed worker is soon noticed."""
    class_path, port, catalog = built("kafka_connect", folder / "built"), free_port(), folder / "catalog.db"
    create_topics(bootstrap, {"control-iceberg": 1})
    worker = {
        "bootstrap.servers": bootstrap,
        "group.id": "connect",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        **{f"{each}.storage.topic": f"connect-{each}" for each in ("config", "offset", "status")},
        **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "2000",
        "scheduled.rebalance.max.delay.ms": "0",
        "listeners": f"http://127.0.0.1:{port}",
    }
    connector = {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "consumer.override.auto.offset.reset": "earliest",
        "consumer.override.session.timeout.ms": "6000",
        "iceberg.tables": "compared.visits",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.control.commit.interval-ms": "1000",
        "iceberg.control.commit.timeout-ms": "10000",
        "iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "iceberg.catalog.jdbc.schema-version": "V1",
        "iceberg.catalog.uri": f"jdbc:sqlite:{catalog}",
        "iceberg.catalog.warehouse": f"file:{folder}/tables",
        "transforms": "place",
        "transforms.place.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.place.partition.field": "partition",
        "transforms.place.offset.field": "offset",
    }
    properties = folder / "worker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in worker.items()))
    command = ["java", "-Xmx1500m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path]
    command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
    created: list[bool] = []

    def ready() -> None:
        """Until the first worker has taken the connector; later ones know it from their topic."""
        if not created:
            _put(f"http://127.0.0.1:{port}/connectors/visits/config", connector)
            created.append(True)

    return Side(
        "Iceberg's connector, commits of a second", command, ("iceberg", catalog), folder, ready=ready
    )


def _put(url: str, body: dict[str, Any]) -> None:
    """Put JSON as soon as the server takes it. Raises: HTTPError when it refuses for two minutes."""
    deadline = time.monotonic() + 120
    headers = {"Content-Type": "application/json"}
    while True:
        try:
            request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")
            with urllib.request.urlopen(request, timeout=30):
                return
        except (urllib.error.URLError, TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


if __name__ == "__main__":
    typer.run(main)
