"""A Spark standalone cluster and a lake on S3: the same tables as the log says, whatever is lost meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pytest
from confluent_kafka import Producer

from headrace.lake.paths import Lake
from headrace.lake.storage import store_of
from headrace.lifecycle.oracle_check import verify_keys
from headrace.local.servers.brokers import Brokers
from headrace.local.servers.topics import create_topics, records_in
from headrace.local.spark_cluster import SparkCluster
from headrace.observe.views import Views
from headrace.spark.session import pipeline_session
from headrace.writing.node_runner import NodeRunner
from tests.cluster.driver import rows
from tests.cluster.pipeline import NODES, readings_of, rooms_of
from tests.executors import executors_of
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Topic

pytestmark = [pytest.mark.spark, pytest.mark.s3]

PARTS = 6
ROOT = Path(__file__).resolve().parents[2]


class Driver:
    """A driver in a process of its own, with a working folder of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.said: list[str] = []

    def wait_for(self, words: str) -> None:
        """Read what it prints, as far as a line that begins so; fails when it ends before."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.rstrip())
            if line.startswith(words):
                return
        pytest.fail(f"it ended before {words!r}: {self.said}")

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Close its input: it has nothing more to do."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def driver(
    cluster: SparkCluster, folder: Path, *given: str, script: str = "tests/cluster/driver.py"
) -> Iterator[Driver]:
    folder.mkdir()
    path = os.pathsep.join([str(ROOT / "platform"), str(ROOT)])
    env: Mapping[str, str] = {**os.environ, **cluster.environment, "PYTHONPATH": path}
    with (folder / "errors.log").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / script), *given],
            cwd=folder,
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        yield Driver(process)
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        with suppress(OSError):  # it has ended before it read all
            process.stdin.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path / "cluster", memory="700m") as running:
        yield running


def go_on_and_lose_executors(run: Driver, number: int) -> None:
    """The executors are killed while they work: half a second after the driver was told to go on."""
    run.go_on()
    lose_executors(number)


def lose_executors(number: int) -> None:
    """Kill executors in half a second."""
    time.sleep(0.5)
    for process in until(lambda: executors_of(os.getpid()), lambda found: len(found) >= number)[:number]:
        os.kill(process, signal.SIGKILL)


def lose_worker(cluster: SparkCluster, name: str) -> None:
    """Kill a worker, and with it what it has started: a lost machine."""
    process = cluster.workers.pop(name)
    for executor in executors_of(process.pid):
        with suppress(ProcessLookupError):
            os.kill(executor, signal.SIGKILL)
    process.kill()
    process.wait()


def test_windows_live_and_as_a_backfill_are_the_oracles_though_an_executor_is_killed(
    cluster: SparkCluster, s3_root: str, tmp_path: Path
) -> None:
    with driver(cluster, tmp_path / "driver", s3_root, "--upto", "2") as run:
        run.wait_for("ready 0")
        told = [line.split()[1::2] for line in run.said if line.startswith("executor:")]
        assert all("headrace-engine.zip" in engine for engine, _ in told), "the engine comes from the driver"
        assert {Path(folder).is_relative_to(tmp_path / "cluster") for _, folder in told} == {True}
        run.go_on()
        run.wait_for("ready 1")
        go_on_and_lose_executors(run, 1)
        run.wait_for("oracle")
    assert run.said[-2:] == ["backfill EQUAL", "oracle EQUAL"]


@pytest.mark.long
@pytest.mark.broker
def test_all_kinds_of_nodes_are_those_of_local_mode_whatever_is_lost(
    cluster: SparkCluster, s3_root: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Three brokers. An executor, a worker, a broker and the driver are lost; each time while something is to be done."""
    with Brokers(tmp_path / "kafka") as kafka:
        servers = kafka.bootstrap_servers
        create_topics(servers, {"readings": 3, "rooms": 1})
        start = partial(driver, cluster, script="tests/cluster/streams.py")
        with start(tmp_path / "first", servers, s3_root) as run:
            run.wait_for("ready")
            goes_on_with(run, servers, 0)
            caught_up(run, servers)
            goes_on_with(run, servers, 1)
            lose_executors(1)
            caught_up(run, servers)
            goes_on_with(run, servers, 2)
            lose_worker(cluster, "worker-1")
            caught_up(run, servers)
            kafka.members[0].kill()
            goes_on_with(run, servers, 3)
            caught_up(run, servers)
            goes_on_with(run, servers, 4)
            time.sleep(3.0)
            run.kill()
        cluster.start_worker("worker-1")
        cluster.wait_ready()
        kafka.members[0].start()
        with start(tmp_path / "second", servers, s3_root) as run:
            run.wait_for("ready")
            goes_on_with(run, servers, 5)
            lose_executors(2)
            caught_up(run, servers)
            run.end()
            run.wait_for("drained")
    ours, copied = Lake(s3_root), Lake(f"{s3_root}-local")
    copy_logs(ours, copied)
    for node in NODES:
        here = rows(Views(spark, ours).read(node))
        assert here
        assert rows(Views(spark, ours).recompute(node)) == here
        in_local_mode = NodeRunner(pipeline_session(spark), node, copied)
        while in_local_mode.advance():
            pass
        assert rows(Views(spark, copied).read(node)) == here
        verdict = verify_keys(spark, ours, node, 30)
        assert verdict.equal, verdict.first_differences
        fates = Views(spark, ours).ledger(node).groupBy("fate").sum("records").collect()
        assert sum(row[1] for row in fates) == sum(sent(topic) for topic in node.topics)


def goes_on_with(run: Driver, servers: str, part: int) -> None:
    """Send a part of the records, and let the driver begin with it."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})
    for topic, records in (("readings", readings_of(part)), ("rooms", rooms_of(part))):
        for each in records:
            producer.produce(
                topic, each.value, each.key, partition=each.partition, timestamp=each.timestamp_ms
            )
    assert producer.flush(60) == 0
    run.go_on()


def caught_up(run: Driver, servers: str) -> None:
    """Wait until the driver has read and folded all that was sent."""
    run.wait_for(f"caught up {sum(records_in(servers, topic) for topic in ('readings', 'rooms'))}")


def sent(topic: Topic) -> int:
    of = {"readings": readings_of, "rooms": rooms_of}[topic.name]
    return sum(1 for part in range(PARTS) for _ in of(part))


def copy_logs(ours: Lake, copied: Lake) -> None:
    """Give another lake the same logs, and nothing else."""
    store, path = store_of(f"{ours.root}/logs")
    target = store_of(f"{copied.root}/logs")[1]
    for found in obstore.list(store, path):
        for each in found:
            obstore.copy(store, each["path"], each["path"].replace(path, target, 1))
