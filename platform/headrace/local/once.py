"""A pipeline run once on this machine: a broker, records, the stream, its tables, and the proof."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.nodes.descriptions.topics import topics_of
from headrace.nodes.standing.emptiness import why_empty
from headrace.nodes.standing.lake_facts import LakeFacts
from headrace.observe.views import Views
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.streams.stream_runtime import StreamRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.description import Node

PARTITIONS = 3
ROWS_SHOWN = 10
RECENTLY_MS = 15 * 60_000


def run_once(
    nodes: Sequence[Node], records: Callable[[int], Iterable[tuple[str, str, dict[str, Any], int]]]
) -> bool:
    """Start a broker, send it records, stream them into a new lake, and show each table.

    In:  records  gives topic, key, value and timestamp in milliseconds of each record; it is told the first timestamp
    Out: whether each table, recomputed from its log, is the same
    """
    console, folder = Console(), Path.cwd() / ".headrace" / "once" / str(time.time_ns())
    folder.mkdir(parents=True)
    lake = Lake(f"file:{folder / 'lake'}")
    with console.status("starting a Kafka broker"), Broker(folder / "kafka") as broker:
        create_topics(broker.bootstrap_servers, dict.fromkeys(topics_of(nodes), PARTITIONS))
        sent = _send(broker.bootstrap_servers, records(round(time.time() * 1000) - RECENTLY_MS))
        console.print(f"sent {sent:,} records")
        spark = pipeline_session(build_session(spark_conf(spark_jars(), lake=lake.root)))
        runtime = StreamRuntime(
            spark, lake, nodes, kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        )
        try:
            runtime.run_until_caught_up()
        finally:
            runtime.drain(close_batches=True)
    equal = True
    for node in nodes:
        console.print(_rows(node, Views(spark, lake)))
        if (sentence := sentence_if_empty(node, LakeFacts(lake))) is not None:
            console.print(sentence, soft_wrap=True, markup=False)
        verdicts = verify(spark, lake, node, None)
        equal = equal and all(verdict.equal for verdict in verdicts)
    console.print(
        "Recomputed from the log: the same tables." if equal else "Recomputed from the log: rows differ."
    )
    return equal


def sentence_if_empty(node: Node, facts: LakeFacts) -> str | None:
    """Why a node's table has no row; None: it has rows."""
    return None if facts.has_rows(node) else f"{node.required_name} has no rows: {why_empty(node, facts)}"


def _send(bootstrap: str, records: Iterable[tuple[str, str, dict[str, Any], int]]) -> int:
    producer, sent = Producer({"bootstrap.servers": bootstrap}), 0
    for topic, key, value, timestamp_ms in records:
        producer.produce(topic, json.dumps(value).encode(), key.encode(), timestamp=timestamp_ms)
        sent += 1
    producer.flush(60)
    return sent


def _rows(node: Node, views: Views) -> Table:
    frame = views.read(node)
    rows = frame.count()
    shown = Table(title=f"{node.required_name}: {rows:,} row{'' if rows == 1 else 's'}", title_justify="left")
    for column in frame.columns:
        shown.add_column(column)
    for row in frame.orderBy(*node.key).limit(ROWS_SHOWN).collect():
        shown.add_row(*(str(value) for value in row))
    return shown
