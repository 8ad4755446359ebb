"""Demo traffic: the same seed gives the same readings, and all of them reach the topic."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.local.readings import FAR_FUTURE_MS, Sensors
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import records_in
from headrace.local.traffic import (
    DAY_MS,
    MINUTE_MS,
    DeliveryFailed,
    Message,
    Sender,
    produce_history,
    produce_live,
)

NOON_MS = 1_700_000_000_000


def hour_of_readings(seed: int) -> list[Message]:
    sensors = Sensors(seed)
    return [sensors.read(NOON_MS + number * 100) for number in range(36_000)]


def kind(reading: Message) -> str:
    try:
        return (
            "null" if reading.value is None else "well-formed" if json.loads(reading.value) else "malformed"
        )
    except ValueError:
        return "malformed"


@pytest.mark.fast
def test_the_same_seed_gives_the_same_readings() -> None:
    assert hour_of_readings(1)[:1000] == hour_of_readings(1)[:1000]
    assert hour_of_readings(1)[:1000] != hour_of_readings(2)[:1000]


@pytest.mark.fast
def test_readings_misbehave_as_often_as_said() -> None:
    readings = hour_of_readings(7)
    kinds = Counter(kind(reading) for reading in readings)
    late_by_ms = [NOON_MS + number * 100 - reading.timestamp_ms for number, reading in enumerate(readings)]
    assert 10 <= kinds["malformed"] <= 80
    assert 10 <= kinds["null"] <= 80
    assert 1 <= sum(reading.timestamp_ms == FAR_FUTURE_MS for reading in readings) <= 30
    assert 500 <= sum(late >= MINUTE_MS for late in late_by_ms) <= 1100
    assert max(late_by_ms) <= 10 * MINUTE_MS
    assert len({reading.key for reading in readings}) == 50


@pytest.mark.fast
def test_a_sensor_that_falls_idle_is_silent_for_minutes() -> None:
    seen: dict[str, int] = {}
    longest_ms = 0
    for number, reading in enumerate(hour_of_readings(7)):
        longest_ms = max(longest_ms, (number - seen.get(reading.key, number)) * 100)
        seen[reading.key] = number
    assert 2 * MINUTE_MS <= longest_ms <= 11 * MINUTE_MS


@pytest.mark.broker
def test_history_and_live_traffic_reach_the_topic_in_full(
    kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    servers, past, present = kafka.bootstrap_servers, new_topic(3), new_topic(3)
    assert (
        produce_history(servers, past, Sensors(), days=3, records=2_000, until_ms=NOON_MS + 3 * DAY_MS)
        == 2_000
    )
    assert records_in(servers, past) == 2_000
    assert produce_live(servers, present, Sensors(), rate=1_000, records=500) == 500
    assert records_in(servers, present) == 500


@pytest.mark.broker
def test_what_a_broker_that_is_away_does_not_take_is_counted(tmp_path: Path) -> None:
    sender = Sender("127.0.0.1:1", "nowhere", patience_s=1)
    sender.send(Message("k", b"{}", NOON_MS))
    with pytest.raises(DeliveryFailed, match="'nowhere': 1 records were not delivered"):
        sender.finish(20)
