"""What the tests against a real broker share: the broker, topics of their own, and a runtime that ends.

Import the fixtures into a folder's `conftest.py`; whichever folder comes first starts the broker, and all share it.
"""

from __future__ import annotations

import secrets
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from headrace.lake.paths import Lake
from headrace.lake.storage import spark_uri
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics, partitions_of
from headrace.observe.local_views import LocalViews
from headrace.spark.kafka import BrokerUnreachableError, KafkaSettings
from headrace.streams.status.stream_status import StreamStatus
from headrace.streams.stream_runtime import StreamRuntime
from tests.broker.pipeline import Record, counts_of
from tests.rows import columns, file_rows, in_order
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node

# Everything in a log row that must not depend on the run; `ingested_at` alone may differ.
DECIDED = (
    "kind",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "stream_time",
    "key",
    "value",
    "tombstone",
    "reason",
)
_shared: list[Broker] = []


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The one broker of the test session."""
    if not _shared:
        _shared.append(Broker(tmp_path_factory.mktemp("shared-kafka")).start().wait_ready())
    yield _shared[0]
    _shared[0].stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake of the test's own."""
    return Lake(f"file:{tmp_path}/lake")


@pytest.fixture
def new_topic(kafka: Broker) -> Callable[[int], str]:
    """Make a topic for records of any timestamp, with so many partitions, under a name that no other test has."""

    def make(partitions: int) -> str:
        name = f"readings-{uuid.uuid4().hex[:8]}"
        create_topics(kafka.bootstrap_servers, {name: partitions}, any_timestamp=True)
        return name

    return make


def produce(broker: Broker, topic: str, records: Iterable[Record]) -> None:
    """Send records, and return when the broker has all of them.

    A partition gets its records at once, as far as they fit into one request: they leave when all have been handed over.
    """
    settings = {"linger.ms": 60_000, "acks": "all", "message.max.bytes": 2_000_000}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    for record in records:
        producer.produce(
            topic, record.value, record.key, partition=record.partition, timestamp=record.timestamp_ms
        )
    assert producer.flush(PATIENCE_S) == 0


def transactional(broker: Broker, topic: str, *transactions: tuple[list[Record], bool]) -> None:
    """Send transactions one after the other, each of which commits or aborts."""
    producer = transactional_producer(broker, f"writes-{topic}")
    for records, commits in transactions:
        producer.begin_transaction()
        for r in records:
            producer.produce(topic, r.value, r.key, partition=r.partition, timestamp=r.timestamp_ms)
        producer.flush(PATIENCE_S)
        (producer.commit_transaction if commits else producer.abort_transaction)(PATIENCE_S)


def transactional_producer(broker: Broker, name: str) -> Producer:
    """A producer whose transactions the broker does not end, however long a busy machine leaves them open."""
    lasting = {"transactional.id": name, "transaction.timeout.ms": 900_000}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **lasting})
    producer.init_transactions(PATIENCE_S)
    return producer


def delete_records(broker: Broker, topic: str, before: Mapping[int, int]) -> None:
    """Do what retention does: delete each partition's records before an offset."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    positions = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in admin.delete_records(positions).values():
        future.result(PATIENCE_S)


def group_offsets(broker: Broker, group: str, topic: str) -> dict[int, int]:
    """The offsets that a consumer group has of a topic's partitions."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(PATIENCE_S).topic_partitions
    return {place.partition: place.offset for place in found if place.topic == topic}


def set_topic(broker: Broker, topic: str, settings: Mapping[str, str]) -> None:
    """Change settings of a topic, and return when the broker goes by them.

    Its controller answers first, then the broker shows them, and then it applies them, one change after the other. So once
    it shows a later change, it has applied these.
    """
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    _alter(admin, topic, settings)
    _alter(admin, topic, {"file.delete.delay.ms": f"{60_000 + secrets.randbelow(60_000)}"})


def _alter(admin: AdminClient, topic: str, settings: Mapping[str, str]) -> None:
    """Change settings, and return when the broker shows them."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    for name, value in settings.items():
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)
    until(partial(settings_of, admin, topic), lambda shown: settings.items() <= shown.items())


def settings_of(admin: AdminClient, topic: str) -> dict[str, str]:
    """What the broker shows of a topic's settings."""
    (asked,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in asked.result(PATIENCE_S).items()}


def refusal(words: str, ask: Callable[[], object]) -> str:
    """What a client is told with these words: on a busy machine it may at first be told that the broker does not answer."""

    def told() -> str:
        with pytest.raises(BrokerUnreachableError) as refused:
            ask()
        return str(refused.value)

    return until(told, lambda said: words in said)


def delete_topic(broker: Broker, topic: str) -> None:
    """Delete a topic, and return when the broker no longer knows it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_topics([topic]).values():
        future.result(PATIENCE_S)
    until(lambda: topic not in partitions_of(admin))


class Running:
    """A runtime under test, its node, and the tables that it writes."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        bootstrap: str,
        node: Node,
        *,
        only: Collection[str] | None = None,
        standby: bool = False,
        on_step: Callable[[str, str], None] = lambda asset, step: None,
    ) -> None:
        self.spark, self.lake, self.node = spark, lake, node
        self.topic = node.topics[0].name
        settings = KafkaSettings(bootstrap_servers=bootstrap)
        self.runtime = StreamRuntime(
            spark,
            lake,
            [node],
            kafka=settings,
            trigger_ms=100,
            only=only,
            standby=standby,
            on_step=on_step,
        )

    def catch_up(self) -> dict[str, StreamStatus]:
        """Run until everything in Kafka is in the log and folded; the statuses by asset."""
        return {s.asset: s for s in self.runtime.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)}

    def poll(self) -> dict[str, StreamStatus]:
        """Poll once; the statuses by asset."""
        return {status.asset: status for status in self.runtime.poll()}

    def poll_until(self, reached: Callable[[dict[str, StreamStatus]], bool]) -> dict[str, StreamStatus]:
        """Poll until the statuses say so; fails with the last of them."""
        return until(self.poll, reached, every_s=0.2)

    def log_status(self) -> StreamStatus:
        """How the log fares, without polling its node's health."""
        return self.poll()[f"log/{self.topic}"]

    def queries(self) -> list[str]:
        """The names of the loops that run, of logs and nodes, of whatever runtime."""
        return [each.name for each in threading.enumerate() if each.name.startswith(("log/", "stream/"))]

    def log(self) -> DataFrame:
        """The topic's log."""
        return self.spark.read.format("delta").load(spark_uri(self.lake.log(self.topic)))

    def decided(self) -> list[tuple[object, ...]]:
        """The log's records, by what must not depend on the run."""
        return sorted(self._records(*DECIDED), key=repr)

    def offsets(self) -> dict[int, list[int]]:
        """For each partition the offsets in the log, in order, duplicates included."""
        offsets: dict[int, list[int]] = {}
        for partition, offset in self._records("partition", "offset"):
            offsets.setdefault(partition, []).append(offset)
        return {partition: sorted(those) for partition, those in offsets.items()}

    def results(self) -> list[tuple[object, ...]]:
        """The final windows, in order."""
        return in_order(self._views.read(self.node), *self.node.columns)

    def recomputed(self) -> list[tuple[object, ...]]:
        """The same, from the whole log in one go."""
        return in_order(self._views.recompute(self.node), *self.node.columns)

    def fates(self) -> dict[str, int]:
        """The ledger over all partitions, fates with records only."""
        counts = Counter[str]()
        for row in self._views.ledger(self.node).to_pylist():
            counts[row["fate"]] += row["records"]
        return {fate: records for fate, records in counts.items() if records}

    @property
    def _views(self) -> LocalViews:
        return LocalViews(self.spark, self.lake)

    def _records(self, *names: str) -> list[tuple[Any, ...]]:
        """Some columns of the log's records, as its files have them."""
        rows = file_rows(self.lake.log(self.topic))
        return columns((row for row in rows if row["offset"] is not None), *names)


@contextmanager
def running(
    spark: SparkSession,
    lake: Lake,
    broker: Broker,
    topic: str,
    *,
    standby: bool = False,
    on_step: Callable[[str, str], None] = lambda asset, step: None,
    **described: Any,
) -> Iterator[Running]:
    """Run the counts of a topic; drained at the end, whatever happens."""
    node = counts_of(topic, **described)
    run = Running(spark, lake, broker.bootstrap_servers, node, standby=standby, on_step=on_step)
    try:
        yield run
    finally:
        run.runtime.drain(timeout_seconds=PATIENCE_S)


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    """The rows of a frame in a fixed order."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)
