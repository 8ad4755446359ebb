"""Current results: folded off the hot path, crashed in the fold, damaged and mended, throttled."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable

import headrace as hr
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import Backfill
from headrace.nodes.node_tables import base_of
from headrace.observe.local_views import LocalViews
from headrace.observe.views import Views
from headrace.writing.node_runner import NodeRunner
from headrace.writing.state_upkeep import StateUpkeep
from tests.lake.other_hands import alter, delete
from tests.rows import columns, file_rows, in_order
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

READINGS = hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE")
TOTALS = (
    READINGS.group_by()
    .aggregate(n=hr.count(), total=hr.sum("value"), newest=hr.last("value"))
    .named("totals")
)


def fed(line: Line, *values: float) -> None:
    """One commit and one micro-batch; sensor s1 unless the value is negative."""
    for value in values:
        line.pipe("2024-05-01 12:00:00", sensor="s1" if value >= 0 else "s2", value=value)
    line.commit()
    line.fold()


def table(line: Line) -> list[tuple[object, ...]]:
    """The base alone, as a foreign reader finds it."""
    return sorted(columns(file_rows(line.table), "sensor_id", "n", "total"))


def changes(line: Line) -> list[int]:
    """The micro-batches whose current results the state still holds."""
    state = file_rows(line.lake.state(line.node.required_name))
    return sorted({row["__batch"] for row in state if row["__table"] == "results"})


def read(line: Line) -> list[tuple[object, ...]]:
    return in_order(LocalViews(line.spark, line.lake).read(TOTALS), "sensor_id", "n", "total")


def test_a_fold_moves_changes_into_the_table_and_alters_nothing_that_is_read(
    spark: SparkSession, lake: Lake
) -> None:
    line = Line(spark, lake, TOTALS)
    fed(line, 1, 2, -1)
    assert (table(line), read(line)) == ([], [("s1", 2, 3.0), ("s2", 1, -1.0)])
    line.runner.maintain()
    assert table(line) == read(line) == [("s1", 2, 3.0), ("s2", 1, -1.0)]
    fed(line, 4)
    assert (table(line)[0], read(line)[0]) == (("s1", 2, 3.0), ("s1", 3, 7.0))
    line.runner.maintain()
    assert table(line) == read(line) == [("s1", 3, 7.0), ("s2", 1, -1.0)]
    fed(line, 5)
    line.runner.maintain()
    assert base_of(lake, TOTALS).batch == 3
    assert changes(line) == [3], "folded twice ago, kept"


def test_a_file_that_maintenance_made_of_several_leaves_with_the_last_of_them(
    spark: SparkSession, lake: Lake
) -> None:
    line = Line(spark, lake, TOTALS)
    fed(line, 1)
    line.runner.maintain()
    fed(line, 2)
    DeltaTable.forPath(spark, lake.state("totals")).optimize().executeCompaction()
    for found in ([2], [3], [4]):
        line.runner.maintain()
        assert changes(line) == found
        fed(line, 3)
        assert read(line) == [("s1", found[-1] + 1, 3.0 * found[-1])]


def test_changes_of_columns_that_parquet_cannot_name_leave_too(spark: SparkSession, lake: Lake) -> None:
    named = READINGS.group_by().aggregate(**{"the total": hr.sum("value")}).named("named")
    line = Line(spark, lake, named)
    for number in range(1, 4):
        fed(line, number)
        line.runner.maintain()
    assert changes(line) == [3]
    assert [row["the total"] for row in Views(spark, lake).read(named).collect()] == [6.0]


def test_a_crash_between_the_fold_and_the_removal_counts_nothing_twice(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(spark, lake, TOTALS)
    fed(line, 1)
    line.runner.maintain()
    fed(line, 2)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as crash:
        crash.setattr(StateUpkeep, "drop", killed)
        with pytest.raises(KeyboardInterrupt):
            line.runner.maintain()
    assert read(line) == [("s1", 2, 3.0)]
    line.runner = NodeRunner(spark, TOTALS, lake)
    assert line.runner.unfolded == 0
    fed(line, 3)
    line.runner.maintain()
    assert table(line) == read(line) == [("s1", 3, 6.0)]


def test_folds_and_micro_batches_go_on_side_by_side(spark: SparkSession, lake: Lake) -> None:
    line, ended = Line(spark, lake, TOTALS), threading.Event()
    fed(line, 1)

    def folds() -> int:
        number = 0
        while not ended.is_set():
            line.runner.compact()
            number += 1
        return number

    with ThreadPoolExecutor(1) as pool:
        folding = pool.submit(folds)
        try:
            for number in range(2, 12):
                fed(line, 1)
                assert read(line) == [("s1", number, float(number))]
        finally:
            ended.set()
        assert folding.result() > 1
    assert base_of(lake, TOTALS).batch > 0
    line.runner.clear()
    line.runner.maintain()
    assert table(line) == [("s1", 11, 11.0)]
    assert Backfill(spark, lake, TOTALS).run()[0].equal


def test_a_damaged_table_is_found_and_mended_and_what_came_since_stays(
    spark: SparkSession, lake: Lake
) -> None:
    line = Line(spark, lake, TOTALS)
    fed(line, 1, -1)
    line.runner.maintain()
    fed(line, 2)
    (equal,) = Backfill(spark, lake, TOTALS).run()
    assert (equal.equal, equal.what, equal.rows_stored) == (True, "the whole table", 2)
    alter(line.table, {"n": "99"}, "sensor_id = 's1'")
    delete(line.table, "sensor_id = 's2'")
    assert read(line) == [("s1", 2, 3.0)], "what came since is the latest"
    (verdict,) = Backfill(spark, lake, TOTALS).run()
    assert (verdict.equal, verdict.swapped, verdict.rows_differing) == (False, True, 3)
    assert any("n=99" in words for words in verdict.first_differences)
    assert read(line) == [("s1", 2, 3.0), ("s2", 1, -1.0)]
    line.runner.maintain()
    assert table(line) == read(line)
    assert Backfill(spark, lake, TOTALS).run()[0].equal


def test_a_throttled_node_is_due_once_in_an_interval_of_commit_time(spark: SparkSession, lake: Lake) -> None:
    line = Line(spark, lake, TOTALS.throttle("1 minute"))
    assert line.runner.due(line.clock.now_ms())
    fed(line, 1)
    begun = line.sequencer.state.ingested_at_ms
    assert not line.runner.due(begun + 59_000)
    assert line.runner.due(begun + 60_000)


def test_two_nodes_that_fold_at_once_sign_their_own_commits(spark: SparkSession, tmp_path: Path) -> None:
    lines = [Line(spark, Lake(f"file:{tmp_path}/{side}"), TOTALS) for side in ("left", "right")]
    for number, line in enumerate(lines, start=1):
        for _ in range(1 + number):
            fed(line, *range(number))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda line: line.runner.maintain(), lines))
    for number, line in enumerate(lines, start=1):
        assert base_of(line.lake, TOTALS).batch == 1 + number
        assert read(line)[0][:2] == ("s1", (1 + number) * number)
