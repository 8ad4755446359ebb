"""Archives of the classes that Spark's JVM and the broker's load: half of what a JVM computes in its first minute is saved.

Usage: python -m tests.class_archives FOLDER

Out:    FOLDER/spark.jsa and FOLDER/broker.jsa, each whole or not there: a JVM dies of a part of one.
Notes:  Java maps an archive into memory (`-XX:SharedArchiveFile`) in place of reading, verifying and linking thousands of
        classes. The tests start some two hundred JVMs. A JVM with another class path goes on without it.
Source: JEP 350, Dynamic CDS Archives.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import headrace as hr
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.local.servers.broker import Broker, create_topics
from headrace.spark.jars import broker_classpath, java, spark_jars
from headrace.spark.jvm import java_class
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, spark_conf
from headrace.streams.stream_runtime import StreamRuntime
from headrace.testing import TestDriver
from tests.broker.harness import produce
from tests.broker.pipeline import Record
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("spark", "broker")
EVENTS = hr.Topic("events", key="id STRING", value="n BIGINT, place STRING")
NODES = (
    EVENTS.group_by()
    .window(hr.tumbling("4 seconds"), grace=0)
    .aggregate(n=hr.count(), total=hr.sum("n"))
    .named("windows"),
    EVENTS.with_column("twice", "2 * n").group_by("place").aggregate(n=hr.count()).named("totals"),
    EVENTS.table().join(EVENTS.select("id", "n AS m").table(), on="id").named("joined"),
)  # fmt: skip


def main(folder: Path) -> None:
    """Run both kinds of JVM, side by side, and keep what they loaded."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda kind: _record(kind, folder / f"{kind}.jsa"), KINDS))


def _record(kind: str, archive: Path) -> None:
    """Run one kind in a process of its own. JVMs write the archive when they end; they hold its output until then."""
    fresh = archive.with_suffix(".new")
    command = [sys.executable, "-m", "tests.class_archives", kind, str(fresh)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0 and _is_whole(fresh, class_path=done.stdout.splitlines()[-1]):
        fresh.replace(archive)
    else:
        print(f"test: goes on without the classes of {kind}\n{(done.stdout + done.stderr)[-2000:]}")


def _is_whole(archive: Path, class_path: str) -> bool:
    """True if a JVM that must use an archive, and looks through all of it, starts."""
    options = [f"-XX:SharedArchiveFile={archive}", "-Xshare:on", "-XX:+VerifySharedSpaces"]
    command = [java(), *options, "-cp", class_path, "-version"]
    return archive.exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0


def run_spark(options: str) -> None:
    """Load what the test kit's drivers, a stream, reads and backfills use."""
    spark = build_session(spark_conf(spark_jars()) | {"spark.driver.extraJavaOptions": options}, "classes")
    driver = TestDriver(NODES, spark)
    for number in range(6):
        driver.pipe("events", key="a", value={"n": number, "place": "north"}, timestamp_ms=number * 3000)
        driver.pipe("events", key="b", value=None if number % 2 else b"{", timestamp_ms=number * 3000)
        driver.cut()
    for node in ("windows", "totals", "joined"):
        views, described = driver.views, driver._nodes[node]
        for look in (views.read, views.ledger, views.recompute):
            look(described).collect()
    driver.views.dead_letters(driver._topics["events"]).collect()
    driver.close()
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        run_stream(spark, Lake(f"file:{folder}/lake"), broker.wait_ready())
    print(java_class(spark, "java.lang.System").getProperty("java.class.path"))
    spark.stop()


def run_stream(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    """Load what the processes of stream runs use, and those that read their tables by Delta."""
    create_topics(broker.bootstrap_servers, {"events": 2})
    values = [None, b"{", *(b'{"n": 1, "place": "north"}' for _ in range(8))]
    produce(broker, "events", [Record(n % 2, b"a", value, n * 3000) for n, value in enumerate(values)])
    kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    stream = StreamRuntime(spark, lake, NODES, kafka=kafka, trigger_ms=100)
    stream.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
    stream.drain()
    for node in NODES:
        verify(spark, lake, node)
        spark.read.format("delta").load(lake.table(node.required_name)).collect()


def run_broker(options: str) -> None:
    """Load what formats the storage and what serves a client."""
    os.environ["KAFKA_OPTS"] = options
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        broker.wait_ready()
        create_topics(broker.bootstrap_servers, {"events": 2})
    print(broker_classpath())


if __name__ == "__main__":
    if sys.argv[1] in KINDS:
        recording = f"-XX:ArchiveClassesAtExit={sys.argv[2]} -Xlog:disable"
        {"spark": run_spark, "broker": run_broker}[sys.argv[1]](recording)
    else:
        main(Path(sys.argv[1]))
