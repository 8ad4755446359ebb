"""A node of every kind, under the name of its kind in `operators.registry`, and records that give each of them rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import headrace as hr
from headrace.description import Merged

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.testing import TestDriver

BEGIN_MS = 1_714_564_780_000  # 2024-05-01 11:59:40, just before midnight in Auckland
SECOND = 1_000
SENSORS = ("anna-17", "bert-42")
READINGS = hr.Topic(
    "readings", key="sensor STRING", value="sensor STRING, value INT, words ARRAY<STRING>", idle_timeout=None
)
SITES = hr.Topic("sites", key="sensor STRING", value="site STRING", idle_timeout=None)
BY_SENSOR = READINGS.group_by("sensor")
LATEST = READINGS.table()
JOINED = LATEST.join(SITES.table(), on="sensor", how="left")
WINDOW = hr.tumbling("10 seconds")


class Repeat(hr.Processor):
    """Forwards each record twice, so that three batches of a group give six rows of its key."""

    def init(self, context: hr.Context) -> None:
        self.context = context

    def process(self, record: hr.Record) -> None:
        for number in range(2):
            self.context.forward(sensor=record["sensor"], number=number)


def _windows(window: Any) -> Any:
    return BY_SENSOR.window(window, grace="0 s").aggregate(n=hr.count())


KINDS: Mapping[str, Any] = {
    "Batches": BY_SENSOR.batch(max_records=2, collect=["value"]),
    "CalendarWindows": _windows(hr.calendar("day", zone="Pacific/Auckland")).suppress(
        hr.until_window_closes()
    ),
    "Distinct": READINGS.select("sensor", "value").distinct("value", within="2 seconds"),
    "FlatMapped": READINGS.select("sensor", "value", "words").flat_map("words AS word"),
    "Join": JOINED,
    "Lookup": READINGS.select("sensor", "value").lookup(SITES.table(), on="sensor", complete_first=False),
    "Merged": Merged(READINGS.select("sensor", "value"), READINGS.select("sensor", "value + 1 AS value")),
    "NamedStream": READINGS.select("sensor", "value"),
    "Processed": BY_SENSOR.process(Repeat, output="sensor STRING, number INT"),
    "Refined": JOINED.where("value > 1"),
    "RunningAggregate": BY_SENSOR.aggregate(n=hr.count(), total=hr.sum("value")),
    "SessionWindows": _windows(hr.session("3 seconds")).suppress(hr.until_window_closes()),
    "SlidingWindows": _windows(hr.sliding("3 seconds")).suppress(hr.until_window_closes()),
    "StreamJoin": READINGS.select("sensor", "value").join(
        READINGS.select("sensor", "value AS other"), on="sensor", within="5 seconds", grace="0 s"
    ),
    "Suppressed": LATEST.suppress(hr.until_time_limit("5 seconds")),
    "Table": LATEST,
    "TableAggregate": JOINED.group_by("site").aggregate(n=hr.count()),
    "TableChanges": JOINED.changes(),
    "TimeWindows": _windows(WINDOW).suppress(hr.until_window_closes()),
}
# One record changes several rows of these, or one group has several rows in a commit.
VARIANTS: Mapping[str, Any] = {
    "ChangesOfSessions": _windows(hr.session("3 seconds")).changes(),
    "ChangesOfSliding": _windows(hr.sliding("3 seconds")).changes(),
    "LimitedWindows": _windows(hr.hopping("10 seconds", "5 seconds")).suppress(
        hr.until_time_limit("5 seconds")
    ),
    "OuterStreamJoin": READINGS.select("sensor", "value").join(
        READINGS.select("sensor", "value AS other"), on="sensor", within="1 second", grace="0 s", how="outer"
    ),
}
NODES: Mapping[str, Any] = {**KINDS, **VARIANTS}


def name_of(kind: str) -> str:
    """The name of the node of a kind."""
    return "every" + "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind)


def nodes(*sinks: Any) -> list[Node]:
    """A node of each kind, and of some variants. In: sinks  functions that give a sink for the name of a node"""
    made = []
    for kind, node in NODES.items():
        for sink in sinks:
            node = node.to(sink(name_of(kind)))
        made.append(node.named(name_of(kind)))
    return made


def pipe(driver: TestDriver, round_: int) -> None:
    """Records of two sensors in two partitions: sessions of one sensor there have the same bounds."""
    at_ms = BEGIN_MS + round_ * 20 * SECOND
    for sensor in SENSORS:
        site = {"site": f"{sensor}{round_ % 2}"}
        driver.pipe("sites", key=sensor, value=site, timestamp_ms=at_ms)
        for number in range(3):
            for partition in (0, 1):
                value = {"sensor": sensor, "value": number + round_, "words": [sensor, "x", sensor]}
                when_ms = at_ms + number * SECOND
                driver.pipe("readings", key=sensor, value=value, timestamp_ms=when_ms, partition=partition)
    if round_ == 1:
        driver.pipe("readings", key=SENSORS[1], value=None, timestamp_ms=at_ms + 4 * SECOND, partition=0)
