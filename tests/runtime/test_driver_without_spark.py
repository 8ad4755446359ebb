"""A test of what expressions cover starts no JVM. In a process of its own: others have one already."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.fast

LIFE = """
from random import Random

import headrace as hr
from headrace.testing import TestDriver
from pyspark import SparkContext

readings = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE, unit STRING")
sensors = hr.Topic("sensors", key="sensor_id STRING", value="room STRING")
doubled = readings.where("value > 0").with_column("twice", "value * 2")
finals = (
    doubled.group_by("sensor_id").window(hr.tumbling("1 minute"), grace="0 seconds")
    .aggregate(n=hr.count(), total=hr.sum("twice"))
    .suppress(hr.until_window_closes()).named("finals")
)
class Store:
    # A sink that keeps each row by its place, and counts the deliveries.
    name = "store"

    def __init__(self):
        self.rows, self.deliveries = {}, 0

    def deliver(self, rows, delivery):
        raise AssertionError("few rows come as a table")

    def deliver_table(self, rows, delivery):
        self.deliveries += 1
        for row in rows.to_pylist():
            content = {name: row[name] for name in delivery.columns}
            assert self.rows.setdefault((row["__sequence"], row["__place"]), content) == content


store = Store()
found = readings.lookup(sensors.table(), on="sensor_id").select("sensor_id", "upper(room) AS room")
placed = found.to(store).named("placed")
totals = placed.group_by("room").aggregate(n=hr.count()).named("totals")

driver = TestDriver([finals, placed, totals])
driver.pipe("sensors", key="s1", value={"room": "hall"}, timestamp_ms=0)
for second in (5, 20, 70, 130, 190, 250):
    driver.pipe("readings", key="s1", value={"value": float(second), "unit": "c"}, timestamp_ms=second * 1_000)
    driver.pipe("readings", key="s1", value={"value": -1.0}, timestamp_ms=second * 1_000)
    if second == 70:
        driver.crash("before outputs", "placed")
        driver.crash("after outputs", "placed")
        driver.crash("after outputs", "finals")
    driver.cut()
assert [(row["n"], row["total"]) for row in driver.rows("finals")] == [(2, 50.0), (1, 140.0), (1, 260.0), (1, 380.0)]
assert driver.rows("totals") == [{"room": "HALL", "n": 12}]
assert [*store.rows.values()] == [{"sensor_id": "s1", "room": "HALL"}] * 12 and store.deliveries == 6
for name in ("finals", "placed", "totals"):
    driver.check(name)
assert driver.fates("finals") == {"used": 5, "open": 1, "filtered": 6}
assert driver.late("finals") == [] == driver.dead_letters("readings")
assert len(driver.log("readings")) == 12
driver.reset()
driver.pipe("readings", key="s1", value={"value": "x"}, timestamp_ms=0)
driver.cut()
assert driver.rows("finals") == []
(dead,) = driver.dead_letters("finals")
assert (dead["reason"].partition(":")[0], dead["offset"], dead["node"]) == ("malformed value", 0, None), dead
driver.check("finals")
chance = Random(7)
for number in range(2_000):  # a log of some hundred kilobytes, which a stream folds in Spark's tasks or by itself
    value = {"value": float(number), "unit": chance.randbytes(150).hex()}
    driver.pipe("readings", key=chance.randbytes(20).hex(), value=value, timestamp_ms=number)
driver.cut(["finals"])
driver.check("finals")
assert SparkContext._gateway is None, "a JVM was started"
driver.close()
"""


@pytest.mark.slow
def test_a_life_needs_no_jvm() -> None:
    done = subprocess.run([sys.executable, "-c", LIFE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
