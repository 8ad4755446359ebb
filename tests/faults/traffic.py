"""The records of a life, as its seed and the number of the portion say: late, replayed, deleted and dead ones among them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from confluent_kafka import Producer

SECOND_MS = 1_000
NOON_MS = 1_714_564_800_000  # 2024-05-01 12:00 UTC
YEAR_2100_MS = 4_102_444_800_000
PORTION_SECONDS = 16  # of event time, by which a portion moves it on: each closes a window of ten seconds
CHAIN = "source-chain"


@dataclass(frozen=True)
class Sent:
    """A record to produce; `topic` is readings or stations."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    chain: tuple[tuple[str, int, int], ...] = ()


def portion(seed: int, number: int, readings: int = 40, partitions: int = 2) -> list[Sent]:
    """So many readings, over so many partitions, and some stations."""
    random, sent = Random(f"{seed} {number}"), list[Sent]()
    for at in range(readings):
        sent.append(_reading(random, number, number * readings + at, partitions))
        if random.random() < 0.15:
            sent.append(_station(random, _moment(random, number)))
    return sent


def _moment(random: Random, number: int) -> int:
    """Up to eight seconds before or after the middle of the portion."""
    return NOON_MS + number * PORTION_SECONDS * SECOND_MS + random.randrange(-16, 16) * SECOND_MS // 2


def _reading(random: Random, number: int, at: int, partitions: int) -> Sent:
    sensor = random.choice([*"abcdefg"])
    station, figure = f"s{random.randrange(4)}", random.randrange(9) / 2
    value: bytes | None = json.dumps({"station": station, "value": figure}).encode()
    key: bytes | None = sensor.encode()
    moment, odd = _moment(random, number), random.random()
    if odd < 0.04:
        value = b'{"station": "s1", "value"'
    elif odd < 0.1:
        value = None
    elif odd < 0.12:
        moment = YEAR_2100_MS
    elif odd < 0.15:
        key = None
    chain: tuple[tuple[str, int, int], ...] = ()
    if random.random() < 0.3:  # now and then a root offset that was sent before
        chain = (("roots", 0, max(0, at - random.choice([0, 0, 0, 5]))),)
    return Sent("readings", random.randrange(partitions), key, value, moment, chain)


def _station(random: Random, moment: int) -> Sent:
    place = {"city": random.choice("xyz"), "height": random.randrange(5)}
    value = json.dumps(place).encode() if random.random() < 0.85 else None
    return Sent("stations", 0, f"s{random.randrange(5)}".encode(), value, moment)


def produce(bootstrap: str, prefix: str, sent: Iterable[Sent]) -> None:
    """Send records, and return when the broker has all of them."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
    _send(producer, prefix, sent)
    left = producer.flush(120)
    assert left == 0, f"{left} records are not on the broker"


def produce_in_transactions(bootstrap: str, prefix: str, sent: Sequence[Sent], random: Random) -> int:
    """Send records in transactions; before some of these the same records are sent in one that is aborted. How many were."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": f"{prefix}-producer", "linger.ms": 5}
    producer = Producer(settings)
    producer.init_transactions(60)
    at, aborted = 0, 0
    while at < len(sent):
        some = sent[at : at + random.randrange(1, 12)]
        for fails in [True, False] if random.random() < 0.5 else [False]:
            producer.begin_transaction()
            _send(producer, prefix, some)
            producer.flush(60)
            producer.abort_transaction(60) if fails else producer.commit_transaction(60)
            aborted += fails
        at += len(some)
    return aborted


def _send(producer: Producer, prefix: str, sent: Iterable[Sent]) -> None:
    for record in sent:
        headers: dict[str, str | bytes | None] = {CHAIN: json.dumps(record.chain)} if record.chain else {}
        producer.produce(
            f"{prefix}-{record.topic}",
            record.value,
            record.key,
            partition=record.partition,
            timestamp=record.timestamp_ms,
            headers=headers,
        )
