"""One node of a running stream rests while the others go on, also over a restart; afterwards it has lost nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli import app
from headrace.lake import notices
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.observe.stall import StallWatch
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from headrace.streams.pausing import pause, resume, wishes
from headrace.streams.status.stream_status import StreamStatus
from headrace.streams.stream_runtime import StreamRuntime
from tests.runtime.line import Line
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
TOTALS = READINGS.group_by().aggregate(n=hr.count()).named("totals")
SUMS = READINGS.group_by().aggregate(total=hr.sum("value")).named("sums")


@pytest.mark.fast
def test_a_pause_is_asked_for_and_ended_by_name(tmp_path: Path) -> None:
    lake = Lake(f"file:{tmp_path}")

    def command(*words: str) -> str:
        words = (*words, "--pipeline", "tests.scenarios.chained", "--lake", lake.root)
        return CliRunner().invoke(app, list(words)).output

    assert "Node 'counts' is paused" in command("pause", "counts")
    assert wishes(lake).paused == {"counts"}
    assert "Node 'counts' goes on" in command("resume", "counts")
    assert "Node 'counts' was not paused" in command("resume", "counts")
    assert "no node 'loud'" in command("pause", "loud")
    assert wishes(lake).paused == frozenset()


@pytest.mark.fast
def test_what_rests_is_not_stalled() -> None:
    watch = StallWatch()
    status = StreamStatus("stream", "totals", "paused", None, 0, 100, 0.0, 7, 3.0, None, 5, {})
    for second in range(300):
        watch.see([replace(status, lag_seconds=float(second))], second)
    assert watch.verdicts(300) == {"stream/totals_stream": None}


@pytest.mark.spark
def test_one_node_rests_over_a_restart_and_then_catches_up(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "LOCAL_SECONDS", 0.05)
    line = Line(spark, lake, TOTALS)

    def start() -> StreamRuntime:
        only = {"stream/totals_stream", "stream/sums_stream"}
        nodes = [TOTALS, SUMS]
        return StreamRuntime(
            spark, lake, nodes, kafka=KafkaSettings(bootstrap_servers="localhost:1"), only=only, trigger_ms=20
        )

    def feed() -> None:
        line.pipe("2024-05-01 12:00:00")
        line.commit()

    def poll(runtime: StreamRuntime, done: Callable[[StreamStatus, StreamStatus], bool]) -> None:
        until(runtime.poll, lambda statuses: done(*statuses))

    feed()
    runtime = start()
    try:
        poll(runtime, lambda totals, sums: totals.rows_total == sums.rows_total == 1)
        pause(lake, "totals")
        poll(runtime, lambda totals, sums: (totals.state, sums.state) == ("paused", "running"))
        feed()
        poll(runtime, lambda totals, sums: sums.rows_total == 2 and totals.lag_records == 1)
    finally:
        runtime.drain()
    assert [row["n"] for row in Views(spark, lake).read(TOTALS).collect()] == [1]
    runtime = start()
    try:
        feed()
        poll(runtime, lambda totals, sums: sums.rows_total == 1 and totals.state == "paused")
        time.sleep(0.3)
        assert [status.rows_total for status in runtime.poll()] == [0, 1]
        resume(lake, "totals")
        poll(runtime, lambda totals, sums: totals.rows_total == 2 and totals.state == "running")
    finally:
        runtime.drain()
    assert [row["n"] for row in Views(spark, lake).read(TOTALS).collect()] == [3]
    assert all(day.equal for day in verify(spark, lake, TOTALS))
