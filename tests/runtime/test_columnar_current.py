"""Current results by Arrow: totals, tables and joins are what Spark makes of them, and what is not certain is Spark's."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.operators.relations import RelationOperator
from headrace.operators.running import RunningOperator
from headrace.operators.tables import TableOperator
from headrace.runtime import columnar
from headrace.runtime.backfill import Backfill
from headrace.runtime.columnar import ColumnarRunner
from tests.conftest import Drive
from tests.runtime.test_columnar import EVERYTHING, READINGS, folded_by, same

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.operators.operator import Operator
    from headrace.testing import TestDriver

pytestmark = pytest.mark.spark

SENSORS = hr.Topic("sensors", key="few SMALLINT", value="place STRING, since DATE", idle_timeout=None)
DAYS = hr.Topic("days", key="day DATE, few SMALLINT", value="weather STRING", idle_timeout=None)
TOTALS = READINGS.group_by("sensor_id").aggregate(**EVERYTHING).named("totals")
OF_TWO = (
    READINGS.select("few")
    .merge(SENSORS.select("few"))
    .group_by("few")
    .aggregate(n=hr.count())
    .named("of_two")
)
LATEST = READINGS.table("timestamp").named("latest")
PLACED = READINGS.table().join(SENSORS.table("timestamp"), on="few", how="left").named("placed")
BY_DAY = READINGS.table().join(DAYS.table(), on=("day", "few"))
OF_A_JOIN = BY_DAY.join(
    SENSORS.table(), on="few", how="left", select=("left.weather AS sky", "PLACE AS place")
).named("of_a_join")
SELECTED = (
    "left.n * coalesce(length(place), 100) AS product",
    "right.place AS Place",
    "YES",
    "right.place IS NULL AS alone",
    "named_struct('since', since, 'n', n).n AS deep",
    "sensor_id",
)
COMPUTED = READINGS.table().join(SENSORS.table(), on="few", how="left", select=SELECTED).named("computed")
COMPUTED_INNER = BY_DAY.join(SENSORS.table("timestamp"), on="few", select=SELECTED).named("inner")
NODES: dict[str, tuple[Node, type[Operator[Any]]]] = {
    "totals": (TOTALS, RunningOperator),
    "totals of two topics": (OF_TWO, RunningOperator),
    "a table": (LATEST, TableOperator),
    "a join": (PLACED, RelationOperator),
    "a join that computes": (COMPUTED, RelationOperator),
    "an inner join that computes": (COMPUTED_INNER, RelationOperator),
    "a join of a join": (OF_A_JOIN, RelationOperator),
}
DATES = ["2024-05-01", "1999-12-31", None]


def changed(driver: TestDriver, node: Node) -> list[tuple[Any, ...]]:
    """The rows of a life: keys come, change and go on all sides; half-way what is held is folded."""
    random, topics = Random(7), {topic.name for topic in node.topics}

    def send(topic: str, key: Any, value: dict[str, Any]) -> None:
        if topic in topics:
            gone, ms = random.random() < 0.25, 1_000 * random.randrange(50)
            driver.pipe(topic, key=key, value=None if gone else value, timestamp_ms=ms)

    for cut in range(8):
        for number in range(12):
            few, sensor = random.choice([0, 1, -4]), f"s{random.randrange(6)}"
            said = {"n": number, "day": random.choice(DATES), "value": 0.1 * number, "yes": number > 6}
            send("readings", sensor, {"sensor_id": sensor, "few": random.choice([few, None])} | said)
            if cut % 2:
                send("sensors", {"few": few}, {"place": f"at {number}", "since": "2020-02-29"})
            if cut % 3 == 0:
                send("days", {"day": random.choice(DATES[:2]), "few": few}, {"weather": f"{number} °C"})
        driver.cut()
        if cut == 4:
            driver._runners[node.required_name].maintain()
    (verdict,) = Backfill(driver.spark, driver._lake, node).run()
    assert verdict.equal
    return sorted((tuple(row) for row in driver.read(node.required_name).collect()), key=repr)


@pytest.mark.parametrize("kind", NODES)
def test_arrow_keeps_what_spark_keeps(drive: Drive, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    node, operator = NODES[kind]
    by_spark = folded_by(operator, monkeypatch)
    found = changed(drive(node), node)
    assert by_spark == []
    monkeypatch.setattr(ColumnarRunner, "fold", lambda *_: None)
    assert repr(found) == repr(changed(drive(node), node))
    assert by_spark == [*range(1, 9)]
    assert len(found) >= 3


SPARKS: dict[str, Node] = {
    "a value is computed below": READINGS.table()
    .join(SENSORS.table(), on="few", select=("concat(place, '!') AS place", "few", "day"))
    .join(DAYS.table(), on=("day", "few"))
    .named("node"),
    "a topic is read twice": READINGS.table()
    .join(READINGS.select("sensor_id", "value AS its").table(), on="sensor_id", select=("its",))
    .named("node"),
    "a table is transformed": READINGS.select("sensor_id", "few")
    .transform(same, columns="sensor_id STRING, few SMALLINT")
    .table()
    .join(SENSORS.table(), on="few")
    .named("node"),
    "a table by floats": hr.Topic("readings", key="at DOUBLE", value="n INT").table().named("node"),
    "the last in the log's order": READINGS.group_by("few").aggregate(last=hr.last("n")).named("node"),
    "groups of a table": READINGS.table().group_by("few").aggregate(n=hr.count()).named("node"),
}


@pytest.mark.parametrize("kind", SPARKS)
def test_some_are_sparks(drive: Drive, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    driver = drive(SPARKS[kind])
    by_spark = folded_by(type(driver._runners["node"].operator), monkeypatch)
    key = {"at": 1.5} if kind == "a table by floats" else "s1"
    driver.pipe("readings", key=key, value={"few": 1, "n": 1}, timestamp_ms=1)
    driver.cut()
    assert by_spark == [1]
    assert driver.read("node").count() == (0 if "computed below" in kind or "transformed" in kind else 1)


def test_parts_too_large_for_one_task_are_sparks(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = drive(PLACED)
    by_spark = folded_by(RelationOperator, monkeypatch)

    def send(sensor: str) -> None:
        driver.pipe("readings", key=sensor, value={"sensor_id": sensor, "few": 1}, timestamp_ms=1)
        driver.cut()

    send("s1")
    driver._runners["placed"].maintain()
    monkeypatch.setattr(columnar, "PARTS_BYTES", 0)
    send("s2")
    assert by_spark == [2]
    assert driver.read("placed").count() == 2
