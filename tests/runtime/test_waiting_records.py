"""The records that wait for a node are counted alike by the process itself and by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.nodes.node_tables import frontier_ms
from headrace.streams.loops import log_watch
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

READINGS = hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE")
COUNTS = READINGS.group_by().aggregate(n=hr.count()).named("counts")


def test_records_and_dead_letters_count_and_what_is_read_does_not(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(spark, lake, COUNTS)

    def counted(upto_ms: int) -> int:
        found = set()
        for few in (log_watch.FEW_BYTES, -1):
            monkeypatch.setattr(log_watch, "FEW_BYTES", few)
            found.add(log_watch.waiting_records(spark, lake, [READINGS], {"readings": upto_ms}))
        (number,) = found
        return number

    assert counted(0) == 0
    ends = [0]
    for minute in range(4):
        line.pipe(f"2024-05-01 12:{minute:02}:00")
        line.pipe(f"2024-05-01 12:{minute:02}:30", value=None)
        line._piped.add("s1", "no JSON", 1_714_564_800_000, 0, {})
        line.commit()
        line.clock.set(line.clock.now_ms() + 60_000)
        line.sequencer.tick(frozenset())
        ends.append(frontier_ms(lake, READINGS))
    assert [counted(end) for end in ends] == [12, 9, 6, 3, 0]
