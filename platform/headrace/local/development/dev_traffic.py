"""The traffic of `headrace dev`: every second the records of the project's own `traffic.py`, or samples of the schemas."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.description import is_of_kafka
from headrace.errors import TerminalError
from headrace.local.development.dev_errors import run_part
from headrace.local.samples import has_samples, topic_traffic
from headrace.local.servers.topics import create_topics, partitions_of
from headrace.local.workbench import key_bytes
from headrace.nodes.descriptions.topics import topics_of
from headrace.settings import Settings, load_pipeline
from headrace.sinks.encoding.records import record_bytes

if TYPE_CHECKING:
    from headrace.description import Node, Topic

PARTITIONS, EVERY_SECONDS = 3, 1.0
TRAFFIC = "traffic.py"
Records = Callable[[int], Iterable[tuple[str, Any, Any, int]]]


def main(bootstrap: str) -> None:
    """Make the topics, and send records until the process ends."""
    sys.path.insert(0, str(Path.cwd()))
    pipeline = Settings().pipeline
    nodes = load_pipeline(pipeline)
    topics = make_topics(nodes, bootstrap)
    records = _records(pipeline, topics)
    producer = Producer({"bootstrap.servers": bootstrap})
    while True:
        for record in records(round(time.time() * 1000)):
            send(producer, topics, *record)
        producer.flush(10)
        time.sleep(EVERY_SECONDS)


def send(
    producer: Producer, topics: Mapping[str, Topic], topic: str, key: Any, value: Any, timestamp_ms: int
) -> None:
    """Send a record. Raises: TerminalError for a topic that no node reads, or that was deleted."""
    if topic not in topics:
        raise TerminalError(
            f"{TRAFFIC} sends to topic '{topic}', which no node reads; there are {', '.join(sorted(topics))}.",
            hint="Correct the name, or describe a node that reads the topic.",
        )
    try:
        producer.produce(
            topic,
            record_bytes(topics[topic], "value", value),
            record_key(topics[topic], value, key),
            timestamp=timestamp_ms,
        )
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
            raise
        raise TerminalError(
            f"Topic '{topic}' is no longer at the broker.",
            hint="Save a file: it is made again, without records.",
        ) from error


def record_key(topic: Topic, value: Any, key: Any) -> bytes | None:
    """A record's key as bytes; without a key it comes from the value, and a value without its columns has none."""
    if isinstance(key, bytes):
        return key
    names = {column.name for column in topic.key_columns}
    if key is None and not (isinstance(value, dict) and names <= value.keys()):
        return None
    return key_bytes(topic, value, key)


def make_topics(nodes: Sequence[Node], bootstrap: str) -> dict[str, Topic]:
    """Make the topics that nodes read, and those of their sinks, where they do not exist. Out: the former, by name."""
    topics = {name: topic for name, topic in topics_of(nodes).items() if is_of_kafka(topic)}
    existing = partitions_of(AdminClient({"bootstrap.servers": bootstrap}))
    missing = {*topics, *_sink_topics(nodes)} - existing.keys()
    create_topics(bootstrap, dict.fromkeys(missing, PARTITIONS))
    return topics


def _sink_topics(nodes: Iterable[Node]) -> list[str]:
    named = (getattr(sink, "topic", None) for node in nodes for sink in node.sinks)
    return [name for name in named if isinstance(name, str)]


def _records(pipeline: str, topics: dict[str, Topic]) -> Records:
    """The function of the project's file; without one samples of each topic."""
    if has_own_traffic(pipeline):
        found: Records = importlib.import_module(f"{pipeline}.traffic").records
        return found

    def samples(now_ms: int) -> Iterable[tuple[str, Any, Any, int]]:
        for topic in topics.values():
            yield from topic_traffic(topic, now_ms)

    return samples


def has_own_traffic(pipeline: str) -> bool:
    """Whether the project has a file for its traffic."""
    try:
        return find_spec(pipeline) is not None and find_spec(f"{pipeline}.traffic") is not None
    except ModuleNotFoundError:  # the pipeline is no package
        return False


def without_samples(topics: Iterable[Topic]) -> list[str]:
    """A sentence for each topic that gets no traffic, unless the project's own file sends some."""
    return [
        f"Topic '{topic.name}' gets no sample records: none are made for its format or headers. Send bytes from {TRAFFIC}."
        for topic in topics
        if not has_samples(topic)
    ]


if __name__ == "__main__":
    run_part(main, *sys.argv[1:])
