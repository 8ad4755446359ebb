"""A consumer of what the Kafka sink wrote, in plain Python: everything as it lies there, or as a guard takes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from headrace.local.servers.broker import Broker
from tests.waiting import PATIENCE_S

HEADER = "source-chain"


@dataclass(frozen=True)
class Arrived:
    """A record on the broker; `chain` is the parsed header."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: tuple[int, int]
    chain: list[list[Any]]


def arrived(broker: Broker, topic: str, *, guarded: bool = False, chained: bool = True) -> list[Arrived]:
    """All records of a topic by partition and offset; guarded: only those beyond the highest position of their path."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "fetch.wait.max.ms": 10}
    consumer = Consumer(settings | {"enable.auto.commit": False, "isolation.level": "read_committed"})
    found, highest = [], dict[tuple[Any, ...], tuple[int, ...]]()
    for partition in sorted(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions):
        place = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
        consumer.assign([place])
        offset = -1
        while offset < end - 1:
            for message in consumer.consume(min(10_000, end - 1 - offset), timeout=5):
                assert message.error() is None, message.error()
                offset = message.offset() or 0
                headers = dict(message.headers() or []) if chained else {}
                chain = json.loads(headers.get(HEADER) or b"[]")
                record = Arrived(partition, message.key(), message.value(), message.timestamp(), chain)
                if guarded:
                    path, at = (*chain[0][:2], partition), tuple(chain[0][2:])
                    if at <= highest.get(path, (-1,)):
                        continue
                    highest[path] = at
                found.append(record)
    consumer.close()
    return found


def held(broker: Broker, topic: str) -> list[dict[str, Any]]:
    """The newest value of each key, as a reader with a monotone guard folds them; tombstones delete."""
    latest: dict[bytes | None, bytes | None] = {}
    for record in arrived(broker, topic, guarded=True):
        latest[record.key] = record.value
    return [json.loads(value) for value in latest.values() if value is not None]
