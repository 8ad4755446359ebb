"""What a cut does not take with it: stream times of silent partitions, idle topics, and deadlines of the wall clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.description import output_name
from headrace.lifecycle.backfill import verify
from headrace.lifecycle.rebuilds.rebuild import Rebuild
from headrace.lifecycle.retention import Retention
from headrace.log.clock import SystemClock
from headrace.log.commit_row import is_commit_row
from headrace.log.sequencer import Sequencer
from headrace.log.site import Site
from headrace.observe.views import Views
from headrace.spark.lake_rows import read
from headrace.writing.leases.lease import take_lease
from headrace.writing.node_runner import NodeRunner
from tests.runtime.line import Line, at

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from headrace.description import Aggregate, Node
    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
GROUPED = READINGS.group_by("sensor_id")
TOTALS = GROUPED.aggregate(n=hr.count()).named("totals")
WINDOWS = (
    GROUPED.window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("windows")
)
BATCHES = GROUPED.batch(collect=["value"], max_wait="1 hour").named("batches")


def minute(line: Line, number: int, partition: int = 0, sensor: str = "s1") -> None:
    """A commit with a record of a minute, folded."""
    line.clock.set(line.clock.now_ms() + 60_000)
    line.pipe(f"2024-05-01 12:{number:02}:00", sensor, partition=partition)
    line.commit()
    line.fold()


def test_a_node_that_is_new_after_a_cut_knows_partitions_that_are_silent_since(
    spark: SparkSession, lake: Lake
) -> None:
    """Partition 1 is at 12:01 and silent; of the rest of the log alone, windows would close at the time of partition 0."""
    line = Line(spark, lake, TOTALS)
    minute(line, 1, partition=1, sensor="s2")
    minute(line, 2)
    cut = Retention(spark, lake, [TOTALS], READINGS).run(line.clock.now_ms() + 1)
    assert cut.rows == 1
    line = Line(line.spark, lake, TOTALS)
    line.clock.set(at("2024-06-01 01:00:00"))
    assert Retention(spark, lake, [TOTALS], READINGS).run(line.clock.now_ms()).at_ms is None, (
        "nothing is left to cut"
    )
    for number in (3, 9, 20):
        minute(line, number)
    new = NodeRunner(spark, WINDOWS, lake)
    while new.advance():
        pass
    assert Views(spark, lake).read(WINDOWS).isEmpty(), "partition 1 may still have records of 12:02"
    minute(line, 2, partition=1, sensor="s2")
    minute(line, 30, partition=1, sensor="s2")
    while new.advance():
        pass
    rows = {
        (row["sensor_id"], row["window_start"].minute): row["n"]
        for row in Views(spark, lake).read(WINDOWS).collect()
    }
    assert rows == {("s1", 2): 2, ("s1", 8): 1, ("s2", 2): 1}
    assert all(day.equal for day in verify(spark, lake, WINDOWS))


def test_a_batch_whose_first_commit_was_cut_is_due_after_a_restart(spark: SparkSession, lake: Lake) -> None:
    line = Line(spark, lake, BATCHES)
    minute(line, 1)
    opened_ms = line.clock.now_ms()
    minute(line, 2, sensor="s2")
    Retention(spark, lake, [BATCHES], READINGS).run(line.clock.now_ms())
    again = Sequencer(spark, READINGS, lake.log("readings"), line.clock, wall_waits=BATCHES.wall_waits)
    line.clock.set(opened_ms + 3_600_000 - 1)
    assert not again.deadline_passed()
    line.clock.set(opened_ms + 3_600_000)
    assert again.deadline_passed()
    again.tick(frozenset())
    runner = NodeRunner(spark, BATCHES, lake)
    while runner.advance():
        pass
    closed = Views(spark, lake).read(BATCHES).select("sensor_id", "closed_by").collect()
    assert [tuple(row) for row in closed] == [("s1", "wait")]


def test_a_nodes_log_that_a_crash_left_behind_is_written_before_rows_go(
    spark: SparkSession, lake: Lake
) -> None:
    """Its ticks follow from the commits that go."""

    def crash(step: str) -> None:
        if step == "after state":
            raise InterruptedError

    def runner(on_step: Callable[[str], None] = lambda step: None) -> NodeRunner:
        return NodeRunner(spark, WINDOWS, lake, is_read=True, on_step=on_step)

    line = Line(spark, lake, WINDOWS)
    line.runner = runner()
    minute(line, 1)
    line.runner = runner(crash)
    with pytest.raises(InterruptedError):
        minute(line, 4)
    line.clock.set(line.clock.now_ms() + 60_000)
    line.pipe("2024-05-01 12:09:00")
    line.commit()
    commits = [
        row["ingested_at"] for row in read(spark, lake.log("readings")).where(is_commit_row()).collect()
    ]
    Retention(spark, lake, [WINDOWS], READINGS).run(line.clock.now_ms())
    line.runner = runner()
    line.fold()
    own = read(spark, lake.log(output_name(WINDOWS))).where("kind = 'tick'").orderBy("ingested_at")
    assert [row["ingested_at"] for row in own.collect()] == sorted(commits)
    windows = read(spark, lake.log(output_name(WINDOWS))).where("kind = 'record'").orderBy("offset")
    times = [
        row["stream_time"]
        for row in windows.select(F.unix_millis("stream_time").alias("stream_time")).collect()
    ]
    starts = [at("2024-05-01 12:00:00"), at("2024-05-01 12:04:00")]
    assert times == starts, "two minutes before its clock: so long a window waits"


def test_windows_are_rebuilt_from_another_day_on_while_others_read_them(
    spark: SparkSession, lake: Lake
) -> None:
    """The balance is of the description before, and the rebuild begins without one."""

    def windows(since: str | None = None, **more: Aggregate) -> Node:
        hourly = GROUPED.window(hr.tumbling("1 hour"), grace="0 seconds").aggregate(n=hr.count(), **more)
        return hourly.suppress(hr.until_window_closes()).named("hours", since=since)

    line = Line(spark, lake, windows())
    line.runner = NodeRunner(spark, line.node, lake, is_read=True)
    for day in (1, 2, 3):
        for hour in (1, 5):
            line.clock.set(line.clock.now_ms() + 60_000)
            line.pipe(f"2024-05-0{day} 0{hour}:00:00", value=2.0)
            line.commit()
            line.fold()
        if day == 1:
            cut_ms = line.clock.now_ms() + 1
    assert Retention(spark, lake, [line.node], READINGS).run(cut_ms).rows
    changed = windows("2024-05-02", total=hr.sum("value"))
    rebuild = Rebuild(Site(spark, lake, SystemClock()), changed, is_read=True)
    try:
        while rebuild.advance():
            pass
        lease = take_lease(spark, lake.lease("node/hours"), "Node 'hours'", SystemClock())
        rebuild.swap(lease)
        lease.release()
    finally:
        rebuild.close()
    Line(spark, lake, changed).fold()
    rows = {
        (row["window_start"].day, row["window_start"].hour): row["total"]
        for row in Views(spark, lake).read(changed).collect()
    }
    assert rows == {(1, 1): None, (1, 5): None, (2, 1): 2.0, (2, 5): 2.0, (3, 1): 2.0}
    told = (
        read(spark, lake.log(output_name(changed))).where("kind = 'record'").select("value.total").collect()
    )
    assert [row["total"] for row in told] == [2.0, 2.0, 2.0]
    assert all(day.equal for day in verify(spark, lake, changed))
