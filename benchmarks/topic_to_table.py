"""A topic becomes an Iceberg table, exactly once, while the writer is killed again and again.

`make bench ARGS="--topic-to-table"`; needs Maven and Java 17. Each side in turn is a real process that copies a topic to a
table of its own: `headrace run` with its Iceberg mirror, Flink SQL, and a worker of Kafka Connect with Iceberg's connector.
A producer writes at an even rate meanwhile. A writer is killed twenty seconds after its start; on a machine so busy that it
has committed nothing by then, soon after its first commit. Rows carry partition and offset, by which losses and duplicates
are counted, after the last kill and when no more rows come.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from rich.console import Console
from rich.table import Table
from sqlalchemy.exc import OperationalError

from benchmarks.peers import logs
from benchmarks.peers.applications import HEAP, OPENED, built
from headrace.errors import HeadraceError, TerminalError
from headrace.local.servers import lifeline
from headrace.local.servers.broker import Broker
from headrace.local.servers.broker_config import free_port
from headrace.local.servers.topics import create_topics

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from pyiceberg.table import Table as IcebergTable

PARTITIONS = 2
QUIET_SECONDS = 300.0  # a table that does not grow for so long, while a writer runs, is all that comes
LIFE_SECONDS_MAX = 300.0  # of a writer that commits nothing
WHOLE_SECONDS = 30.0  # the same of a table that has every row: what comes now comes twice
PLACE = ("partition", "offset")
# A life is short, so the peers' JVMs are set to start fast.
START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


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
        log, environment = self.folder / "process.log", os.environ | self.environment
        process = lifeline.spawn(self.command, log=log, cwd=self.folder, env=environment)
        try:
            self.ready()
        except BaseException:
            _kill(process)
            raise
        return process

    def rows(self) -> int:
        """How many rows a reader of the table sees now, by the table's metadata."""
        with self._table() as table:
            snapshot = table.current_snapshot() if table else None
            return int(snapshot.summary["total-records"]) if snapshot and snapshot.summary else 0

    def distinct(self) -> int:
        """How many places of the topic a reader of the table sees now."""
        with self._table() as table:
            places = table.scan(selected_fields=PLACE).to_arrow() if table else pa.table({})
        return places.group_by(list(PLACE)).aggregate([]).num_rows if places.num_rows else 0

    def errors(self) -> list[str]:
        """The last lines of the log that name an error."""
        lines = (self.folder / "process.log").read_text(encoding="utf-8", errors="replace").splitlines()
        return [line[:300] for line in lines if "ERROR" in line or "Exception" in line][-8:]

    @contextmanager
    def _table(self) -> Iterator[IcebergTable | None]:
        name, database = self.catalog
        if not database.exists():
            yield None
            return
        options = {"uri": f"sqlite:///{database}", "init_catalog_tables": "false"}
        with closing(SqlCatalog(name, **options)) as catalog:
            try:
                table = catalog.load_table(("compared", "visits"))
            except (NoSuchTableError, OSError, OperationalError):  # the writer has not made it yet
                table = None
            yield table


def main(
    records: Annotated[
        int, typer.Option(help="How many, written evenly while the writers are killed.")
    ] = 1_000_000,
    minutes: Annotated[float, typer.Option(help="How long a writer is killed again and again.")] = 10.0,
    every_seconds: Annotated[float, typer.Option(help="From a start to its kill, at least.")] = 20.0,
    sides: Annotated[str, typer.Option(help="Which.")] = "headrace,flink,connect",
) -> None:
    """Kill each writer, and count losses and duplicates in its table."""
    console = Console(width=140)
    shown = Table(title=f"{records:,} records in {minutes:g} min, a SIGKILL every {every_seconds:g} s")
    for column in ("side", "kills", "own ends", "after the last kill", "caught up after", "lost", "twice"):
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
            try:
                figures = _tried(side, broker.bootstrap_servers, topic, records, minutes, every_seconds)
            except HeadraceError as error:
                console.print(f"{side.title} does not work: {error}", markup=False)
                figures = ("does not work",)
            if figures[-1] != "0" or figures[-2] != "0":
                console.print("\n".join([f"{side.title}, its last errors:", *side.errors()]), markup=False)
            shown.add_row(side.title, *figures)
            console.print(shown)


def _tried(
    side: Side, bootstrap: str, topic: str, records: int, minutes: float, every_seconds: float
) -> tuple[str, ...]:
    ended, kills, own_ends, chance = time.monotonic() + minutes * 60, 0, 0, random.Random(1)
    with _produced(bootstrap, topic, records, minutes * 60):
        while time.monotonic() < ended:
            process = side.start()
            _live(side, every_seconds, chance)
            own_ends += process.poll() is not None
            _kill(process)
            kills += 1
    then, began = side.rows(), time.monotonic()
    process = side.start()
    seconds = _settled(side, records) - began
    own_ends += process.poll() is not None
    _kill(process)
    rows, distinct = side.rows(), side.distinct()
    lost = records - distinct
    return (
        f"{kills}",
        f"{own_ends}",
        f"{then:,}",
        "never" if lost else f"{seconds:.0f} s",
        f"{lost:,}",
        f"{rows - distinct:,}",
    )


def _live(side: Side, seconds: float, chance: random.Random) -> None:
    """Wait so long, and then until the writer has committed, at any moment of its next work."""
    began, rows = time.monotonic(), side.rows()
    time.sleep(seconds)
    while side.rows() == rows and time.monotonic() < began + LIFE_SECONDS_MAX:
        time.sleep(0.2)
    time.sleep(chance.uniform(0.0, 2.0))


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _settled(side: Side, records: int) -> float:
    """Wait until no more rows come. Out: when the table last grew."""
    rows, grown, patience = -1, time.monotonic(), QUIET_SECONDS
    while time.monotonic() < grown + patience:
        if (now := side.rows()) != rows:
            rows, grown = now, time.monotonic()
            whole = rows >= records and side.distinct() == records
            patience = WHOLE_SECONDS if whole else QUIET_SECONDS
        time.sleep(0.5)
    return grown


@contextmanager
def _produced(bootstrap: str, topic: str, records: int, seconds: float) -> Iterator[None]:
    """Write visits at an even rate beside the body, and to the last one before it ends, unless the body fails."""
    failed: list[BaseException] = []
    given_up = threading.Event()

    def work() -> None:
        try:
            visits = (record._replace(topic=topic) for record in logs.visits(records))
            wanted = takewhile(lambda _: not given_up.is_set(), visits)
            logs.write(bootstrap, wanted, records / seconds)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    except BaseException:
        given_up.set()
        raise
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
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*OPENED, "java.nio")]
    command = [*_java(folder, "flink_iceberg", *opened), "headrace.peers.TableJob"]
    return Side(
        "Flink SQL, checkpoints of a second",
        [*command, str(folder), bootstrap, topic],
        ("lake", folder / "catalog.db"),
        folder,
    )


def _connect(folder: Path, bootstrap: str, topic: str) -> Side:
    """A worker with the connector. Sessions and transactions are short, so that a killed worker is soon noticed."""
    port, catalog = free_port(), folder / "catalog.db"
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
        "plugin.discovery": "service_load",  # a scan of the whole class path would take half of each life
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
        "iceberg.kafka.transaction.timeout.ms": "10000",  # one left open hides what follows in the control topic
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
    command = [*_java(folder, "kafka_connect"), "org.apache.kafka.connect.cli.ConnectDistributed"]
    created: list[bool] = []

    def ready() -> None:
        """Until the first worker has taken the connector; later ones know it from their topic."""
        if not created:
            _put(f"http://127.0.0.1:{port}/connectors/visits/config", connector)
            created.append(True)

    return Side(
        "Iceberg's connector, commits of a second",
        [*command, str(properties)],
        ("iceberg", catalog),
        folder,
        ready=ready,
    )


def _java(folder: Path, project: str, *options: str) -> list[str]:
    """Build a project. Out: a command that lacks the class to run; what its processes leave lies in the folder."""
    (folder / "tmp").mkdir()
    class_path = built(project, folder / "built")
    options = (*START, f"-Djava.io.tmpdir={folder}/tmp", *options)
    return ["java", HEAP, *options, "-cp", class_path]


def _put(url: str, body: dict[str, Any]) -> None:
    """Put JSON as soon as the server takes it. Raises: TerminalError when it refuses for two minutes."""
    deadline = time.monotonic() + 120
    headers = {"Content-Type": "application/json"}
    while True:
        try:
            request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")
            with urllib.request.urlopen(request, timeout=30):
                return
        except (urllib.error.URLError, TimeoutError) as error:
            if time.monotonic() > deadline:
                answer = error.read().decode() if isinstance(error, urllib.error.HTTPError) else None
                raise TerminalError(f"PUT {url} failed: {error}", detail=answer) from error
            time.sleep(0.5)


if __name__ == "__main__":
    typer.run(main)
