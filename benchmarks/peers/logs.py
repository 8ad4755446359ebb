"""The topics of the jobs, the same for each peer: functions of a seed, without a clock.

Keys are partitioned as the Java client does it, so that joins by key find both sides in one partition.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from headrace.errors import TerminalError
from headrace.local.servers.topics import create_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BEGIN_MS = 1_780_000_080_000  # a multiple of two minutes: windows begin with the log
WINDOW_MS = 120_000
PARTITIONS = 2


class Written(NamedTuple):
    """A record. partition None: that of its key."""

    topic: str
    key: str
    value: str | None
    timestamp_ms: int
    chain: str | None = None
    partition: int | None = None


def visits(records: int) -> Iterator[Written]:
    """Visits of ten thousand customers, few of whom come often."""
    random, keys = np.random.default_rng(1), 10_000
    weight = 1.0 / np.arange(1, keys + 1) ** 0.8
    customers = random.permutation(keys)[random.choice(keys, size=records, p=weight / weight.sum())]
    visitors, actions = random.integers(0, 1_000_000, records), random.integers(0, 5, records)
    names = ("view", "click", "cart", "buy", "leave")
    rows = zip(customers.tolist(), visitors.tolist(), actions.tolist(), strict=True)
    for number, (customer, visitor, action) in enumerate(rows):
        value = {"customerId": f"c{customer}", "visitorId": f"v{visitor}", "action": names[action]}
        yield Written("visits", f"c{customer}", _json(value), BEGIN_MS + number)


def readings(records: int) -> Iterator[Written]:
    """Readings of five thousand sensors over 500 windows; a fifth lies up to three minutes back."""
    random, windows = np.random.default_rng(2), 500
    sensors, values = random.integers(0, 5_000, records), random.integers(0, 1_000, records)
    at = BEGIN_MS + np.arange(records) * (windows * WINDOW_MS) // records
    back = np.where(random.random(records) < 0.2, random.integers(0, 180_001, records), 0)
    rows = zip(sensors.tolist(), values.tolist(), np.maximum(at - back, BEGIN_MS).tolist(), strict=True)
    for sensor, value, ms in rows:
        yield Written("readings", f"s{sensor}", _json({"sensorId": f"s{sensor}", "value": value}), ms)
    end = BEGIN_MS + (windows + 10) * WINDOW_MS
    for number in range(PARTITIONS):  # in each partition a last record closes all windows before it
        last = _json({"sensorId": f"__flush{number}", "value": 0})
        yield Written("readings", f"__flush{number}", last, end, partition=number)


def positions(records: int) -> Iterator[Written]:
    """Positions that name one of two thousand tickers, and 4 % as many changes of tickers."""
    random, changes = np.random.default_rng(3), records // 25
    total = records + changes
    is_ticker = np.zeros(total, bool)
    is_ticker[random.choice(total, changes, replace=False)] = True
    ids, named = random.integers(0, 100_000, total).tolist(), random.integers(0, 2_000, total).tolist()
    chances, amounts = random.random(total).tolist(), random.integers(1, 10_000, total).tolist()
    current: dict[int, int] = {}
    for number, ticker in enumerate(is_ticker.tolist()):
        at, of, amount, chance = BEGIN_MS + number, ids[number], amounts[number], chances[number]
        if ticker:
            key = f"T{named[number]}"
            row = {"exchange": f"X{amount % 7}", "name": f"{key}-{amount}", "founded": 1900 + amount % 120}
            yield Written("tickers", key, None if chance < 0.01 else _json(row), at)
        elif chance < 0.02:
            yield Written("positions", f"p{of}", None, at)
        else:
            if of not in current or chance < 0.07:  # 5 % of the changes name another ticker
                current[of] = named[number]
            row = {"client": f"cl{of % 997}", "ticker": f"T{current[of]}", "amount": amount}
            yield Written("positions", f"p{of}", _json(row), at)


def tightenings(records: int) -> Iterator[Written]:
    """Output of a republisher that crashes now and then and begins again 1,000 to 10,000 records back: 5 % come twice."""
    random, roots = np.random.default_rng(4), 4
    lengths, left = [], int(records * 0.05)
    while left > 0:
        lengths.append(min(int(random.integers(1_000, 10_001)), left))
        left -= lengths[-1]
    fresh = records - sum(lengths)
    crashes = random.integers(min(10_000, fresh // 2), fresh, len(lengths)).tolist()
    screws = random.integers(0, 20_000, fresh).tolist()
    offsets, places = [0] * roots, []
    for screw in screws:
        places.append((screw % roots, offsets[screw % roots]))
        offsets[screw % roots] += 1
    hop = 0
    for first, end in _spans(sorted(zip(crashes, lengths, strict=True)), fresh):
        for number in range(first, end):
            screw, (partition, offset) = screws[number], places[number]
            value = {"customer": f"k{screw % 500}", "screw": f"screw{screw}", "count": 1}
            chain = f'[["tightenings-root",{partition},{offset}],["tightenings-mid",0,{hop}]]'
            yield Written("tightenings", f"screw{screw}", _json(value), BEGIN_MS + hop, chain)
            hop += 1


def transfers(records: int) -> Iterator[Written]:
    """Transfers between a thousand accounts, out of the order of time; a producer that crashes sends 5 % again."""
    random, accounts = np.random.default_rng(5), 1_000
    lengths = [5_000] * (records // 20 // 5_000)
    fresh = records - sum(lengths)
    sources, shifts = (
        random.integers(0, accounts, fresh).tolist(),
        random.integers(1, accounts, fresh).tolist(),
    )
    amounts, back = random.integers(1, 10_000, fresh).tolist(), random.integers(0, 60_000, fresh).tolist()
    crashes = random.integers(min(10_000, fresh // 2), fresh, len(lengths)).tolist()
    for first, end in _spans(sorted(zip(crashes, lengths, strict=True)), fresh):
        for number in range(first, end):
            source, target = sources[number], (sources[number] + shifts[number]) % accounts
            value = {"source": f"a{source}", "target": f"a{target}", "amount": amounts[number]}
            chain = f'[["transfers-root",0,{number}]]'
            yield Written(
                "transfers", f"t{number}", _json(value), BEGIN_MS + 100_000 + number - back[number], chain
            )


LOGS: dict[str, tuple[Callable[[int], Iterator[Written]], tuple[str, ...]]] = {
    "visits": (visits, ("visits",)),
    "readings": (readings, ("readings",)),
    "positions": (positions, ("positions", "tickers")),
    "tightenings": (tightenings, ("tightenings",)),
    "transfers": (transfers, ("transfers",)),
}


def fill(bootstrap: str, log: str, records: int, prefix: str) -> None:
    """Create the topics of a log anew and fill them. In: prefix  of their names."""
    build, names = LOGS[log]
    _create(bootstrap, [prefix + name for name in names])
    write(bootstrap, (record._replace(topic=prefix + record.topic) for record in build(records)))


def write(bootstrap: str, records: Iterable[Written], per_second: float | None = None) -> None:
    """Write records to their topics. In: per_second  at this even rate; None: at once.

    Raises: TerminalError when Kafka refuses one.
    """
    options = {"partitioner": "murmur2_random", "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    producer, failed = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **options}), []
    began = time.monotonic()
    for number, record in enumerate(records):
        place: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
        if record.chain is not None:
            place["headers"] = [("source-chain", record.chain.encode())]
        while True:
            try:
                producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    timestamp=record.timestamp_ms,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                    **place,
                )
                break
            except BufferError:
                producer.poll(0.1)
        if not number % 1_000:
            producer.poll(0)
        if per_second and not number % 100:
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
    producer.flush()
    if failed:
        raise TerminalError(f"Kafka refused {len(failed):,} records.", detail=str(failed[0]))


def _create(bootstrap: str, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    there = [name for name in names if name in admin.list_topics(timeout=10).topics]
    for each in (admin.delete_topics(there, operation_timeout=20) if there else {}).values():
        each.result()
    create_topics(bootstrap, dict.fromkeys(names, PARTITIONS))


def _spans(crashes: list[tuple[int, int]], end: int) -> Iterator[tuple[int, int]]:
    """Which records are sent in one go. In: crashes  before which record, and how many records back it begins again."""
    first = 0
    for crash, back in crashes:
        yield first, crash
        first = max(0, crash - back)
    yield first, end


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
