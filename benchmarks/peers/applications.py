"""Peers that run in a JVM of their own: an application in Java for each, built by Maven in a temporary folder.

An application takes a job and prefixes of topics. It catches up with the topics of each prefix in turn, in one JVM, and each
time prints a line of JSON: `records`, `seconds`, `cpu_s`, `peak_rss_mib`, and `kept`, the topic of its results.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.jobs import Job

HEAP = "-Xmx1500m"
# Of Java 17, for Flink's serializers: what `flink-conf.yaml` of its distribution sets.
OPENED = (
    "java.util",
    "java.lang",
    "java.net",
    "java.io",
    "java.time",
    "java.lang.invoke",
    "java.util.concurrent",
)


@dataclass(frozen=True)
class Application:
    """A peer's application.

    title    what the peer is called
    folder   of its sources, beside this file
    main     its class
    prefix   of the names of its topics
    opened   packages of Java that it looks into
    """

    title: str
    folder: str
    main: str
    prefix: str
    opened: tuple[str, ...] = ()

    def build(self, place: Path) -> str:
        """Build it below a folder; the first time Maven fetches what it needs. Out: its class path."""
        return built(self.folder, place)

    def run(
        self, job: Job, prefixes: Sequence[str], class_path: str, folder: Path, environment: dict[str, str]
    ) -> list[dict[str, Any]]:
        """Catch up with a job's topics, exactly once, with durable state, once for each prefix.

        In:  environment  BOOTSTRAP; BROKER_PID
        Out: for each run what it measured
        """
        state = folder / self.folder
        state.mkdir(parents=True)
        command = ["java", HEAP, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in self.opened]
        options = [job.name.lower(), job.variant, "eos", str(state), *prefixes]
        printed = _run([*command, "-cp", class_path, self.main, *options], env=environment)
        return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def built(folder: str, place: Path) -> str:
    """Build a project beside this file, in a copy below a folder. Out: its class path."""
    app = place / folder
    shutil.copytree(Path(__file__).parent / folder, app)
    _run(["mvn", "--quiet", "--batch-mode", "package"], cwd=app)
    return f"{app}/target/*:{app}/target/lib/*"


KAFKA_STREAMS = Application("Kafka Streams", "kafka_streams", "headrace.peers.StreamsJobs", "ks")
FLINK = Application("Flink SQL", "flink", "headrace.peers.FlinkJobs", "flink", OPENED)


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | {"KEEP": "1"} | (env or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise TerminalError(f"{command[0]} failed.", detail=(done.stdout + done.stderr)[-4000:])
    return done.stdout
