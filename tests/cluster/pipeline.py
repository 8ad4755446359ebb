"""A pipeline with a node of each kind, and its records, in parts. No Spark and no broker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import headrace as hr
from tests.broker.pipeline import MINUTE_MS, NOON_MS, Record

MINUTES, SENSORS, ROOMS = 12, 18, 4
readings = hr.Topic("readings", key="sensor_id STRING", value="room STRING, value DOUBLE", idle_timeout=None)
rooms = hr.Topic("rooms", key="room STRING", value="floor INT", idle_timeout=None)
by_sensor = readings.where("value >= 0").group_by("sensor_id")

counts = (
    by_sensor.window(hr.tumbling("2 minutes"), grace="1 minute")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("reading_counts")
)
totals = by_sensor.aggregate(n=hr.count(), highest=hr.max("value")).named("reading_totals")
batches = by_sensor.batch(max_records=7, max_wait="3 seconds", collect=["value"]).named("reading_batches")
placed = readings.table().join(rooms.table(), on="room", how="left").named("placed_readings")
NODES = [counts, totals, batches, placed]


def readings_of(part: int) -> Iterator[Record]:
    """The readings of so many minutes; late ones, filtered ones, deleted ones and dead letters among them."""
    for minute in range(part * MINUTES, (part + 1) * MINUTES):
        for sensor in range(SENSORS):
            yield _reading(sensor, minute, sensor - 1.0)
    yield _reading(0, 0, 5.0)
    yield Record(1, b"s1", b"{", NOON_MS + part * MINUTES * MINUTE_MS)
    yield Record(2, b"s2", None, NOON_MS + part * MINUTES * MINUTE_MS)


def rooms_of(part: int) -> Iterator[Record]:
    """Rooms that come, change and go."""
    for room in range(ROOMS):
        value = None if (room + part) % ROOMS == 0 else json.dumps({"floor": part}).encode()
        yield Record(0, f"r{room}".encode(), value, NOON_MS + part * MINUTES * MINUTE_MS + room)


def _reading(sensor: int, minute: int, value: float) -> Record:
    text = json.dumps({"room": f"r{(sensor + minute) % (ROOMS + 1)}", "value": value}).encode()
    return Record(sensor % 3, f"s{sensor}".encode(), text, NOON_MS + minute * MINUTE_MS + sensor)
