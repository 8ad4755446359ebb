"""A real Spark standalone cluster on this machine: a master and workers as processes, from the PySpark package.

    with SparkCluster(Path("data"), workers=2) as cluster:
        os.environ |= cluster.environment

Invariants:
- it listens on the loopback interface only;
- each worker has a working folder of its own, and so has each of its executors: nothing is shared but what is sent;
- neither the cluster nor its executors outlive the process that started it.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors import TerminalError
from headrace.local.servers import lifeline
from headrace.local.servers.broker_config import HOST, free_port
from headrace.local.servers.server import ANSWER_S, LocalServer
from headrace.spark.jars import java

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
# Masters and workers compute nothing: the quick compiler alone.
DAEMON_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss512k"
# Else the master takes a fixed port, too, by which anybody here could submit work.
NO_SUBMISSIONS = "-Dspark.master.rest.enabled=false"


class SparkClusterFailed(TerminalError):
    """The cluster did not start, or ended; the detail holds the last lines of its master's log."""


class SparkCluster(LocalServer):
    """A master and some workers.

    In:     `workers` how many; `cores` and `memory` of each, as `1g`
            `port` of the master; None takes a free one
    """

    noun = "cluster"
    failed = SparkClusterFailed

    def __init__(
        self, data_dir: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g", port: int | None = None
    ) -> None:
        super().__init__(data_dir.absolute(), port, "master.log")
        self._cores, self._memory = cores, memory
        self._names = [f"worker-{number}" for number in range(1, workers + 1)]
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._ui_port = 0

    @property
    def master(self) -> str:
        """The URL of the master, as `HEADRACE_SPARK_MASTER` takes it."""
        return f"spark://{self.address}"

    @property
    def ui(self) -> str:
        """The address at which the master shows its workers and applications."""
        return f"http://{HOST}:{self._ui_port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which a stream run computes here; none is a secret."""
        return {
            "HEADRACE_SPARK_MASTER": self.master,
            "HEADRACE_SPARK_DRIVER_HOST": HOST,
            "HEADRACE_SPARK_DRIVER_BIND_ADDRESS": HOST,
        }

    def _launch(self) -> None:
        self.port, self._ui_port = self.port or free_port(), free_port()
        where = ["--host", HOST, "--port", str(self.port), "--webui-port", str(self._ui_port)]
        self._process = self._spawn(MASTER, where, self.data_dir, self.log_file)
        for name in self._names:
            self.start_worker(name)

    def start_worker(self, name: str) -> None:
        """Launch one worker, such as `worker-1`; again after it was killed."""
        folder = self.data_dir / name
        folder.mkdir(exist_ok=True)
        size = ["--cores", str(self._cores), "--memory", self._memory]
        where = ["--host", HOST, "--webui-port", str(free_port()), "--work-dir", str(folder / "work")]
        self.workers[name] = self._spawn(WORKER, [*where, *size, self.master], folder, folder / "worker.log")

    @property
    def title(self) -> str:
        """With the workers that have registered."""
        return f"Spark's master, with {len(self.alive())} of {len(self.workers)} workers,"

    def _answers(self) -> bool:
        return len(self.alive()) >= len(self.workers)

    def alive(self) -> list[str]:
        """The workers that the master counts as alive, by their ids."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by way of a proxy
        try:
            with direct.open(f"{self.ui}/json/", timeout=ANSWER_S) as answer:
                told: dict[str, Any] = json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return []
        return [worker["id"] for worker in told["workers"] if worker["state"] == "ALIVE"]

    def stop(self) -> None:
        """Shut workers and master down; nothing happens when they do not run."""
        running, self.workers = self.workers, {}
        for process in running.values():
            lifeline.stop(process)
        super().stop()

    def _spawn(self, main: str, arguments: list[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
        import pyspark

        home = Path(pyspark.__file__).parent
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": DAEMON_JVM,
            "SPARK_MASTER_OPTS": NO_SUBMISSIONS,
            "JAVA_HOME": str(Path(java()).resolve().parents[1]),
        }
        return lifeline.spawn(
            [str(home / "bin" / "spark-class"), main, *arguments], log=log, cwd=folder, env=env
        )
