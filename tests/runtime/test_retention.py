"""Retention beside what else touches the tables: what it refuses, what it says, and that the checks still hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lifecycle.erasure import Erasure
from headrace.lifecycle.retention import Retention
from headrace.log.clock import SystemClock
from headrace.log.commit_row import without_commit_rows
from headrace.observe.views import Views
from headrace.orchestration import build_definitions
from headrace.quality import check_node
from headrace.spark.lake_rows import read
from headrace.writing.leases.lease import LeaseTakenError, take_lease
from headrace.writing.node_runner import NodeRunner
from tests.runtime.line import Line, at

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
GROUPED = READINGS.group_by("sensor_id")
COUNTS = (
    GROUPED.window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("counts")
)
BEHIND = GROUPED.aggregate(n=hr.count()).named("behind")
NEW = GROUPED.aggregate(total=hr.sum("value")).named("new")
VISITS = GROUPED.window(hr.session("1 minute"), grace="0 seconds").aggregate(n=hr.count()).named("visits")
FAR = at("2099-01-01 00:00:00")


def later(line: Line, *minutes: int) -> None:
    """A commit for each minute, folded."""
    for minute in minutes:
        line.clock.set(line.clock.now_ms() + 60_000)
        line.pipe(f"2024-05-01 12:{minute:02}:00")
        line.commit()
        line.fold()


def test_a_cut_that_a_node_cannot_do_with_is_refused_by_its_name_and_nothing_is_changed(
    spark: SparkSession, lake: Lake
) -> None:
    line = Line(spark, lake, COUNTS)
    behind = NodeRunner(line.spark, BEHIND, lake)
    later(line, 0)
    behind.advance()
    later(line, 1, 2)
    version = lakes.open_table(lake.log("readings")).version

    def refused(*nodes: Node) -> str:
        with pytest.raises(TerminalError) as error:
            Retention(spark, lake, nodes, READINGS).run(FAR)
        return str(error.value)

    told = refused(COUNTS, BEHIND, NEW, VISITS)
    assert "its log cannot be cut at 2024-06-01 00:02:00.000 UTC" in told
    assert "behind needs what came after 2024-06-01 00:01:00.000 UTC: it has read no further" in told
    assert "new needs the log from its start: it has not run yet" in told
    assert (
        "visits needs the log from its start: the sessions before a record decide whether it is late" in told
    )
    assert "counts" not in told
    lease = take_lease(spark, lake.lease("backfill/counts"), "Backfill of 'counts'", SystemClock())
    with pytest.raises(LeaseTakenError, match="Backfill of 'counts' is already being written"):
        Retention(spark, lake, [COUNTS], READINGS, patience_seconds=0).run(FAR)
    lease.release()
    assert lakes.open_table(lake.log("readings")).version == version
    assert Views(spark, lake).ledger(COUNTS).where("fate = 'used'").collect()[0]["records"] == 2


def test_the_job_cuts_what_is_older_and_checks_and_stream_go_on_from_the_balance(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    line = Line(spark, lake, COUNTS)
    later(line, 0, 1, 2, 3)
    before = Views(spark, lake).ledger(COUNTS).collect()
    defs = build_definitions([COUNTS], partitions_start="2024-05-01", lake_root=lake.root)
    config = {"ops": {"retain_streams": {"config": {"topic": "readings", "before": "2024-06-01T00:04"}}}}
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        result = defs.resolve_job_def("retain_log").execute_in_process(instance=instance, run_config=config)
        told = [entry.message for entry in instance.all_logs(result.run_id)]
    assert any("3 rows through 2024-06-01 00:03:00.000 UTC cut off" in text for text in told)
    left = without_commit_rows(read(spark, lake.log("readings"))).orderBy("ingested_at").collect()
    assert [row["kind"] for row in left] == ["tick", "record"], "the tick says where the log stood at the cut"
    assert Views(spark, lake).ledger(COUNTS).collect() == before

    again = Line(line.spark, lake, COUNTS)
    assert again.sequencer.state == line.sequencer.state
    again.clock.set(at("2024-06-01 01:00:00"))
    later(again, 5)
    rows = {row["window_start"].minute: row["n"] for row in Views(spark, lake).read(COUNTS).collect()}
    assert rows == {0: 2, 2: 2}, "the second was open at the cut, with one of its records before it"
    checks = check_node(spark, lake, COUNTS, str(tmp_path / "docs"))
    assert all(check.passed for check in checks), [check.sentence for check in checks]
    assert checks[0].metadata["delivered"] == 5
    with pytest.raises(TerminalError, match="its log was cut, and the opening balance of 'counts'"):
        list(Erasure(spark, lake, [COUNTS], READINGS, "s1").run())
    assert Retention(spark, lake, [COUNTS], READINGS).run(at("2024-06-01 00:04:00")).at_ms is None
