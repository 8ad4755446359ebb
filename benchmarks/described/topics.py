"""Deterministic records for the topics of the descriptions, each topic with as many as are asked for, about.

Readings are those of `benchmarks.readings`: 5,000 keys, 500 windows of two minutes, a fifth of the records back by up to
three minutes. Most topics hold the same readings, written in another way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from confluent_kafka import Producer

from benchmarks.readings import BASE_MS, PARTITIONS, WINDOW_MS, log, sent
from headrace.local.servers.topics import create_topics

if TYPE_CHECKING:
    from numpy.random import Generator

WINDOWS, KEYS = 500, 5_000
SPAN_MS = WINDOWS * WINDOW_MS
END_MS = BASE_MS + (WINDOWS + 10) * WINDOW_MS  # of the records that close all windows
MALFORMED_EVERY = 1_000
CUSTOMERS_EACH, SITES = 100, 4
REPEATED = "a note whose words come again; "  # thirty times: what is written compresses a hundredfold


class Record(NamedTuple):
    """A record to produce. No key, no value: none."""

    partition: int
    key: str | None
    value: str | None
    ms: int
    headers: Mapping[str, str] = {}


Fill = Callable[[int], Iterator[Record]]


def readings(records: int) -> Iterator[Record]:
    """Whole numbers, as JSON."""
    for partition, key, value, ms in log(records):
        yield Record(partition, key, f'{{"sensor_id":"{key}","value":{value}}}', ms)


def amounts(records: int) -> Iterator[Record]:
    """Numbers with two decimals."""
    for number, (partition, key, value, ms) in enumerate(log(records)):
        yield Record(partition, key, f'{{"sensor_id":"{key}","value":{value}.{number % 90 + 10}}}', ms)


def stamped(records: int) -> Iterator[Record]:
    """The event time stands in the value; Kafka's timestamp is the same for all."""
    for partition, key, value, ms in log(records):
        at = f"{np.datetime64(ms, 'ms')}Z"
        yield Record(partition, key, f'{{"sensor_id":"{key}","value":{value},"at":"{at}"}}', BASE_MS)


def nested(records: int) -> Iterator[Record]:
    """A struct, an array and a map."""
    for partition, key, value, ms in log(records):
        place = f'{{"site":"site {value % 7}","floor":{value % 30}}}'
        tags, more = '["new","checked"]' if value % 2 else '["new"]', f'{{"step":{value % 5}}}'
        text = f'{{"sensor_id":"{key}","value":{value},"place":{place},"tags":{tags},"more":{more}}}'
        yield Record(partition, key, text, ms)


def malformed(records: int) -> Iterator[Record]:
    """One in a thousand has single quotes, which JSON does not allow."""
    for number, record in enumerate(readings(records)):
        if number % MALFORMED_EVERY == MALFORMED_EVERY // 2:
            assert record.value is not None
            record = record._replace(value=record.value.replace('"', "'"))
        yield record


def numbered(records: int) -> Iterator[Record]:
    """Keys are whole numbers; those that close all windows are below 0."""
    for partition, key, value, ms in log(records):
        number = -1 - partition if key.startswith("_") else int(key[1:])
        yield Record(partition, f'{{"sensor_id":{number}}}', f'{{"value":{value}}}', ms)


def chained(records: int) -> Iterator[Record]:
    """Records have source chains, and 5 % come again."""
    for partition, key, value, ms, headers in sent(records, chains=True):
        yield Record(partition, key, f'{{"sensor_id":"{key}","value":{value}}}', ms, headers)


def visits(records: int) -> Iterator[Record]:
    """A hundred visits for each customer, at four sites."""
    rng = np.random.default_rng(5)
    customer = rng.integers(0, max(records // CUSTOMERS_EACH, 1), records).tolist()
    site = rng.integers(0, SITES, records).tolist()
    for number, (c, s) in enumerate(zip(customer, site, strict=True)):
        value = f'{{"site":"site {s}","visitor_id":"v{number % 99_991}","action":"look"}}'
        yield Record(c % PARTITIONS, f"c{c}", value, BASE_MS + number)


def sensors(records: int) -> Iterator[Record]:
    """A changelog of the sensors of readings, a tenth as long; event times rise, and one in a hundred deletes."""
    rng, number = np.random.default_rng(6), max(records // 10, 1)
    sensor, gone = rng.integers(0, KEYS, number).tolist(), (rng.random(number) < 0.01).tolist()
    for at, (s, g) in enumerate(zip(sensor, gone, strict=True)):
        value = None if g else f'{{"site":"site {at % 1_000}","version":{at}}}'
        yield Record(s % PARTITIONS, f"s{s}", value, BASE_MS + at * SPAN_MS // number)
    for partition in range(PARTITIONS):
        yield Record(partition, f"__flush{partition}", '{"site":"","version":0}', END_MS)


def positions(rows: Callable[[int], int]) -> Fill:
    """First as many positions as there are rows, then updates of them; one in fifty is a delete."""

    def fill(records: int) -> Iterator[Record]:
        count = rows(records)
        for number, row, u in _changes(np.random.default_rng(7), count, records):
            value: str | None = (
                f'{{"client":"cl{row % 997}","ticker":"T{_ticker(row, u, count)}","amount":{number % 9_999}}}'
            )
            if number >= count and u < 0.02:
                value = None
            yield Record(row % PARTITIONS, f"p{row}", value, BASE_MS + number)

    return fill


def tickers(rows: Callable[[int], int]) -> Fill:
    """A tenth as many tickers, and an update for each 25 of the positions."""

    def fill(records: int) -> Iterator[Record]:
        count = max(rows(records) // 10, 1)
        for number, row, u in _changes(np.random.default_rng(8), count, records // 25):
            value = (
                None if number >= count and u < 0.02 else f'{{"exchange":"X{row % 7}","version":{number}}}'
            )
            yield Record(row % PARTITIONS, f"T{row}", value, BASE_MS + number)

    return fill


def _changes(rng: Generator, rows: int, updates: int) -> Iterator[tuple[int, int, float]]:
    """Number, row and a random share of each: every row once, then random ones."""
    row = np.concatenate([rng.permutation(rows), rng.integers(0, rows, updates)])
    yield from zip(range(rows + updates), row.tolist(), rng.random(rows + updates).tolist(), strict=True)


def _ticker(row: int, u: float, rows: int) -> int:
    """That of a position; a tenth of the updates move it to another."""
    return (row + (1 if u > 0.9 else 0)) % max(rows // 10, 1)


def noted(records: int) -> Iterator[Record]:
    """Each value has a note of about a thousand characters, in which words come again and again."""
    for number, (partition, key, value, ms) in enumerate(log(records)):
        note = f"{number}: {REPEATED * 30}"
        yield Record(partition, key, json.dumps({"sensor_id": key, "value": value, "note": note}), ms)


def skewed(records: int) -> Iterator[Record]:
    """One key has half of all records."""
    for number, record in enumerate(readings(records)):
        assert record.key is not None
        if number % 2 and not record.key.startswith("_"):
            value = json.loads(record.value or "{}")["value"]
            record = Record(0, "s0", f'{{"sensor_id":"s0","value":{value}}}', record.ms)
        yield record


def small(records: int) -> int:
    """Rows of the small join: 10,000 with 500,000 records."""
    return max(records // 50, 10)


def large(records: int) -> int:
    """Rows of the large join: 1,000,000 with 500,000 records."""
    return records * 2


FILLS: Mapping[str, Fill] = {
    "readings": readings,
    "amounts": amounts,
    "stamped": stamped,
    "nested": nested,
    "malformed": malformed,
    "numbered": numbered,
    "chained": chained,
    "visits": visits,
    "sensors": sensors,
    "positions_small": positions(small),
    "positions_large": positions(large),
    "tickers_small": tickers(small),
    "tickers_large": tickers(large),
    "noted": noted,
    "skewed": skewed,
}


def fill(bootstrap: str, topic: str, records: Iterator[Record]) -> None:
    """Create a topic and produce its records, of each partition in their order."""
    create_topics(bootstrap, {topic: PARTITIONS})
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "linger.ms": 20,
        "enable.idempotence": True,
        "compression.type": "lz4",
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 262_144,
    }
    producer = Producer(settings)
    for number, record in enumerate(records):
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    record.partition,
                    timestamp=record.ms,
                    headers=list(record.headers.items()),
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush()
