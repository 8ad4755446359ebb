"""Dagster's own processes over a stream: webserver, daemon, code server, and the run beside them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import pytest
from dagster_graphql import DagsterGraphQLClient

from headrace.local.servers import lifeline
from headrace.local.servers.broker import Broker
from headrace.local.servers.broker_config import free_port
from headrace.local.servers.dagster_ui import wait_for_ui
from headrace.local.servers.topics import create_topics
from tests.broker.harness import produce
from tests.broker.pipeline import reading
from tests.orchestration.world import STREAM, World, new_world
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
CODE = Path(__file__).with_name("code_location.py")
T = TypeVar("T")
STARTED, CANCELED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELED
TICKS = """query($sensor: SensorSelector!) { sensorOrError(sensorSelector: $sensor) { ... on Sensor {
  sensorState { ticks(limit: 1) { timestamp status skipReason } } } } }"""


@dataclass
class Site:
    """A world, and Dagster's processes over it."""

    world: World
    broker: Broker
    port: int
    log: Path
    dagster: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start webserver, daemon and code server; returns when the UI answers."""
        command = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(self.port)]
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}"}
        self.dagster = lifeline.spawn(
            [*command, "-f", str(CODE), "-d", str(ROOT)], log=self.log, env=environment, cwd=ROOT
        )
        wait_for_ui(self.dagster, self.port, self.log)

    def stop(self) -> None:
        """End them; the stream's run is not theirs."""
        if self.dagster is not None:
            lifeline.stop(self.dagster, patience_s=60)

    @property
    def client(self) -> DagsterGraphQLClient:
        return DagsterGraphQLClient("127.0.0.1", port_number=self.port)

    def runs(self, *statuses: dg.DagsterRunStatus) -> list[str]:
        """The runs of the stream, newest first."""
        filters = dg.RunsFilter(job_name="streams", statuses=list(statuses) or None)
        return [run.run_id for run in self.world.instance.get_runs(filters)]

    def status(self, run: str) -> dg.DagsterRunStatus:
        found = self.world.instance.get_run_by_id(run)
        assert found is not None
        return found.status

    def streaming(self, rows: int, run: str | None = None) -> Callable[[], bool]:
        """Whether a run has read so many records since it began."""

        def reached() -> bool:
            seen = self.world.instance.fetch_observations(STREAM, limit=1).records
            if not seen or seen[0].asset_observation is None or run not in (None, seen[0].run_id):
                return False
            shown = seen[0].asset_observation.metadata["rows_total"].value
            return isinstance(shown, int) and shown >= rows

        return reached

    def next_tick(self) -> dict[str, Any]:
        """The sensor's next look."""
        name = {"repositoryName": "__repository__", "repositoryLocationName": CODE.name}
        began = time.time()

        def newest() -> dict[str, Any]:
            found = self.client._execute(TICKS, {"sensor": {**name, "sensorName": "keep_streams_running"}})
            ticks = found["sensorOrError"]["sensorState"]["ticks"]
            done = bool(ticks) and ticks[0]["timestamp"] > began and ticks[0]["status"] != "STARTED"
            return dict(ticks[0]) if done else {}

        return self.until(newest)

    def until(self, look: Callable[[], T], within: float = PATIENCE_S) -> T:
        """Look until something is true, and return it."""
        said = partial(self.log.read_text, errors="replace")
        return until(look, told=lambda: said()[-3000:], every_s=0.5, patience_s=within)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, kafka: Broker) -> Iterator[Site]:
    """Dagster, started over an empty instance as on a laptop, whose sensor is on."""
    topic = f"life-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap_servers, {topic: 2})
    root = tmp_path_factory.mktemp("site")
    settings = (ROOT / "deploy" / "local" / "dagster.yaml").read_text()
    settings = settings.replace("poll_interval_seconds: 10", "poll_interval_seconds: 2")
    with (
        pytest.MonkeyPatch.context() as patch,
        new_world(root, kafka.bootstrap_servers, topic, settings) as world,
    ):
        patch.setenv("HEADRACE_TEST_TOPIC", topic)
        site = Site(world, kafka, free_port(), root / "dagster.log")
        try:
            site.start()
            yield site
        finally:
            site.stop()
            for run in site.runs(STARTED):
                with suppress(ProcessLookupError):
                    os.kill(pid_of(world.instance, run), signal.SIGKILL)


def send(site: Site, first: int, last: int) -> None:
    """A reading in each of two partitions for each minute."""
    produce(site.broker, site.world.topic, [reading(p, m) for m in range(first, last + 1) for p in (0, 1)])


def pid_of(instance: dg.DagsterInstance, run: str) -> int:
    """The process of a run, as Dagster noted it."""
    told = [re.search(r"\(pid: (\d+)\)", entry.message or "") for entry in instance.all_logs(run)]
    return int(next(found for found in told if found)[1])


def java_below(pid: int) -> list[int]:
    """The JVMs among a process's descendants."""
    listing = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in listing.stdout.splitlines()]
    below = {pid}
    for _ in rows:
        below |= {int(child) for child, parent, _ in rows if int(parent) in below}
    return [int(child) for child, _, name in rows if int(child) in below and name.startswith("java")]


def lives(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()
