"""A broker, a lake and a Spark session on this machine, for a REPL, a notebook, or a first look at an operator."""

from __future__ import annotations

import atexit
import datetime as dt
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Producer

from headrace.description.epoch_time import milliseconds
from headrace.description.formats import PlainValue
from headrace.errors import TerminalError, TransientError
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.nodes.descriptions.topics import topics_of
from headrace.observe.views import Views
from headrace.sinks.encoding.records import ENCODED, record_bytes
from headrace.spark.brokers.topic_limits import NOT_SENDABLE_MS
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.streams.stream_runtime import StreamRuntime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame

    from headrace.description import Node, Topic, WindowedAggregate

PARTITIONS = 3
ROWS_SHOWN = 20
FLUSH_SECONDS = 60
# Frames show their rows where a REPL or a notebook prints them.
SHOWN = {
    "spark.sql.repl.eagerEval.enabled": "true",
    "spark.sql.repl.eagerEval.maxNumRows": str(ROWS_SHOWN),
    "spark.sql.repl.eagerEval.truncate": "60",
}


class Workbench:
    """The result of `hr.local()`. Use it as a context manager, or call `stop`; it also stops when Python ends.

    Law: the same code runs as in a deployment. `run` streams from Kafka into the lake and stops when it has caught up.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """Start everything. In: folder  as of `hr.local`."""
        jars = spark_jars()
        self._temporary = tempfile.TemporaryDirectory(prefix="headrace-") if folder is None else None
        home = Path(self._temporary.name if self._temporary else str(folder)).absolute()
        home.mkdir(parents=True, exist_ok=True)
        self.lake = Lake(f"file:{home / 'lake'}")
        self.broker = Broker(home / "kafka").start().wait_ready()
        atexit.register(self.stop)
        self.spark = pipeline_session(build_session(spark_conf(jars, lake=self.lake.root)))
        for name, value in SHOWN.items():
            self.spark.conf.set(name, value)
        self._views = Views(self.spark, self.lake)
        self._made: set[str] = set()

    @property
    def bootstrap_servers(self) -> str:
        """The address of the broker, for other clients."""
        return self.broker.bootstrap_servers

    def send(
        self, topic: Topic, *values: Mapping[str, Any] | None, at: str | None = None, key: Any = None
    ) -> int:
        """Send records to a topic of JSON or of plain values, which is made if need be.

        In:     values  one record each, as a mapping of columns; None is a tombstone, and needs a `key`
                at      the records' time, ISO 8601, as 2026-11-27T10:00:00Z; None: now
                key     of all of them; None: the columns of the topic's key, from each value
        Out:    how many records were sent
        Raises: TerminalError when the topic has another format, or a record has no key and the topic's records have one;
                TransientError when the broker does not take a record
        """
        if topic.format != "json" and not isinstance(topic.format, (PlainValue, *ENCODED)):
            raise TerminalError(
                f"Topic '{topic.name}' holds {topic.format}, and send does not write that.",
                hint=f"Use a producer of your own: the broker is at {self.bootstrap_servers}.",
            )
        stamp = round(time.time() * 1000) if at is None else milliseconds(dt.datetime.fromisoformat(at))
        refused: list[str] = []
        if stamp in NOT_SENDABLE_MS:
            raise TerminalError(f"Topic '{topic.name}': at={at!r} is {NOT_SENDABLE_MS[stamp]}.")
        self._make([topic])
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        for value in values:
            body = record_bytes(topic, "value", value)
            producer.produce(
                topic.name,
                body,
                key_bytes(topic, value, key),
                timestamp=stamp,
                on_delivery=lambda error, _: refused.append(str(error)) if error is not None else None,
            )
        waiting = producer.flush(FLUSH_SECONDS)
        if waiting or refused:
            raise TransientError(
                f"Topic '{topic.name}': the broker did not take {waiting + len(refused)} of {len(values)} records.",
                detail=refused[0] if refused else f"It did not answer within {FLUSH_SECONDS} s.",
                hint="Send these records again; if the broker was stopped, begin with a new hr.local().",
            )
        return len(values)

    def run(self, *nodes: Node, close_batches: bool = False) -> None:
        """Stream what the topics hold into the tables of these nodes, and stop when all is folded.

        In: close_batches  True to close open batches, as a stream does that a person stops
        """
        self._make(topics_of(nodes).values())
        kafka = KafkaSettings(bootstrap_servers=self.bootstrap_servers)
        runtime = StreamRuntime(self.spark, self.lake, nodes, kafka=kafka)
        try:
            runtime.run_until_caught_up()
        finally:
            runtime.drain(close_batches=close_batches)

    def read(self, node: Node) -> DataFrame:
        """The table of a node, in the order of its identity."""
        return self._views.read(node).orderBy(*node.key)

    def open_windows(self, node: WindowedAggregate) -> DataFrame:
        """The windows that are not closed yet, with their values so far."""
        return self._views.open_windows(node)

    def late(self, node: Node) -> DataFrame:
        """The records that came too late."""
        return self._views.late(node)

    def dead_letters(self, topic: Topic) -> DataFrame:
        """The records that could not be decoded or dated, with the reason."""
        return self._views.dead_letters(topic)

    def ledger(self, node: Node) -> DataFrame:
        """The fate of each record."""
        return self._views.ledger(node)

    def is_proven(self, node: Node) -> bool:
        """Recompute a table from its log, and compare: True if each row is the same."""
        return all(verdict.equal for verdict in verify(self.spark, self.lake, node))

    def stop(self) -> None:
        """Stop the broker, and remove a folder that nobody named; the Spark session stays with the process."""
        atexit.unregister(self.stop)
        self.broker.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        """Servers that run, and the next calls."""
        state = f"a Kafka broker at {self.bootstrap_servers}, a lake, Spark" if self.broker.pid else "stopped"
        return f"hr.local(): {state}; send(topic, …), run(node), read(node), stop()"

    def _make(self, topics: Iterable[Topic]) -> None:
        missing = [topic.name for topic in topics if topic.name not in self._made]
        create_topics(self.bootstrap_servers, dict.fromkeys(missing, PARTITIONS))
        self._made |= {*missing}


def key_bytes(topic: Topic, value: Mapping[str, Any] | None, key: Any) -> bytes | None:
    """A record's key as bytes (see `record_bytes`). In: key  None: the columns of the key, from the value."""
    if not topic.key_columns:
        return None
    names = [column.name for column in topic.key_columns]
    if key is None:
        if value is None or not set(names) <= value.keys():
            raise TerminalError(
                f"Topic '{topic.name}': a record has no key; the key's columns are {', '.join(names)}.",
                hint="Put them into the value, or give key=….",
            )
        key = {name: value[name] for name in names}
    elif not isinstance(key, dict):
        key = {names[0]: key}
    return record_bytes(topic, "key", key)
