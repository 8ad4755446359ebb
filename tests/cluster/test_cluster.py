"""A Spark standalone cluster and a lake on S3: the same tables as the log says, whichever executors die meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.local.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.s3]

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

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def driver(cluster: SparkCluster, lake: str, folder: Path, *more: str) -> Iterator[Driver]:
    folder.mkdir()
    path = os.pathsep.join([str(ROOT / "platform"), str(ROOT)])
    env: Mapping[str, str] = {**os.environ, **cluster.environment, "PYTHONPATH": path}
    command = [sys.executable, str(ROOT / "tests/cluster/driver.py"), lake, *more]
    with (folder / "errors.log").open("w") as errors:
        process = subprocess.Popen(
            command,
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
        process.communicate()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path / "cluster", memory="700m") as running:
        yield running


def go_on_and_lose_executors(run: Driver, cluster: SparkCluster, number: int) -> None:
    """The executors are killed while they work: half a second after the driver was told to go on."""
    killed = cluster.executors()[:number]
    assert len(killed) == number
    run.go_on()
    time.sleep(0.5)
    for process in killed:
        os.kill(process, signal.SIGKILL)


def test_windows_live_and_as_a_backfill_are_the_oracles_though_an_executor_is_killed(
    cluster: SparkCluster, s3_root: str, tmp_path: Path
) -> None:
    with driver(cluster, s3_root, tmp_path / "driver", "--upto", "2") as run:
        run.wait_for("ready 0")
        told = [line.split()[1::2] for line in run.said if line.startswith("executor:")]
        assert all("headrace-engine.zip" in engine for engine, _ in told), "the engine comes from the driver"
        assert {Path(folder).is_relative_to(tmp_path / "cluster") for _, folder in told} == {True}
        run.go_on()
        run.wait_for("ready 1")
        go_on_and_lose_executors(run, cluster, 1)
        run.wait_for("oracle")
    assert run.said[-2:] == ["backfill EQUAL", "oracle EQUAL"]


@pytest.mark.long
def test_a_lost_worker_and_a_driver_that_goes_on_elsewhere_change_nothing(
    cluster: SparkCluster, s3_root: str, tmp_path: Path
) -> None:
    with driver(cluster, s3_root, tmp_path / "first") as run:
        run.wait_for("ready 0")
        run.go_on()
        run.wait_for("ready 1")
        cluster.kill_worker("worker-1")
        run.go_on()
        run.wait_for("folded 1")
        run.wait_for("ready 2")
        run.go_on()
        run.kill()
    cluster.start_worker("worker-1")
    cluster.wait_ready()
    with driver(cluster, s3_root, tmp_path / "second", "--first", "3") as run:
        run.wait_for("ready 3")
        go_on_and_lose_executors(run, cluster, 2)
        run.wait_for("oracle")
    assert run.said[-2:] == ["backfill EQUAL", "oracle EQUAL"]
