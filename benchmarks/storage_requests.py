"""Requests to the object store in a minute of a stream: at work, and with nothing to do.

`python -m benchmarks.storage_requests`. A real Kafka broker and a real S3 server, whose own metrics count the requests; one
topic of two partitions and one node of each kind. Counted after half a minute that warms up. Commits are counted in the
tables.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

import headrace as hr
from headrace import lake as lakes
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, spark_conf
from headrace.streams.stream_runtime import StreamRuntime
from tests.watched_store import WatchedStore

if TYPE_CHECKING:
    from headrace.description import Node

KINDS = ("PUT", "LIST", "GET", "DELETE", "POST")
WARM_UP_SECONDS = 30.0

readings = hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE")
by_sensor = readings.group_by("sensor_id")
NODES: dict[str, Node] = {
    "final windows": by_sensor.window(hr.tumbling("10 seconds"), grace="5 seconds")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("finals"),
    "totals": by_sensor.aggregate(n=hr.count(), total=hr.sum("value")).named("totals"),
}


def main(
    seconds: Annotated[float, typer.Option(help="How long each state is counted.")] = 60.0,
    rate: Annotated[int, typer.Option(help="Records per second.")] = 500,
    trigger_ms: Annotated[int, typer.Option(help="The shortest time between two micro-batches.")] = 1_000,
) -> None:
    """Measure and print."""
    shown = Table(title=f"Requests in a minute; {rate} records/s, trigger {trigger_ms / 1000:g} s")
    for column in ("node", "state", "log commits", "state commits", *KINDS):
        shown.add_column(column, justify="left" if column in ("node", "state") else "right")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(WatchedStore(folder / "s3"))
        broker = stack.enter_context(Broker(folder / "kafka"))
        os.environ |= store.environment
        spark = build_session(spark_conf(spark_jars(), lake=store.root), "storage-requests")
        create_topics(broker.bootstrap_servers, {"readings": 2})
        for name, node in NODES.items():
            lake = Lake(f"{store.root}/{node.name}")
            kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
            runtime = StreamRuntime(spark, lake, [node], kafka=kafka, trigger_ms=trigger_ms)
            try:
                for state, records in (("at work", rate), ("idle", 0)):
                    row = _counted(runtime, lake, node, store, broker, seconds, records)
                    shown.add_row(name, state, *(f"{value * 60 / seconds:.0f}" for value in row))
            finally:
                runtime.drain(timeout_seconds=30)
    Console(width=160).print(shown)


def _counted(
    runtime: StreamRuntime,
    lake: Lake,
    node: Node,
    store: WatchedStore,
    broker: Broker,
    seconds: float,
    rate: int,
) -> list[int]:
    over = threading.Event()
    sending = threading.Thread(target=_send, args=(broker.bootstrap_servers, rate, over), daemon=True)
    if rate:
        sending.start()
    try:
        _poll(runtime, WARM_UP_SECONDS)
        before, commits = store.requests(), _versions(lake, node)
        _poll(runtime, seconds)
        requests, after = store.requests() - before, _versions(lake, node)
        return [
            *(b - a for a, b in zip(commits, after, strict=True)),
            *(requests[kind] for kind in KINDS),
        ]
    finally:
        over.set()
        if rate:
            sending.join()


def _poll(runtime: StreamRuntime, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        runtime.poll()
        time.sleep(1.0)


def _versions(lake: Lake, node: Node) -> tuple[int, int]:
    """The newest versions that this process knows. To look for newer ones would be a request."""
    return (
        lakes.open_table(lake.log("readings")).known_version,
        lakes.open_table(lake.state(node.required_name)).known_version,
    )


def _send(servers: str, rate: int, over: threading.Event) -> None:
    producer, number = Producer({"bootstrap.servers": servers}), 0
    while not over.wait(0.1):
        for _ in range(rate // 10):
            number += 1
            text = json.dumps({"sensor_id": f"s{number % 100}", "value": 1.0})
            producer.produce("readings", text.encode(), f"s{number % 100}".encode())
        producer.poll(0)
    producer.flush(10)


if __name__ == "__main__":
    typer.run(main)
