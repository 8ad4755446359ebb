"""Two nodes of a few log commits, folded one commit at a time; as a program, a verification that kills itself half-way.

python -m tests.runtime.folds LAKE RECORDS
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import headrace as hr
from headrace.engine.slices.log_slices import first_commit_ms
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.nodes.standing import next_increment
from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, spark_conf
from tests.faults.victim import CONF

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.runtime.line import Line

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
BY_SENSOR = READINGS.group_by("sensor_id")
FINAL = (
    BY_SENSOR.window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("final")
)
TOTALS = BY_SENSOR.aggregate(n=hr.count(), total=hr.sum("value")).named("totals")
SENSORS = "s1", "s2"
PIECE = len(SENSORS)  # records of a commit


def one_commit(
    lake: Lake,
    done_ms: Mapping[str, int],
    upto_ms: Mapping[str, int],
    bytes_max: int = 0,
    decoded_max: int = 0,
) -> int:
    """The commit time through which an increment goes: one commit. See `increments.reach`."""
    left = {topic: ms for topic, ms in upto_ms.items() if done_ms[topic] < ms}
    first = (first_commit_ms(lake.log(topic), done_ms[topic], ms) for topic, ms in left.items())
    return min(first, default=max(upto_ms.values()))


def feed(line: Line, minutes: range) -> None:
    """A log commit for each minute, with a reading of each sensor, folded."""
    for minute in minutes:
        for sensor in SENSORS:
            line.pipe(f"2024-05-01 12:{minute:02}:00", sensor, minute + 0.5)
        line.clock.set(line.clock.now_ms() + 60_000)
        line.commit()
        line.fold()


def main(lake: str, records: int) -> None:
    """Verify, until so many records are folded."""

    def folded(done: int, of: int | None) -> None:
        print(done, of, flush=True)
        if done >= records:
            os.kill(os.getpid(), signal.SIGKILL)

    vars(next_increment)["reach"] = one_commit
    verify(build_session(spark_conf(spark_jars()) | CONF), Lake(lake), FINAL, on_folded=folded)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
