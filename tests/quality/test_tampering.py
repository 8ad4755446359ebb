"""What was tampered with is found and named, and how to mend it; each test damages a copy of a healthy lake."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from headrace.lifecycle.backfills.backfill_plan import DayVerdict
from headrace.log.clock import SystemClock
from headrace.quality import Thresholds
from headrace.quality.books import open_books
from headrace.quality.checks import _verify
from headrace.quality.judgements.parity import backfill_equals_stream
from headrace.writing.leases.lease import take_lease
from tests.quality.conftest import COUNTS, Ground

pytestmark = pytest.mark.spark
REPAIR = "stop the stream and run `headrace repair readings`, which undoes what other programs did."
BOOKS, FINAL, PARITY = "every_offset_accounted_for", "windows_are_final", "backfill_equals_stream"
CHAIN = "no_log_commit_missing"


def test_a_result_row_that_was_deleted_is_named_with_its_partition(ground: Ground) -> None:
    ground.delete(
        ground.lake.table("reading_counts"), "sensor_id = 's2' AND date_part('minute', window_start) = 10"
    )
    results = ground.node(verdicts=None)
    books, parity = results[BOOKS], results[PARITY]
    assert not books.passed
    assert books.sentence == (
        "2 records of readings partition 1 are missing from the results, which hold 10 where the ledger of "
        "reading_counts has 12 used: the window sensor_id=s2 from 1970-01-01 00:10 UTC stands for 0 of its 2 records; "
        "backfill 1970-01-01 to put it right."
    )
    assert books.metadata["in_results"] == 10
    assert not parity.passed
    assert "1 of 2 days of reading_counts differs from the log: 1970-01-01 in 1 row" in parity.sentence
    assert "log: sensor_id=s2" in parity.sentence
    assert "backfill 1970-01-01 to swap in" in parity.sentence
    assert books.sentence.split(":")[0] in Path(books.report or "").read_text()


def test_a_result_row_that_stands_twice_is_named(ground: Ground) -> None:
    table = ground.lake.table("reading_counts")
    ground.append(ground.read(table).where("sensor_id = 's1'").orderBy("window_start").limit(1), table)
    results = ground.node()
    assert not results[FINAL].passed
    assert results[FINAL].sentence == (
        "1 window of reading_counts stands more than once, 1 row too many, first sensor_id=s1 from "
        "1970-01-01 00:10 UTC (2 rows); backfill 1970-01-01 to leave one row of each."
    )
    assert not results[BOOKS].passed
    assert "2 records of readings partition 0 are too many in the results" in results[BOOKS].sentence


def test_a_state_row_that_was_deleted_is_named_with_its_partition(ground: Ground) -> None:
    ground.delete(ground.lake.state("reading_counts"), "panes['__partition'] = 1 AND __time > 86400000")
    books = ground.node()[BOOKS]
    assert not books.passed
    assert books.sentence.startswith(
        "1 record of open windows of readings partition 1 is missing from the state of reading_counts, which holds "
        "0 where the log has 1; stop the stream"
    )
    assert books.sentence.endswith(REPAIR)


def test_a_log_commit_that_is_gone_breaks_the_chain_and_its_offsets_are_named(ground: Ground) -> None:
    log, rows = ground.lake.log("readings"), ground.read(ground.lake.log("readings"))
    assert ground.log()[CHAIN].passed
    second = sorted(row[0] for row in rows.select("ingested_at").distinct().collect())[1]
    ground.delete(log, f"ingested_at = '{second}'")
    results = ground.log()
    assert results["no_duplicate_offset"].passed, "it cannot see what is gone"
    assert not results[CHAIN].passed
    assert "1 commit after" in results[CHAIN].sentence
    assert "(partition 0 offsets 3 to 4 and partition 1 offsets 3 to 4)" in results[CHAIN].sentence
    assert results[CHAIN].metadata["gaps"] == 1


def test_records_that_are_gone_from_a_commit_are_counted(ground: Ground) -> None:
    ground.delete(ground.lake.log("readings"), "partition = 1 AND offset = 2")
    chain = ground.log()[CHAIN]
    assert not chain.passed
    assert "holds 5 of its 6 records" in chain.sentence
    assert chain.sentence.endswith(REPAIR)


def test_a_record_that_stands_twice_in_the_log_is_named_and_its_repair_told(ground: Ground) -> None:
    log = ground.lake.log("readings")
    ground.append(ground.read(log).where("partition = 1 AND offset = 2"), log)
    duplicate = ground.log()["no_duplicate_offset"]
    assert not duplicate.passed
    assert "1 offset of the log of readings stands more than once" in duplicate.sentence
    assert "partition 1 offset 2 (2 rows)" in duplicate.sentence
    assert duplicate.sentence.endswith(REPAIR)
    results = ground.node(verdicts=None)
    assert results[BOOKS].sentence.startswith(
        "readings partition 1 delivered 8 records and the ledger has 7, 1 too few; rows were added"
    )
    assert not results[PARITY].passed
    assert "reading_counts could not be compared" in results[PARITY].sentence
    assert "(WRITE) changed the table, and Headrace did not write it" in results[PARITY].sentence
    assert "headrace repair" in results[PARITY].sentence


def test_a_log_without_commits_that_a_node_has_read_is_not_to_be_backfilled_from(ground: Ground) -> None:
    for _ in range(2):
        ground.undo_last_commit(ground.lake.log("readings"))
    results = ground.node(verdicts=None)
    assert not results[BOOKS].passed
    assert not results[PARITY].passed
    assert "backfill nothing before every_offset_accounted_for holds" in results[PARITY].sentence


def test_a_log_that_lost_its_table_is_told_from_one_that_never_had_records(ground: Ground) -> None:
    ground.spark.sql(
        f"ALTER TABLE delta.`{ground.lake.log('readings')}` UNSET TBLPROPERTIES ('delta.appendOnly')"
    )
    ground.delete(ground.lake.log("readings"), "partition = 0 AND offset < 3")
    books = ground.node()[BOOKS]
    assert not books.passed
    assert "readings partition 0 delivered 9 records and the ledger has 12, 3 too many" in books.sentence
    assert "rows are gone from the log of readings" in books.sentence
    assert books.sentence.endswith(REPAIR)


def test_a_value_that_was_changed_fails_the_parity_alone(ground: Ground) -> None:
    table = ground.lake.table("reading_counts")
    rows = ground.read(table).withColumn("total", F.when(F.col("n") == 2, 7.0).otherwise(F.col("total")))
    rows.write.format("delta").mode("overwrite").save(table)
    results = ground.node(verdicts=None)
    assert [name for name, result in results.items() if not result.passed] == [PARITY]
    assert "total=7.0" in results[PARITY].sentence


def test_a_lower_threshold_makes_late_records_a_warning(ground: Ground) -> None:
    late = ground.node(thresholds=Thresholds(late_ratio_max=0.05))["late_drops_below"]
    assert not late.passed
    assert late.severity == "warn"
    assert late.sentence.startswith(
        "1 of 19 records delivered is late, 5.26% where 5.00% may be, most of them (1) in readings partition 0"
    )
    assert "is right, but needs a look" in Path(late.report or "").read_text()


def test_a_ratio_at_its_limit_passes(ground: Ground) -> None:
    assert ground.log(Thresholds(dead_letter_ratio_max=1 / 19))["dead_letters_below"].passed


def test_a_day_that_a_backfill_replaced_is_told_from_one_that_waits(ground: Ground) -> None:
    replaced = DayVerdict(dt.date(2026, 3, 1), False, 5, 4, 1, ("log: sensor_id=s9",), swapped=True)
    equal = DayVerdict(dt.date(2026, 3, 2), True, 5, 5, 0, (), swapped=False)
    said = backfill_equals_stream("t", (replaced, equal)).explain(False).sentence
    assert "1 of 2 days of t differs from the log: 2026-03-01 in 1 row, first log: sensor_id=s9" in said
    assert "the recomputed rows were swapped in" in said


def test_a_backfill_that_is_running_leaves_the_parity_unjudged_and_failed(ground: Ground) -> None:
    folder = ground.lake.lease("backfill/reading_counts")
    held = take_lease(ground.spark, folder, "Backfill of 'reading_counts'", SystemClock())
    try:
        said = _verify(ground.spark, ground.lake, open_books(ground.spark, ground.lake, COUNTS))
    finally:
        held.release()
    assert isinstance(said, str)
    assert "a backfill of it is running; run the check again after it" in said
    check = backfill_equals_stream("reading_counts", said)
    assert (check.claim, check.unjudged) == (None, False)


def test_results_that_vanished_are_missed(ground: Ground) -> None:
    ground.spark._jvm.org.apache.commons.io.FileUtils.deleteDirectory(  # type: ignore[union-attr]
        ground.spark._jvm.java.io.File(ground.lake.table(COUNTS.required_name).removeprefix("file:"))  # type: ignore[union-attr]
    )
    results = ground.node(verdicts=None)
    assert not results[BOOKS].passed
    assert not results[PARITY].passed
    assert "is gone although its state is not" in results[PARITY].sentence
