"""What the end-to-end tests share: an instance, a lake, a topic and a process that hosts the stream run."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from headrace.lake.paths import Lake
from tests.broker.pipeline import Record, reading
from tests.orchestration.location import definitions_of
from tests.waiting import PATIENCE_S, until

HOST = Path(__file__).with_name("host.py")
TABLE = dg.AssetKey(["reading_counts"])
STREAM = dg.AssetKey(["stream", "reading_counts_stream"])
HOURS = 40


def two_days() -> list[Record]:
    """Three sensors, hourly from noon of 1 May to 3 o'clock of 3 May; at last one too late and one that is no JSON."""
    good = [reading(p, 60 * hour, value=hour + 0.1 * p) for hour in range(HOURS) for p in range(3)]
    return [*good, reading(0, 1, value=99.0), Record(1, b"s1", b"{", good[-1].timestamp_ms)]


@dataclass
class World:
    """One lake, one Dagster instance, one topic."""

    instance: dg.DagsterInstance
    topic: str
    lake: Lake
    defs: dg.Definitions

    @property
    def log_key(self) -> dg.AssetKey:
        return dg.AssetKey(["log", self.topic])

    def run(self, job: str, tags: Mapping[str, str] | None = None) -> dg.ExecuteInProcessResult:
        """Run a job here, to its end."""
        return self.defs.resolve_job_def(job).execute_in_process(
            instance=self.instance, tags=dict(tags or {})
        )

    def newest_run(self) -> dg.DagsterRun:
        return self.instance.get_run_records(limit=1)[0].dagster_run

    def observations(self, key: dg.AssetKey) -> list[dict[str, Any]]:
        """What an asset's page shows, newest first."""
        observed = [r.asset_observation for r in self.instance.fetch_observations(key, limit=1000).records]
        return [{name: value.value for name, value in each.metadata.items()} for each in observed if each]

    def evaluations(self) -> dict[str, dg.AssetCheckEvaluation]:
        """The newest verdict of each check, by its name."""
        keys = list(self.defs.get_repository_def().asset_graph.asset_check_keys)
        found = self.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
        return {key.name: record.evaluation for key, record in found.items() if record.evaluation}

    def terminate(self, stream: StreamProcess) -> None:
        """What "Terminate" in the UI does: note the request, interrupt the process; returns when it is gone."""
        self.instance.report_run_canceling(self.newest_run())
        stream.process.send_signal(signal.SIGINT)
        stream.end()

    @contextmanager
    def stream(self, *arguments: str) -> Iterator[StreamProcess]:
        """A process that hosts the stream run; killed at the end if it still lives."""
        said = Path(self.instance.root_directory) / "stream.log"
        with said.open("ab") as log:
            command = [sys.executable, str(HOST), self.topic, *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield StreamProcess(process, said)
        finally:
            process.kill()
            process.wait()


@dataclass
class StreamProcess:
    """The process of a stream run."""

    process: subprocess.Popen[bytes]
    said: Path

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait for something to come true while it runs."""

        def look() -> bool:
            found = reached()
            assert found or self.process.poll() is None, self.said.read_text()[-3000:]
            return found

        until(look, told=lambda: self.said.read_text()[-3000:], every_s=0.5, patience_s=2 * PATIENCE_S)

    def end(self) -> None:
        """Wait until it ends by itself."""
        self.process.wait(2 * PATIENCE_S)


@contextmanager
def new_world(
    root: Path, bootstrap: str, topic: str, settings: str = "telemetry: {enabled: false}\n"
) -> Iterator[World]:
    """An empty lake and instance below `root`, with the environment that processes need."""
    home = root / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text(settings)
    environment = {
        "DAGSTER_HOME": str(home),
        "HEADRACE_LAKE": f"file:{root / 'lake'}",
        "HEADRACE_DOCS": str(root / "docs"),
        "HEADRACE_KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "GX_ANALYTICS_ENABLED": "false",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with dg.DagsterInstance.get() as instance:
            yield World(instance, topic, Lake(environment["HEADRACE_LAKE"]), definitions_of(topic))
