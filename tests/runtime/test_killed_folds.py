"""A verification, a backfill or an erasure that was killed in its fold is gone on with, or begins anew."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headrace.changing.apply_changes import ApplyChanges
from headrace.lake import small_files
from headrace.lifecycle.backfill import Backfill, verify
from headrace.lifecycle.erasure import Erasure
from headrace.lifecycle.maintenance import Maintenance
from headrace.lifecycle.retention import Retention
from headrace.log.site import Site
from headrace.nodes.standing import next_increment
from headrace.observe.local_views import LocalViews
from headrace.writing.fold_aside import drop_scratch
from tests.runtime.folds import FINAL, PIECE, READINGS, SENSORS, TOTALS, feed, one_commit
from tests.runtime.line import Line, at
from tests.runtime.test_folds_aside import ALL, CHANGED, COMMITS, Killed, fed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def small_increments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_increment, "reach", one_commit)


def test_a_verification_that_was_killed_is_gone_on_with(spark: SparkSession, lake: Lake) -> None:
    line = fed(spark, lake, FINAL)
    program = [sys.executable, "-m", "tests.runtime.folds", lake.root, "6"]
    victim = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert victim.returncode == -signal.SIGKILL, victim.stderr[-4000:]
    assert victim.stdout.splitlines()[-4:] == ["0 12", "2 12", "4 12", "6 12"]
    feed(line, range(COMMITS, COMMITS + 2))  # the stream goes on
    told: list[tuple[int, int | None]] = []
    verdicts = verify(spark, lake, FINAL, on_folded=lambda done, of: told.append((done, of)))
    assert told == [(done, 16) for done in (6, 8, 10, 12, 14, 16)]
    assert [(each.equal, each.rows_recomputed) for each in verdicts] == [(True, 6)]
    assert not small_files.exists(f"{lake.scratch('final')}/backfill"), "nothing is left of it"


def killed(spark: SparkSession, lake: Lake, node: Node) -> None:
    """A verification that ends after four records."""

    def folded(done: int, of: int | None) -> None:
        if done == 4:
            raise Killed

    with pytest.raises(Killed):
        verify(spark, lake, node, on_folded=folded)


def first_told(spark: SparkSession, lake: Lake, node: Node) -> int:
    """How many records the next backfill begins with. It finds the table to be right."""
    told: list[int] = []
    verdicts = Backfill(spark, lake, node).run(on_folded=lambda done, of: told.append(done))
    assert all(verdict.equal for verdict in verdicts)
    return told[0]


def test_a_verification_begins_anew_after_an_erasure_a_cut_and_a_change(
    spark: SparkSession, lake: Lake
) -> None:
    fed(spark, lake, TOTALS).runner.maintain()
    killed(spark, lake, TOTALS)
    assert first_told(spark, lake, TOTALS) == 4, "a backfill goes on with it"
    killed(spark, lake, TOTALS)
    list(Erasure(spark, lake, [TOTALS], READINGS, "s1").run())
    assert first_told(spark, lake, TOTALS) == 0
    killed(spark, lake, TOTALS)
    Retention(spark, lake, [TOTALS], READINGS).run(at("2024-06-01 00:03:30"))
    assert first_told(spark, lake, TOTALS) == 3 * PIECE, "it begins with the balance"
    assert LocalViews(spark, lake).read(TOTALS).num_rows == 1


def test_a_verification_of_a_changed_description_begins_anew(spark: SparkSession, lake: Lake) -> None:
    fed(spark, lake, TOTALS).runner.maintain()
    killed(spark, lake, TOTALS)
    ApplyChanges(Site(spark, lake), [CHANGED]).run()
    assert first_told(spark, lake, CHANGED) == 0


def test_an_erasure_that_was_killed_goes_on_with_its_fold_and_tells_how_far_it_is(
    spark: SparkSession, lake: Lake
) -> None:
    line = fed(spark, lake, FINAL)
    stages: list[str] = []
    told: list[tuple[int, int | None]] = []

    def folded(done: int, of: int | None) -> None:
        told.append((done, of))
        if told.count((4, ALL)) == 1 and done == 4:
            raise Killed

    erasure = Erasure(spark, lake, [FINAL], READINGS, "s1")
    with pytest.raises(Killed):
        list(erasure.run(on_stage=stages.append, on_folded=folded))
    list(erasure.run(on_stage=stages.append, on_folded=folded))
    assert told == [(0, ALL), (2, ALL), (4, ALL), (4, ALL), (6, ALL), (8, ALL), (10, ALL), (12, ALL)]
    assert stages == ["Folds the log of final aside."] * 2 + ["Compares the rows of final."]
    assert {row["sensor_id"] for row in LocalViews(spark, lake).read(FINAL).to_pylist()} == {SENSORS[1]}
    assert not small_files.exists(lake.erasing("readings"))
    line.runner = Line(spark, lake, FINAL).runner
    assert first_told(spark, lake, FINAL) == 0


def test_another_erasure_begins_its_fold_anew(spark: SparkSession, lake: Lake) -> None:
    fed(spark, lake, FINAL)
    told: list[int] = []

    def folded(done: int, of: int | None) -> None:
        told.append(done)
        if told == [0, 2, 4]:
            raise Killed

    with pytest.raises(Killed):
        list(Erasure(spark, lake, [FINAL], READINGS, "s1").run(on_folded=folded))
    list(Erasure(spark, lake, [FINAL], READINGS, "s2").run(on_folded=folded))
    assert told[3] == 0, "the log has lost more since"
    assert not LocalViews(spark, lake).read(FINAL).num_rows


def test_maintenance_removes_what_a_killed_verification_has_left(spark: SparkSession, lake: Lake) -> None:
    fed(spark, lake, FINAL)
    killed(spark, lake, FINAL)
    assert small_files.names(lake.scratch("final")) == ["backfill"]
    list(Maintenance(spark, lake, [FINAL]).run())
    assert not small_files.exists(lake.scratch("final"))
    killed(spark, lake, FINAL)
    drop_scratch(lake, "final")
    assert first_told(spark, lake, FINAL) == 0
