"""A test of what expressions cover starts no JVM. In a process of its own: others have one already."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.fast

LIFE = """
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
placed = readings.lookup(sensors.table(), on="sensor_id").select("sensor_id", "upper(room) AS room").named("placed")
totals = placed.group_by("room").aggregate(n=hr.count()).named("totals")

driver = TestDriver([finals, placed, totals])
driver.pipe("sensors", key="s1", value={"room": "hall"}, timestamp_ms=0)
for second in (5, 20, 70, 130, 190, 250):
    driver.pipe("readings", key="s1", value={"value": float(second), "unit": "c"}, timestamp_ms=second * 1_000)
    driver.pipe("readings", key="s1", value={"value": -1.0}, timestamp_ms=second * 1_000)
    if second == 70:
        driver.crash("after outputs")
    driver.cut()
assert [(row["n"], row["total"]) for row in driver.rows("finals")] == [(2, 50.0), (1, 140.0), (1, 260.0), (1, 380.0)]
assert driver.rows("totals") == [{"room": "HALL", "n": 12}]
driver.reset()
driver.pipe("readings", key="s1", value={"value": "x"}, timestamp_ms=0)
driver.cut()
assert driver.rows("finals") == []
assert SparkContext._gateway is None, "a JVM was started"
driver.close()
"""


def test_a_life_needs_no_jvm() -> None:
    done = subprocess.run([sys.executable, "-c", LIFE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
