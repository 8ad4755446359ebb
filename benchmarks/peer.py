"""The same jobs on Kafka Streams: the application in `peers`, built in a folder of its own.

Its harness measures one run of a JVM. Of our copy two things differ: `Twice.java` calls the harness once for each prefix of
topics, and the harness takes that prefix from a system property. Topologies, settings and what is measured stay as they are.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.jobs import Job

HEAP = "-Xmx1500m"
OURS = Path(__file__).with_name("Twice.java")
PREFIX_IN_HARNESS, PREFIX_FROM_US = (
    'inputs(workload, "ks-")',
    'inputs(workload, System.getProperty("prefix"))',
)


def build(peers: Path, folder: Path) -> str:
    """Build the application; the first time Maven fetches what it needs. Out: its class path."""
    app = folder / "app"
    shutil.copytree(peers / "kafka_streams" / "app", app)
    sources = app / "src" / "main" / "java" / "anchor"
    shutil.copy(OURS, sources)
    harness = sources / "Bench.java"
    text = harness.read_text(encoding="utf-8")
    if text.count(PREFIX_IN_HARNESS) != 1:
        raise TerminalError(f"The peer's harness has changed: `{PREFIX_IN_HARNESS}` is not in it once.")
    harness.write_text(text.replace(PREFIX_IN_HARNESS, PREFIX_FROM_US), encoding="utf-8")
    _run(["mvn", "--quiet", "--batch-mode", "package"], cwd=app)
    return f"{app}/target/kstreams-anchor-1.jar:{app}/target/lib/*"


def generate(peers: Path, bootstrap: str, log: str, records: int, prefix: str) -> None:
    """Fill the topics of a log."""
    command = [sys.executable, str(peers / "kafka_streams" / "generate.py"), log, "--n", str(records)]
    _run([*command, "--bootstrap", bootstrap, "--prefix", prefix])


def run(
    job: Job, prefixes: Sequence[str], class_path: str, bootstrap: str, broker_pid: int
) -> list[dict[str, Any]]:
    """Runs of a job in one JVM, exactly-once with durable state, one for each prefix.

    Out: for each what the harness measured, and `kept`, the topic of its results
    """
    environment = {"BOOTSTRAP": bootstrap, "BROKER_PID": str(broker_pid), "KEEP": "1"}
    command = ["java", HEAP, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path]
    said = _run([*command, "anchor.Twice", job.name.lower(), job.variant, "eos", *prefixes], env=environment)
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise TerminalError(f"{command[0]} failed.", detail=(done.stdout + done.stderr)[-2000:])
    return done.stdout
