"""The pipeline under test, and records for it. No Spark and no broker: a victim process imports this first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import headrace as hr
from headrace.description import WindowedAggregate

MINUTE_MS = 60_000
NOON_MS = 1_714_564_800_000  # 2024-05-01 12:00 UTC


@dataclass(frozen=True)
class Record:
    """A record to produce."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def counts_of(
    topic: str, *, size: str = "2 minutes", grace: str = "1 minute", **options: Any
) -> WindowedAggregate:
    """Final counts and sums per sensor in tumbling windows; strict event time unless told otherwise."""
    settings = {"idle_timeout": None, **options}
    readings = hr.Topic(topic, key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", **settings)
    windows = readings.where("value >= 0").group_by("sensor_id").window(hr.tumbling(size), grace=grace)
    return (
        windows.aggregate(n=hr.count(), total=hr.sum("value"))
        .suppress(hr.until_window_closes())
        .named("reading_counts")
    )


def reading(
    partition: int, minute: float, value: float = 1.0, sensor: str | None = None, from_ms: int = NOON_MS
) -> Record:
    """A reading so many minutes after noon of 1 May 2024 (or another time)."""
    name = sensor if sensor is not None else f"s{partition}"
    text = json.dumps({"sensor_id": name, "value": value}).encode()
    return Record(partition, name.encode(), text, from_ms + round(minute * MINUTE_MS))


def minutes(partition: int, first: int, last: int, **more: Any) -> list[Record]:
    """One reading in each minute, `last` included."""
    return [reading(partition, minute, **more) for minute in range(first, last + 1)]
