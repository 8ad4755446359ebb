"""`headrace dev` as a process: a broker, traffic, the stream and Dagster; a saved change is applied; Ctrl-C ends all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace import lake as lakes
from headrace.cli.new_project import make_project
from headrace.lake.paths import Lake
from headrace.local.servers import lifeline
from headrace.local.servers.broker import Broker
from headrace.local.servers.broker_config import free_port
from headrace.local.servers.settings_file import read_settings_file
from headrace.local.servers.topics import create_topics, records_in
from headrace.writing.leases.processes import born, runs
from tests.rows import file_rows
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.slow]
HEADRACE = [
    sys.executable,
    "-c",
    "import sys; from headrace.cli import main; sys.argv[0] = 'headrace'; main()",
]
ASSETS = "{ assetNodes { assetKey { path } assetMaterializations(limit: 1) { runId } } }"


class Dev:
    """A `headrace dev` that runs, and what it has printed."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log, self._read = process, log, 0

    def wait_for(self, *words: str) -> str:
        """The text that it printed since the last call, as soon as that has one of these texts."""
        text = until(
            self._new_text, lambda text: any(each in text for each in words), told=self._log.read_text
        )
        self._read += len(text.encode())
        return text

    def _new_text(self) -> str:
        """The lines that it has written to their ends."""
        assert self.process.poll() is None, self._log.read_text()
        lines, end, _ = self._log.read_bytes()[self._read :].rpartition(b"\n")
        return (lines + end).decode()


@contextmanager
def dev(project: Path, log: Path, *options: str) -> Iterator[Dev]:
    """A `headrace dev` in a project; Ctrl-C at the end has to end each of its processes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_KAFKA")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*HEADRACE, "dev", *options], cwd=project, env=environment, stdout=output, stderr=output
        )
    try:
        yield Dev(process, log)
        below = {pid: born(pid) for pid in lifeline.descendants(process.pid)}
        assert below
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0, log.read_text()
        assert not [pid for pid, began in below.items() if runs(pid, began)]
    finally:
        lifeline.stop(process)


def assets(port: int) -> dict[str, bool]:
    """The assets that the UI shows, and whether each has been materialized."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql",
        json.dumps({"query": ASSETS}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        nodes = json.load(answer)["data"]["assetNodes"]
    return {"/".join(each["assetKey"]["path"]): bool(each["assetMaterializations"]) for each in nodes}


def test_a_project_runs_while_it_is_written(tmp_path: Path) -> None:
    project, port = make_project("my_streams", tmp_path), free_port()
    payments = project / "my_streams" / "payments.py"
    with dev(project, tmp_path / "dev.out", "--port", str(port)) as running:
        shown = running.wait_for("stream/alerts_stream: running")
        assert "starting a Kafka broker and a schema registry: no Kafka is configured" in shown
        assert "node alerts: new" in shown
        settings = read_settings_file(project / ".headrace" / "dev" / "settings.env")
        assert f"set -a; . {project / '.headrace' / 'dev' / 'settings.env'}; set +a" in shown

        def status_of_log() -> dict[str, Any]:
            environment = {**os.environ, **settings}
            command = [*HEADRACE, "status", "--json"]
            done = subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False)
            return dict(json.loads(done.stdout.splitlines()[0]))

        def in_the_log() -> int:
            lakes.forget()
            return sum(
                row["offset"] is not None
                for row in file_rows(Lake(settings["HEADRACE_LAKE"]).log("payments"))
            )

        # The log's files are looked at first: each look at the status is a process.
        until(lambda: assets(port), lambda shown: shown.get("log/payments"), every_s=0.5)
        until(in_the_log, lambda records: records >= 10, every_s=0.5)
        log = status_of_log()
        assert log["records"]["delivered"] >= 10
        assert (log["asset"], log["running"]) == ("log/payments", True)

        code = payments.read_text()
        payments.write_text(code.replace('group_by("shop")', 'group_by("shp")'))
        shown = running.wait_for("Nothing was changed: correct the file, and save it.")
        assert "payments.py changed" in shown
        assert "column 'shp' does not exist" in shown
        assert f"{payments}:9: " in shown
        totals = 'totals = payments.group_by("shop").aggregate(n=hr.count()).named("totals")\n'
        payments.write_text(code.replace("declined >= 3", "declined >= 1") + totals)
        shown = running.wait_for("stream/totals_stream: running", "of 4 logs and queries: running")
        assert "step removed: where declined >= 3" in shown
        assert "node totals: new" in shown
        assert "applied in " in shown
        until(lambda: assets(port), lambda shown: "totals" in shown, every_s=0.5)


def test_topics_of_production_are_read_into_a_private_lake_and_rows_of_sinks_are_printed(
    tmp_path: Path,
) -> None:
    """The settings of a deployment: `test_dev.py`."""
    with Broker(tmp_path / "kafka") as kafka:
        bootstrap = kafka.bootstrap_servers
        create_topics(bootstrap, {"payments": 1})
        payment = {"shop": "north", "amount": 1, "declined": True}
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce("payments", json.dumps(payment), "north")
        assert producer.flush(PATIENCE_S) == 0
        _reads_production(tmp_path, bootstrap)


def _reads_production(tmp_path: Path, bootstrap: str) -> None:
    project = make_project("readers", tmp_path)
    with (project / "readers" / "payments.py").open("a") as code:
        code.write('pages = payments.where("declined").to(hr.KafkaSink("pages")).named("pages")\n')
    lines = (f"HEADRACE_KAFKA_BOOTSTRAP_SERVERS={bootstrap}", "HEADRACE_LAKE=s3://production/lake")
    (project / "production.env").write_text("\n".join(lines))
    with dev(project, tmp_path / "from.out", "--no-ui", "--from", "production.env") as running:
        shown = running.wait_for('"declined":true')
        assert "kafka-pages <- pages: " in shown
        assert "starting a Kafka broker" not in shown
    assert (project / ".headrace" / "dev-production" / "lake" / "tables" / "pages").is_dir()
    assert records_in(bootstrap, "pages") == 0
