"""Steady traffic for the four jobs of `benchmarks.jobs`: records as of now, at one rate, from a process of its own.

`python -m benchmarks.steady BOOTSTRAP RATE ks-readings ks-visits …` sends until it is killed; topics share the rate evenly.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Annotated

import typer
from confluent_kafka import Producer

PARTITIONS = 2
PRIME = 2_654_435_761
SLICE_SECONDS = 0.02
Record = tuple[str, dict[str, object] | None, dict[str, str]]  # key, value and headers


def _mixed(number: int) -> int:
    return number * PRIME % 2**32 >> 8


def _reading(number: int) -> Record:
    key = f"s{_mixed(number) % 5_000}"
    return key, {"sensorId": key, "value": number % 1_000}, {}


def _plain_reading(number: int) -> Record:
    key = f"s{_mixed(number) % 5_000}"
    return key, {"sensor_id": key, "value": number % 1_000}, {}


def _visit(number: int) -> Record:
    key = f"c{_mixed(number) % 10_000}"
    return key, {"customerId": key, "visitorId": f"v{number % 99_991}", "action": "view"}, {}


def _tightening(number: int) -> Record:
    root = number % 4
    screw = f"screw{_mixed(number) % 5_000 * 4 + root}"
    chain = json.dumps([["tightenings-root", root, number // 4], ["tightenings-mid", 0, number]])
    return screw, {"customer": f"k{number % 500}", "screw": screw, "count": 1}, {"source-chain": chain}


def _position(number: int) -> Record:
    row = _mixed(number) % 100_000
    value = {"client": f"cl{row % 997}", "ticker": f"T{row % 2_000}", "amount": number % 10_000}
    return f"p{row}", None if number % 50 == 0 else value, {}


def _ticker(number: int) -> Record:
    key = f"T{_mixed(number) % 2_000}"
    return key, {"exchange": f"X{number % 7}", "name": f"{key}-{number}", "founded": 1900 + number % 120}, {}


SOURCES: dict[str, Callable[[int], Record]] = {
    "ks-readings": _reading,
    "readings": _plain_reading,
    "ks-visits": _visit,
    "ks-tightenings": _tightening,
    "ks-positions": _position,
    "ks-tickers": _ticker,
}
SHARE = {"ks-positions": 0.96, "ks-tickers": 0.04}  # of what a pipeline gets; the only topic of one gets all


def main(bootstrap: str, rate: float, topics: Annotated[list[str], typer.Argument()]) -> None:
    """Send records until killed; RATE: records per second in all, each pipeline an equal part."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
    each = rate / sum(SHARE.get(topic, 1.0) for topic in topics)
    sent, began = dict.fromkeys(topics, 0), time.monotonic()
    while True:
        passed = time.monotonic() - began
        for topic in topics:
            source, due = SOURCES[topic.rstrip("-0123456789")], int(passed * each * SHARE.get(topic, 1.0))
            for number in range(sent[topic], due):
                key, value, headers = source(number)
                payload = None if value is None else json.dumps(value)
                now_ms = time.time_ns() // 1_000_000
                # A root's records must come in order: partitions by root, as its republisher would.
                partition = number % PARTITIONS if topic == "ks-tightenings" else hash(key) % PARTITIONS
                producer.produce(
                    topic, payload, key, partition, timestamp=now_ms, headers=list(headers.items())
                )
            sent[topic] = max(due, sent[topic])
        producer.poll(0)
        time.sleep(SLICE_SECONDS)


if __name__ == "__main__":
    typer.run(main)
