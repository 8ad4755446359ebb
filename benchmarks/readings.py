"""A deterministic log of readings, and what its final windows must be."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from confluent_kafka import Producer

import headrace as hr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.description import WindowedAggregate

BASE_MS = 1_780_000_080_000  # a multiple of two minutes, so that windows align with the start of the log
WINDOW_MS = 120_000
PARTITIONS = 2
COLUMNS = "sensor_id STRING, value BIGINT"

ROOT_PARTITIONS = 8
REPLAY_EVERY, REPLAYED = 20_000, 1_000  # with chains: after so many records the last so many come again


def counts(
    guard: hr.ReplayGuard | None = None,
    topic: str = "readings",
    of: str | hr.Avro | hr.Protobuf = "json",
    grace: str = "2 minutes",
) -> WindowedAggregate:
    """The node that is measured, on a topic with or without a guard, in one format or another."""
    described = hr.Topic(
        topic,
        key="sensor_id STRING",
        value=COLUMNS,
        idle_timeout=None,
        replay_guard=guard,
        format=of,
    )
    return (
        described.group_by("sensor_id")
        .window(hr.tumbling("2 minutes"), grace=grace)
        .aggregate(n=hr.count(), total=hr.sum("value"))
        .suppress(hr.until_window_closes())
        .named("reading_counts")
    )


@dataclass(frozen=True)
class Expected:
    """What must come out: the closed windows, their records and sums, and the records that came too late."""

    windows: int
    records: int
    total: int
    late: int


def log(
    records: int, *, keys: int = 5_000, windows: int = 500, seed: int = 2
) -> Iterator[tuple[int, str, int, int]]:
    """Partition, key, value and event time in ms; a fifth of the records lie up to three minutes back.

    The last record of each partition lies far ahead and closes every earlier window.
    """
    rng = np.random.default_rng(seed)
    sensor, value = rng.integers(0, keys, records), rng.integers(0, 1_000, records)
    event_ms = BASE_MS + np.arange(records) * (windows * WINDOW_MS) // records
    back_ms = np.where(rng.random(records) < 0.2, rng.integers(0, 180_001, records), 0)
    event_ms = np.maximum(event_ms - back_ms, BASE_MS)
    for s, v, ms in zip(sensor.tolist(), value.tolist(), event_ms.tolist(), strict=True):
        yield s % PARTITIONS, f"s{s}", v, ms
    for partition in range(PARTITIONS):
        yield partition, f"__flush{partition}", 0, BASE_MS + (windows + 10) * WINDOW_MS


def expected(records: int) -> Expected:
    """What the final windows of `log(records)` are, in plain Python: stream time by partition, grace of one window."""
    stream_ms = dict.fromkeys(range(PARTITIONS), 0)
    seen, late, total, used = set(), 0, 0, 0
    for partition, key, value, ms in log(records):
        stream_ms[partition] = max(stream_ms[partition], ms)
        start = ms - ms % WINDOW_MS
        if start + 2 * WINDOW_MS <= stream_ms[partition]:
            late += 1
        elif not key.startswith("__flush"):
            seen.add((key, start))
            total, used = total + value, used + 1
    return Expected(len(seen), used, total, late)


def sent(records: int, *, chains: bool) -> Iterator[tuple[int, str, int, int, dict[str, str]]]:
    """The log as it is produced, with headers: with chains each record names a root, and 5 % of them come again."""
    recent: deque[tuple[int, str, int, int, dict[str, str]]] = deque(maxlen=REPLAYED)
    for number, record in enumerate(log(records)):
        root = json.dumps([["roots", number % ROOT_PARTITIONS, number // ROOT_PARTITIONS]])
        recent.append((*record, {"source-chain": root} if chains else {}))
        yield recent[-1]
        if chains and number % REPLAY_EVERY == REPLAY_EVERY - 1:
            yield from recent


def as_json(sensor: str, value: int) -> bytes:
    """A value as JSON."""
    return json.dumps({"sensor_id": sensor, "value": value}).encode()


def produce(
    bootstrap: str,
    records: int,
    *,
    chains: bool = False,
    topic: str = "readings",
    encode: Callable[[str, int], bytes] = as_json,
) -> int:
    """Write the log to its topic; how many records that were."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )
    number = 0
    for number, (partition, key, value, ms, headers) in enumerate(sent(records, chains=chains), start=1):
        payload = encode(key, value)
        while True:
            try:
                producer.produce(topic, payload, key, partition, timestamp=ms, headers=list(headers.items()))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush()
    return number
