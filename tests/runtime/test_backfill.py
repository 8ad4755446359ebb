"""A backfill compares before it swaps: equal days are left alone, differing rows are named and replaced in one commit."""

from __future__ import annotations

import datetime as dt
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import Backfill, verify
from headrace.lifecycle.backfills.backfill_plan import STAGES
from headrace.observe.local_views import LocalViews
from headrace.writing.leases.lease import LeaseLostError, LeaseTakenError
from headrace.writing.node_runner import NodeRunner
from tests.broker.pipeline import counts_of
from tests.lake import other_hands
from tests.rows import in_order
from tests.runtime.line import Line, taken_by_another

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lifecycle.backfills.backfill_plan import DayVerdict

pytestmark = pytest.mark.spark

MAY_1, MAY_2, MAY_3, MAY_4 = (dt.date(2024, 5, day) for day in (1, 2, 3, 4))
COUNTS = counts_of("readings")
CROWD = [f"c{number:02}" for number in range(12)]


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that a stream wrote; each test takes a copy."""
    folder = tmp_path_factory.mktemp("written") / "lake"
    line = Line(spark, Lake(f"file:{folder}"), COUNTS)
    for sensor in CROWD:
        line.pipe("2024-05-01 12:00:30", sensor)
    line.pipe("2024-05-01 23:59:59.999", value=2.0)
    line.commit()
    line.fold()
    line.pipe("2024-05-02 00:00:00.000", value=4.0)
    line.pipe("2024-05-02 12:00:00", "s2")
    line.pipe("2024-05-04 08:00:00")
    line.pipe("2024-05-04 08:10:00")
    line.commit()
    line.fold()
    return folder


@pytest.fixture
def line(spark: SparkSession, written: Path, tmp_path: Path) -> Line:
    shutil.copytree(written, tmp_path / "lake")
    return Line(spark, Lake(f"file:{tmp_path}/lake"), COUNTS)


def results(line: Line) -> list[tuple[object, ...]]:
    return in_order(LocalViews(line.spark, line.lake).read(line.node), *line.node.columns)


def recomputed(line: Line) -> list[tuple[object, ...]]:
    return in_order(LocalViews(line.spark, line.lake).recompute(line.node), *line.node.columns)


def backfill(line: Line, *days: dt.date) -> list[DayVerdict]:
    return Backfill(line.spark, line.lake, line.node, days or None).run()


def remove(line: Line, condition: str) -> None:
    other_hands.delete(line.table, condition)


def alter(line: Line, condition: str) -> None:
    other_hands.alter(line.table, {"n": "99"}, condition)


def duplicate(line: Line, condition: str) -> None:
    table = line.spark.read.format("delta").load(line.table)
    table.where(condition).write.format("delta").mode("append").save(line.table)


def tamper(line: Line) -> None:
    """One window deleted on 1 May, one altered on 2 May, one duplicated on 4 May."""
    remove(line, "window_start = '2024-05-01 23:58:00'")
    alter(line, "window_start = '2024-05-02 12:00:00'")
    duplicate(line, "window_start = '2024-05-04 08:00:00'")


def changes_after(line: Line, version: int) -> list[tuple[str, str, int]]:
    feed = line.spark.read.format("delta").option("readChangeFeed", "true")
    feed = feed.option("startingVersion", version + 1)
    columns = ("_change_type", F.col("window_start").cast("string"), "n")
    return sorted(tuple(row) for row in feed.load(line.table).select(*columns).collect())


def test_equal_days_are_found_equal_and_change_nothing(line: Line) -> None:
    version = line.version()
    verdicts = backfill(line)
    assert [(v.day, v.rows_recomputed, v.rows_stored) for v in verdicts] == [
        (MAY_1, 13, 13),
        (MAY_2, 2, 2),
        (MAY_4, 1, 1),
    ]
    assert all(
        v.equal and not v.swapped and not v.rows_differing and not v.first_differences for v in verdicts
    )
    assert line.version() == version


def test_the_plan_says_what_will_be_read(line: Line) -> None:
    plan = Backfill(line.spark, line.lake, line.node).plan()
    assert (plan.days, plan.log_rows, plan.log_files) == ((MAY_1, MAY_2, MAY_4), 17, 2)
    assert (plan.stored_rows, plan.version) == (len(results(line)), line.node.fingerprint()[:12])
    assert plan.explain().splitlines()[0] == (
        "**Backfill of `reading_counts`**: 3 days, 2024-05-01 to 2024-05-04"
    )


def test_rows_tampered_with_are_named_and_swapped_in_one_commit(line: Line) -> None:
    intact = results(line)
    tamper(line)
    version = line.version()
    first, second, fourth = backfill(line)
    assert first.first_differences == (
        "log: sensor_id=s1, window_start=2024-05-01 23:58:00, window_end=2024-05-02 00:00:00, n=1, total=2.0",
    )
    assert [text.split(": ")[0] for text in second.first_differences] == ["log", "table"]
    assert "sensor_id=s2" in second.first_differences[1]
    assert "n=99" in second.first_differences[1]
    assert fourth.first_differences == (
        "table: sensor_id=s1, window_start=2024-05-04 08:00:00, window_end=2024-05-04 08:02:00, n=1, total=1.0",
    )
    assert [v.rows_differing for v in (first, second, fourth)] == [1, 2, 1]
    assert all(v.swapped and not v.equal for v in (first, second, fourth))

    table = lakes.open_table(line.table)
    later = [table.commit_at(number) for number in range(version + 1, line.version() + 1)]
    assert len([commit for commit in later if commit and commit.changes_data]) == 1
    assert results(line) == intact == recomputed(line)
    assert all(v.equal for v in backfill(line))


def test_only_the_windows_that_differ_are_in_the_change_feed(line: Line) -> None:
    tamper(line)
    version = line.version()
    backfill(line)
    assert changes_after(line, version) == [
        ("delete", "2024-05-02 12:00:00", 99),
        ("delete", "2024-05-04 08:00:00", 1),
        ("delete", "2024-05-04 08:00:00", 1),
        ("insert", "2024-05-01 23:58:00", 1),
        ("insert", "2024-05-02 12:00:00", 1),
        ("insert", "2024-05-04 08:00:00", 1),
    ]


def test_many_differences_on_one_day_do_not_hide_those_of_the_next(line: Line) -> None:
    remove(line, "window_start < '2024-05-03 00:00:00'")
    first, second, _ = backfill(line)
    assert (first.rows_differing, second.rows_differing) == (13, 2)
    assert 0 < len(first.first_differences) < 13
    assert len(second.first_differences) == 2


def test_verify_finds_the_same_and_changes_nothing(line: Line) -> None:
    tamper(line)
    version, tampered = line.version(), results(line)
    verdicts = verify(line.spark, line.lake, line.node)
    assert [(v.day, v.equal, v.rows_differing, v.swapped) for v in verdicts] == [
        (MAY_1, False, 1, False),
        (MAY_2, False, 2, False),
        (MAY_4, False, 1, False),
    ]
    assert (line.version(), results(line)) == (version, tampered)


def test_a_day_is_the_utc_day_of_the_windows_start(line: Line) -> None:
    remove(line, "sensor_id = 's1'")
    (verdict,) = backfill(line, MAY_2)
    assert (verdict.rows_recomputed, verdict.rows_stored, verdict.rows_differing) == (2, 1, 1)
    assert "window_start=2024-05-02 00:00:00" in verdict.first_differences[0]
    assert [v.equal for v in verify(line.spark, line.lake, line.node)] == [False, True, False]


def test_days_and_times_are_utc_wherever_the_process_runs(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(line, "sensor_id = 's1'")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        first, second, fourth = verify(line.spark, line.lake, line.node)
    time.tzset()
    assert [(v.day, v.rows_differing) for v in (first, second, fourth)] == [
        (MAY_1, 1),
        (MAY_2, 1),
        (MAY_4, 1),
    ]
    assert "window_start=2024-05-01 23:58:00" in first.first_differences[0]
    assert "window_start=2024-05-02 00:00:00" in second.first_differences[0]


def test_a_day_without_data_is_equal_and_empty(line: Line) -> None:
    version = line.version()
    (verdict,) = backfill(line, MAY_3)
    assert (verdict.day, verdict.equal, verdict.rows_recomputed, verdict.rows_stored) == (MAY_3, True, 0, 0)
    assert line.version() == version


def test_rows_on_a_day_that_has_none_in_the_log_are_taken_out(line: Line) -> None:
    table = line.spark.read.format("delta").load(line.table).where("sensor_id = 's2'")
    invented = table.withColumn("window_start", F.expr("window_start + INTERVAL 1 DAY"))
    invented.write.format("delta").mode("append").save(line.table)
    verdicts = {v.day: v for v in backfill(line)}
    assert (verdicts[MAY_3].rows_recomputed, verdicts[MAY_3].rows_differing) == (0, 1)
    assert results(line) == recomputed(line)


def test_a_node_without_closed_windows_has_no_days_and_nothing_to_do(spark: SparkSession, lake: Lake) -> None:
    line = Line(spark, lake, COUNTS)
    line.pipe("2024-05-01 12:00:00")
    line.commit()
    line.fold()
    assert Backfill(spark, lake, COUNTS).days == ()
    assert backfill(line) == []
    assert "no day has rows yet" in Backfill(spark, lake, COUNTS).plan().explain()
    (verdict,) = backfill(line, MAY_1)
    assert (verdict.equal, verdict.rows_recomputed, verdict.rows_stored) == (True, 0, 0)


def test_a_node_that_never_ran_is_refused_by_name(spark: SparkSession, lake: Lake) -> None:
    with pytest.raises(TerminalError, match="Node 'reading_counts' has not run yet"):
        Backfill(spark, lake, COUNTS)


def test_what_the_node_has_not_folded_yet_is_no_difference(line: Line) -> None:
    line.pipe("2024-05-04 09:00:00")
    line.commit()
    assert all(v.equal for v in backfill(line))


def test_a_live_stream_that_closes_windows_meanwhile_is_not_disturbed(line: Line) -> None:
    tamper(line)
    folds: list[threading.Thread] = []

    def live(stage: str) -> None:
        line.pipe(f"2024-05-04 {9 + len(folds):02}:00:00")
        line.commit()
        folds.append(threading.Thread(target=line.fold_again))
        folds[-1].start()
        if stage != "swap":  # there the stream commits while the swap does
            folds[-1].join()

    verdicts = Backfill(line.spark, line.lake, line.node).run(on_stage=live)
    for fold in folds:
        fold.join()
    assert len(folds) == len(STAGES)
    assert [v.rows_differing for v in verdicts] == [1, 2, 1]
    line.pipe("2024-05-04 20:00:00")
    line.commit()
    line.fold_again()
    assert results(line) == recomputed(line)
    assert len(results(line)) == 16 + len(STAGES) + 1
    assert all(v.equal for v in backfill(line))


def test_results_of_a_stream_that_died_before_its_state_are_no_difference(line: Line) -> None:
    def die(step: str) -> None:
        if step == "after outputs":
            raise InterruptedError

    line.pipe("2024-05-04 09:00:00")
    line.commit()
    with pytest.raises(InterruptedError):
        NodeRunner(line.spark, line.node, line.lake, on_step=die).advance()
    remove(line, "sensor_id = 's2'")
    assert [v.rows_differing for v in backfill(line)] == [0, 1, 0]
    line.runner = NodeRunner(line.spark, line.node, line.lake)
    line.fold()
    assert results(line) == recomputed(line)


def test_a_backfill_that_is_cancelled_has_changed_nothing_and_the_next_one_does_it_all(line: Line) -> None:
    other_hands.alter(line.table, {"n": "n + 1"}, "sensor_id = 's2'")
    version = line.version()

    def cancelled(stage: str) -> None:
        if stage == "swap":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Backfill(line.spark, line.lake, COUNTS).run(on_stage=cancelled)
    assert line.version() == version
    assert [v.day for v in Backfill(line.spark, line.lake, COUNTS).run() if v.swapped] == [MAY_2]
    assert results(line) == recomputed(line)


def test_two_backfills_of_a_node_at_once_are_refused(line: Line) -> None:
    refused: list[str] = []

    def second(_stage: str) -> None:
        with pytest.raises(LeaseTakenError) as error:
            Backfill(line.spark, line.lake, line.node).run()
        refused.append(error.value.message)

    tamper(line)
    Backfill(line.spark, line.lake, line.node).run(on_stage=second)
    assert len(refused) == len(STAGES)
    assert refused[0].startswith("Backfill of 'reading_counts' is already being written by process ")
    assert all(v.equal for v in backfill(line))


def test_a_backfill_that_lost_its_lease_swaps_nothing(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks behind the fence, for it may have been paused."""
    tamper(line)
    before, real = results(line), lakes.TableWriter

    def paused(table: lakes.LakeTable, role: str, **more: Any) -> lakes.TableWriter:
        taken_by_another(line.lake.lease("backfill/reading_counts"))
        return real(table, role, **more)

    monkeypatch.setattr(lakes, "TableWriter", paused)
    with pytest.raises(LeaseLostError):
        backfill(line)
    assert results(line) == before


def test_a_hopping_window_that_began_the_day_before_is_found_without_its_row(
    spark: SparkSession, lake: Lake
) -> None:
    readings = hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE")
    hourly = readings.group_by("sensor_id").window(hr.hopping("2 hours", advance="1 hour"), grace="0 seconds")
    node = hourly.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("hourly_counts")
    line = Line(spark, lake, node)
    line.pipe("2024-05-02 00:10:00")
    line.pipe("2024-05-02 06:00:00")
    line.commit()
    line.fold()
    remove(line, "window_start < '2024-05-02 00:00:00'")
    assert [(v.day, v.rows_differing) for v in backfill(line)] == [(MAY_1, 1), (MAY_2, 0)]
    assert results(line) == recomputed(line)
