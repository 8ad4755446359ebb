"""The topics of a local broker: made, widened, counted."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tenacity import retry, retry_if_exception, stop_after_delay, wait_exponential

from headrace.errors import TerminalError, TransientError

TIMEOUT_S, SHOWN_S = 10.0, 60.0
BROKERS_DEFAULT = -1
ANY_MS = (1 << 63) - 1


class TopicMismatch(TerminalError):
    """A topic exists with another number of partitions; the message says how many."""


def _passing(error: BaseException) -> bool:
    """Say whether an error may be gone in a moment; a node that has just started knows no broker."""
    codes = (
        *(KafkaError.INVALID_REPLICATION_FACTOR, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT),
        *(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE),
    )
    if not isinstance(error, KafkaException):
        return False
    return bool(error.args[0].retriable()) or error.args[0].code() in codes


_patiently = retry(
    retry=retry_if_exception(_passing),
    stop=stop_after_delay(60),
    wait=wait_exponential(0.2, max=5),
    reraise=True,
)


@_patiently
def create_topics(bootstrap: str, topics: Mapping[str, int], *, any_timestamp: bool = False) -> None:
    """Make the topics that do not exist yet, each with as many replicas as the brokers have by default.

    Records stay for ever, however old their timestamps are. When this returns, a broker shows the topics.

    In:     topics         the number of partitions by topic
            any_timestamp  True: a producer's clock may lie years ahead; False: the broker refuses records that lie more
                           than an hour ahead, as Kafka does by default
    Raises: TopicMismatch when one exists with another number of partitions; KafkaException after a minute of
            retrying.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    existing = partitions_of(admin)
    for name in topics.keys() & existing.keys():
        if existing[name] != topics[name]:
            raise TopicMismatch(
                f"Topic '{name}' has {existing[name]} partitions, not {topics[name]}.",
                hint="Use add_partitions, or another topic.",
            )
    config = {"retention.ms": "-1"}
    if any_timestamp:
        config["message.timestamp.after.max.ms"] = str(ANY_MS)
    new = [
        NewTopic(name, topics[name], BROKERS_DEFAULT, config=config)
        for name in topics
        if name not in existing
    ]
    for future in (admin.create_topics(new, operation_timeout=TIMEOUT_S) if new else {}).values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    _wait_until_shown(admin, topics)


@_patiently
def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    """Widen a topic to `total` partitions, as an operator does on a running system; returns when a broker shows them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, total)]).values():
        future.result()
    _wait_until_shown(admin, {topic: total})


def _wait_until_shown(admin: AdminClient, topics: Mapping[str, int]) -> None:
    """The controller answers when a change is decided; brokers show it a moment later."""
    deadline = time.monotonic() + SHOWN_S
    while not topics.items() <= (shown := partitions_of(admin)).items():
        if time.monotonic() > deadline:
            found = {name: shown.get(name) for name in topics}
            raise TransientError(
                f"No broker shows the topics {dict(topics)} after {SHOWN_S:g} s, but {found}."
            )
        time.sleep(0.05)


@_patiently
def records_in(bootstrap: str, topic: str) -> int:
    """Count the offsets that a topic holds, over its partitions; 0 for one that does not exist."""
    partitions = partitions_of(AdminClient({"bootstrap.servers": bootstrap})).get(topic, 0)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "headrace-local"})
    try:
        bounds = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)
            for number in range(partitions)
        ]
    finally:
        consumer.close()
    return sum(high - low for low, high in bounds)


def partitions_of(admin: AdminClient) -> dict[str, int]:
    """Give the number of partitions of each topic of a cluster."""
    metadata = admin.list_topics(timeout=TIMEOUT_S)
    return {name: len(topic.partitions) for name, topic in metadata.topics.items()}
