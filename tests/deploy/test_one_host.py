"""All of `compose.yaml` runs outside of containers, against real servers, by the commands that it names."""

from __future__ import annotations

import json
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest
from confluent_kafka import Producer

from headrace.nodes.descriptions.topics import topics_of
from headrace.settings import load_pipeline
from tests.deploy.one_host import OneHost
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dagster, pytest.mark.broker, pytest.mark.s3]


def test_each_service_of_one_host_starts_with_its_command_and_is_well(tmp_path: Path) -> None:
    with ExitStack() as stack:
        host = OneHost(tmp_path, stack)
        host.start_all()
        assert "WRONG" not in host.checked
        for tried in (*topics_of(load_pipeline("assets")), "conditional put", "Spark master", "PostgreSQL"):
            assert tried in host.checked
        page = f"http://127.0.0.1:{host.port('3001')}/"
        (tmp_path / "docs" / "index.html").write_text("the report")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(page) as answer:
            assert answer.read() == b"the report"
        left = {path.name for path in host.location.iterdir()} - {"__pycache__"}
        assert left == {"assets", "jobs"}, "the image's user may not write there"


@pytest.mark.long
@pytest.mark.spark
def test_the_sensor_starts_the_stream_there_which_writes_what_kafka_holds(tmp_path: Path) -> None:
    """Its run lies in PostgreSQL, the master has its executors, and its rows are in the bucket."""
    with ExitStack() as stack:
        host = OneHost(tmp_path, stack, HEADRACE_SENSOR="running")
        host.start_all()
        producer = Producer({"bootstrap.servers": host.bootstrap_servers, "acks": "all"})
        ticker = {"exchange": "XETRA", "name": "Acme", "founded": 1999}
        position = {"client": "c", "ticker": "ACM", "amount": 7}
        producer.produce("tickers", json.dumps(ticker), "ACM")
        producer.produce("positions", json.dumps(position), "p1")
        assert producer.flush(60) == 0
        row = asked(host, ["headrace", "get", "enriched_positions", "p1"])
        assert (row["amount"], row["exchange"]) == (7, "XETRA")
        with psycopg.connect(host.environment["DAGSTER_POSTGRES_URL"]) as connection:
            states = connection.execute("SELECT status FROM runs WHERE pipeline_name = 'streams'").fetchall()
        assert ("STARTED",) in states, host.said("daemon")
        master = f"http://127.0.0.1:{host.port('8080')}/json/"
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(master) as answer:
            assert json.load(answer)["activeapps"], "the run's driver has an application on the cluster"


def asked(host: OneHost, command: list[str]) -> dict[str, object]:
    """The row that a command prints, once there is one."""
    done = until(
        lambda: host.ran(command),
        lambda done: done.returncode == 0,
        told=lambda: host.said("code") + host.said("daemon"),
        every_s=2,
    )
    return dict(json.loads(done.stdout))
