"""What Kafka delivers of a topic, and what it delivered before it deleted some of it."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.faults.traffic import CHAIN


@dataclass(frozen=True)
class Delivered:
    """A record as Kafka delivers it to a reader of committed records."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    chain: bytes | None


def delivered(bootstrap: str, topic: str) -> list[Delivered]:
    """All records of a topic, in the order of its partitions; none of a transaction that was aborted."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "verdict", "enable.auto.commit": False}
    settings |= {
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer, found = Consumer(settings), list[Delivered]()
    for partition in sorted(consumer.list_topics(topic, timeout=60).topics[topic].partitions):
        place = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=60)
        consumer.assign([place])
        deadline = time.monotonic() + 60
        at_end = end <= 0
        while not at_end:  # the last offsets may be those of transactions' markers, which no message tells of
            assert time.monotonic() < deadline, f"{topic}/{partition}: the end, {end}, is not reached"
            for message in consumer.consume(10_000, timeout=0.5):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    at_end = at_end or message.partition() == partition
                    continue
                assert error is None, error
                chain = dict(message.headers() or []).get(CHAIN)
                at, moment = message.offset(), message.timestamp()[1]
                assert at is not None
                raw = chain.encode() if isinstance(chain, str) else chain
                found.append(Delivered(partition, at, message.key(), message.value(), moment, raw))
    consumer.close()
    return found


def remember(
    path: Path, bootstrap: str, topics: Iterable[str], known: Path | None = None
) -> dict[str, dict[int, int]]:
    """Keep in a file what Kafka has delivered so far, before it deletes some of it.

    In:  known  a file of earlier ones
    Out: by topic and partition the offset after the last of them
    """
    earlier: dict[str, list[Delivered]] = pickle.loads(known.read_bytes()) if known else {}
    all_of = {topic: [*earlier.get(topic, []), *delivered(bootstrap, topic)] for topic in topics}
    path.write_bytes(pickle.dumps(all_of))
    return {
        topic: {
            p: max(r.offset for r in records if r.partition == p) + 1 for p in {r.partition for r in records}
        }
        for topic, records in all_of.items()
    }
