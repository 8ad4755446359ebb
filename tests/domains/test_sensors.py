"""Sensors: mean temperatures of each room, where devices move from room to room, and devices that fall silent."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast
MINUTE = 60_000

readings = hr.Topic(
    "sensor_readings",
    key="device_id STRING",
    value="temperature DOUBLE, battery STRUCT<percent: INT, volts: DOUBLE>, measured_at BIGINT NOT NULL",
    timestamp="measured_at",
    idle_timeout="30 seconds",
)
devices = hr.Topic(
    "devices", key="device_id STRING", value="site STRING, room STRING, installed_at TIMESTAMP"
)

placed = readings.where("temperature BETWEEN -50 AND 80").lookup(
    devices.table(), on="device_id", as_of="event", history="1 day"
)
room_temperatures = (
    placed.group_by("site", "room")
    .window(hr.tumbling("5 minutes"), grace="1 minute")
    .aggregate(
        devices=hr.count_distinct("device_id"),
        mean=hr.avg("temperature", scale=2),
        lowest_battery=hr.min("battery.percent"),
    )
    .suppress(hr.until_window_closes())
    .named("room_temperatures")
)
silent_devices = (
    readings.group_by()
    .window(hr.session("2 minutes"), grace="30 seconds")
    .aggregate(readings=hr.count(), last_battery=hr.last("battery.percent"))
    .suppress(hr.until_window_closes())
    .where("device_id IS NOT NULL")
    .lookup(devices.table(), on="device_id")
    .select("device_id", "window_end AS last_seen", "last_battery", "site", "room")
    .to(hr.KafkaSink("silent_devices"))
    .named("silent_devices")
)


def test_a_reading_counts_for_the_room_of_its_time_and_silence_is_told() -> None:
    driver = TestDriver([room_temperatures, silent_devices])

    def install(device: str, minute: float, room: str) -> None:
        value = {"site": "north", "room": room, "installed_at": "2026-01-01T00:00:00Z"}
        driver.pipe("devices", key=device, value=value, timestamp_ms=round(minute * MINUTE))

    def measure(device: str | None, minute: float, temperature: float, percent: int | None = 80) -> None:
        battery = None if percent is None else {"percent": percent, "volts": 3.1}
        value = {"temperature": temperature, "battery": battery, "measured_at": round(minute * MINUTE)}
        driver.pipe("sensor_readings", key=device, value=value)

    install("d1", 0, "hall")
    install("d2", 0, "hall")
    measure("d1", 1, 20.0)
    measure("d2", 1, 22.0, percent=15)
    measure("d2", 1.5, 999.0)  # it cannot be
    measure(None, 2, 18.0, percent=None)
    driver.cut()
    install("d1", 3, "attic")  # d1 moves
    measure("d1", 2.5, 21.0)  # still the hall
    measure("d1", 4, 30.0)
    driver.pipe("sensor_readings", key="d1", value={"temperature": "warm", "measured_at": 4 * MINUTE})
    driver.crash("after outputs")
    driver.cut()
    for minute in (6, 8, 10, 12):
        measure("d1", minute, 30.0)
        install("d9", minute, "nowhere")
        driver.cut()
    measure("d2", 3, 25.0)  # within the day of history, and late for its window
    driver.cut()
    measure("d1", 12.5, 30.0)  # stream time moves on, so the late reading leaves its lookup
    install("d9", 12.5, "nowhere")
    driver.cut()

    rows = [row for row in driver.rows("room_temperatures") if row["window_start"].timestamp() == 0]
    rows.sort(key=lambda row: row["mean"])
    assert [
        (row["site"], row["room"], row["devices"], row["mean"], row["lowest_battery"]) for row in rows
    ] == [
        (None, None, 0, 18.0, None),
        ("north", "hall", 2, 21.0, 15),
        ("north", "attic", 1, 30.0, 80),
    ]
    (silent,) = driver.rows("silent_devices")
    assert (silent["device_id"], silent["last_battery"], silent["room"]) == ("d2", 80, "hall")
    (late,) = driver.late("room_temperatures")
    assert late["timestamp"].minute == 3
    assert [row["reason"] for row in driver.records("room_temperatures", "filtered")] == [None]
    (dead,) = driver.dead_letters("sensor_readings")
    assert "temperature is not DOUBLE" in dead["reason"]
    for name in ("room_temperatures", "silent_devices"):
        driver.check(name)
    driver.close()
