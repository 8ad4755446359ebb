"""Positions of vehicles, with gaps: trips as sessions, and a row for each vehicle that is silent in the middle of a trip."""

from __future__ import annotations

import datetime as dt

import pytest

import headrace as hr
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast
MINUTE = 60_000

positions = hr.Topic(
    "positions",
    key="vehicle STRING",
    value="at TIMESTAMP NOT NULL, place STRUCT<lat: DOUBLE NOT NULL, lon: DOUBLE NOT NULL>, speed DOUBLE",
    timestamp="at",
    idle_timeout="2 minutes",
)
moving = positions.where("place IS NOT NULL AND abs(place.lat) <= 90")
trips = (
    moving.group_by("vehicle")
    .window(hr.session("10 minutes"), grace="5 minutes")
    .aggregate(
        points=hr.count(),
        fastest=hr.max("speed"),
        first_place=hr.min_by("place", by="at"),
        last_place=hr.max_by("place", by="at"),
    )
    .suppress(hr.until_window_closes())
    .named("trips")
)


class Silence(hr.Processor):
    """Gives a row when a vehicle that moved has sent no position for three minutes, and one when it is back."""

    def init(self, context: hr.Context) -> None:
        self.context, self.last = context, context.store("last")

    def process(self, record: hr.Record) -> None:
        last = self.last.get()
        if last is not None and last["silent"]:
            self.context.forward(vehicle=record["vehicle"], at=record.timestamp, silent=False)
        self.last.put({"speed": record["speed"], "silent": False})
        self.context.cancel("silent")
        if record["speed"] is None or record["speed"] > 0:
            self.context.schedule("3 minutes", self.silent, once=True)

    def silent(self, moment: dt.datetime) -> None:
        self.context.forward(vehicle=self.context.key["vehicle"], at=moment, silent=True)
        self.last.put({"speed": None, "silent": True})


gaps = (
    moving.group_by("vehicle")
    .process(
        Silence,
        output="vehicle STRING, at TIMESTAMP, silent BOOLEAN",
        stores=[hr.value_store("last", "speed DOUBLE, silent BOOLEAN")],
        stream_wait="3 minutes",
    )
    .named("gaps")
)


def test_a_trip_ends_with_a_long_gap_and_a_short_one_is_told() -> None:
    driver = TestDriver([trips, gaps])

    def position(vehicle: str, minute: int, lat: float | None = 48.1, speed: float = 10.0) -> None:
        place = None if lat is None else {"lat": lat, "lon": 11.5}
        at = f"2026-01-01T10:{minute:02d}:00Z"
        driver.pipe("positions", key=vehicle, value={"at": at, "place": place, "speed": speed})

    position("bus", 0)
    position("bus", 1, lat=48.2)
    position("bus", 2, lat=None)
    position("bus", 3, lat=99.0)
    position("tram", 3)
    driver.cut()
    position("bus", 9, lat=48.3, speed=20.0)
    position("bus", 8, lat=48.25)  # out of order
    driver.crash("after outputs")
    driver.cut()
    position("bus", 40)
    driver.pipe("positions", key=None, value={"at": "2026-01-01T10:41:00Z", "speed": 1.0})
    driver.cut()

    (bus,) = [row for row in driver.rows("trips") if row["vehicle"] == "bus"]
    assert (bus["points"], bus["fastest"], bus["first_place"]["lat"], bus["last_place"]["lat"]) == (
        4,
        20.0,
        48.1,
        48.3,
    )
    told = sorted((row["vehicle"], row["at"].minute, row["silent"]) for row in driver.rows("gaps"))
    assert told == [
        ("bus", 4, True),
        ("bus", 9, False),
        ("bus", 12, True),
        ("bus", 40, False),
        ("tram", 6, True),
    ]
    driver.check("trips")
    driver.check("gaps")
    driver.close()
