"""Erasure beside what else touches the tables: it refuses while somebody writes, and refused rows go too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lifecycle import erasure
from headrace.lifecycle.backfill import verify
from headrace.lifecycle.erasure import Erased, Erasure
from headrace.lifecycle.pending_erasures import pending
from headrace.lifecycle.retention import Retention
from headrace.log.clock import SystemClock
from headrace.log.decisions.promise import write_promise
from headrace.observe import long_work
from headrace.observe.views import Views
from headrace.orchestration import build_definitions
from headrace.quality import check_node
from headrace.sinks import Delivery
from headrace.sinks.refusals import record_refusals
from headrace.spark.lake_rows import read
from headrace.testing import TestDriver
from headrace.writing.leases.lease import LeaseTakenError, take_lease
from headrace.writing.node_runner import NodeRunner
from tests.runtime.line import Line
from tests.scenarios import chained

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from headrace.lake.paths import Lake
    from tests.conftest import Drive

pytestmark = pytest.mark.spark


class Refusing:
    """A sink that refuses every row."""

    name = "refusing"

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        refused = [(row["__sequence"], row["__ordinal"], "no") for row in rows.collect()]
        record_refusals(rows, delivery, refused, "the store")


READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
COUNTED = (
    READINGS.group_by("sensor_id")
    .window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
)
COUNTS = COUNTED.to(Refusing()).named("counts")
BY_VALUE = (
    READINGS.group_by("value")
    .window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .to(Refusing())
    .named("by_value")
)
PAIRS = hr.Topic("pairs", key="a STRING, b INT", value="n BIGINT")
KEYLESS = hr.Topic("keyless", value="n BIGINT")


@pytest.fixture
def line(spark: SparkSession, lake: Lake) -> Line:
    """Windows of two sensors, one closed and one open, all refused by the sink."""
    line = Line(spark, lake, COUNTS)
    for minute in (0, 2):
        for sensor in ("s1", "s2"):
            line.pipe(f"2024-05-01 12:{minute:02}:00", sensor)
    line.commit()
    line.fold()
    return line


def test_one_sensor_goes_and_the_other_stays_and_the_job_says_what_it_did(
    spark: SparkSession, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_work, "LINE_SECONDS", 0.0)
    lake = line.lake
    dies_between_outputs_and_state(line)
    lease = take_lease(spark, lake.lease("backfill/counts"), "Backfill of 'counts'", SystemClock())
    log_before = lakes.open_table(lake.log("readings")).version
    with pytest.raises(LeaseTakenError, match="Backfill of 'counts' is already being written"):
        list(Erasure(spark, lake, [COUNTS], READINGS, "s1").run(patience_seconds=0))
    assert lakes.open_table(lake.log("readings")).version == log_before, "nothing was changed"
    lease.release()

    defs = build_definitions([COUNTS], partitions_start="2024-05-01", lake_root=lake.root)
    config = {"ops": {"erase_streams": {"config": {"topic": "readings", "key": "s1"}}}}
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        result = defs.resolve_job_def("erase_key").execute_in_process(instance=instance, run_config=config)
        told = [entry.message for entry in instance.all_logs(result.run_id)]
    assert any("log/readings, log: 3 rows, blanked where they stand" in text for text in told)
    assert any("counts, results: 2 rows" in text for text in told)
    folds = told.index("Folds the log of counts aside.")
    assert told[folds + 1 : folds + 3] == ["0 of 4 records folded", "6 of 6 records folded, about 0 s to go"]
    assert any("counts, refused by refusing: 2 rows" in text for text in told)
    assert any("Older versions of the tables hold the records until" in text for text in told)

    refused = read(spark, lake.refused("counts", "refusing")).collect()
    assert ["s2" in row["row"] for row in refused] == [True, True]
    views = Views(spark, lake)
    assert [(row["sensor_id"], row["n"]) for row in views.read(COUNTS).collect()] == [("s2", 1), ("s2", 1)]
    assert [row["sensor_id"] for row in views.open_windows(COUNTS).collect()] == ["s2"]
    fates = {row["fate"]: row["records"] for row in views.ledger(COUNTS).collect() if row["records"]}
    assert fates == {"used": 2, "open": 1, "erased": 3}
    assert all(verdict.equal for verdict in verify(spark, lake, COUNTS))
    checks = check_node(spark, lake, COUNTS, str(tmp_path / "docs"))
    assert all(check.passed for check in checks), [check.sentence for check in checks]

    detail = spark.sql(f"SHOW TBLPROPERTIES delta.`{lake.log('readings')}`").collect()
    assert {row["key"]: row["value"] for row in detail}["delta.appendOnly"] == "true"
    again = Line(line.spark, lake, COUNTS)
    again.pipe("2024-05-01 12:06:00", "s1")
    again.commit()
    again.fold()
    rows = {(row["sensor_id"], row["window_start"].minute): row["n"] for row in views.read(COUNTS).collect()}
    assert rows == {("s2", 0): 1, ("s2", 2): 1, ("s2", 4): 1}, "the stream goes on from there"
    done = {each.what: each.rows for each in Erasure(spark, lake, [COUNTS], READINGS, "nobody").run()}
    assert (done["log"], done["results"]) == (0, 0)


def test_refused_rows_go_too_of_a_sink_that_the_node_has_no_more(spark: SparkSession, line: Line) -> None:
    """Before, a sink that was taken away or renamed kept the key in what it had refused."""
    done = [str(each) for each in Erasure(spark, line.lake, [COUNTED.named("counts")], READINGS, "s1").run()]
    assert "counts, refused by refusing: 1 rows." in done
    (left,) = read(spark, line.lake.refused("counts", "refusing")).collect()
    assert "s2" in left["row"]


def test_one_that_was_broken_off_is_pending_and_refused_rows_of_results_that_change_go_all_the_same(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(spark, lake, BY_VALUE)
    for minute in (0, 2):
        for sensor in ("s1", "s2"):
            line.pipe(f"2024-05-01 12:{minute:02}:00", sensor)
        line.commit()
    line.fold()

    def no_space(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(erasure, "rewrite_state", no_space)
    with pytest.raises(OSError, match="no space left"):
        list(Erasure(spark, lake, [BY_VALUE], READINGS, "s1").run())
    monkeypatch.undo()
    assert [each.node for each in pending(lake)] == ["by_value"]
    with pytest.raises(TerminalError, match="by_value still holds what was erased from 'readings'"):
        Retention(spark, lake, [BY_VALUE], READINGS).run(SystemClock().now_ms())
    list(Erasure(spark, lake, [BY_VALUE], READINGS, "s1").run())
    assert pending(lake) == []
    assert read(spark, lake.refused("by_value", "refusing")).count() == 0, "they said that there were two"
    assert [(row["value"], row["n"]) for row in Views(spark, lake).read(BY_VALUE).collect()] == [(1.0, 1)]


@pytest.mark.parametrize("described", [True, False])
def test_a_node_that_begins_before_the_log_is_blanked_is_computed_anew_or_pending(
    spark: SparkSession, line: Line, monkeypatch: pytest.MonkeyPatch, described: bool
) -> None:
    lake, blank = line.lake, Erasure._log
    small_files.write_json(f"{lake.log_scratch('readings')}/half.json", {})

    def begins(of: Erasure) -> Erased:
        runner = NodeRunner(spark, BY_VALUE, lake)
        while runner.advance():
            pass
        return blank(of)

    monkeypatch.setattr(Erasure, "_log", begins)
    list(Erasure(spark, lake, [COUNTS, BY_VALUE] if described else [COUNTS], READINGS, "s1").run())
    found = [(row["value"], row["n"]) for row in Views(spark, lake).read(BY_VALUE).collect()]
    if described:
        assert found == [(1.0, 1)]
        assert all(verdict.equal for verdict in verify(spark, lake, BY_VALUE))
    assert [each.node for each in pending(lake)] == ([] if described else ["by_value"])
    assert not small_files.exists(lake.log_scratch("readings")), (
        "a log that was half written again held the key"
    )


@pytest.mark.long
def test_a_node_that_has_read_on_by_promises_is_computed_anew_as_far(spark: SparkSession) -> None:
    """It reads two logs in one order; the one of the counts holds nothing since, and says so."""
    sited = (
        chained.COUNTS.as_stream()
        .lookup(chained.SENSORS.table(), on="sensor", complete_first=False)
        .named("sited")
    )
    driver = TestDriver([chained.COUNTS, sited], spark)
    for minute in (0, 9):
        for sensor in ("a", "b"):
            value, at_ms = {"value": 1}, 1_700_000_040_000 + minute * 60_000
            driver.pipe("readings", key=sensor, value=value, timestamp_ms=at_ms)
    driver.cut()
    driver.advance_wall_clock("1 second")
    driver.pipe("sensors", key="a", value={"site": "north"}, timestamp_ms=1_700_000_040_000)
    driver.cut()
    assert {row["sensor"] for row in driver.rows("sited")} == {"a", "b"}
    driver.erase("readings", "b")
    assert {row["sensor"] for row in driver.rows("sited")} == {"a"}
    driver.check("sited")
    driver.close()


def test_rows_from_before_the_day_of_since_keep_a_key_from_being_erased(
    spark: SparkSession, line: Line
) -> None:
    since = COUNTS.named("counts", since="2024-05-02")
    before = lakes.open_table(line.lake.log("readings")).version
    with pytest.raises(TerminalError, match="'counts' has rows from before its day of since="):
        list(Erasure(spark, line.lake, [since], READINGS, "s1").run())
    assert lakes.open_table(line.lake.log("readings")).version == before, "nothing was changed"


def dies_between_outputs_and_state(line: Line) -> None:
    """Minute 4 closes the windows from minute 2 on; they are in the results, and the state does not know."""

    def die(step: str) -> None:
        if step == "after outputs":
            raise RuntimeError(step)

    for sensor in ("s1", "s2"):
        line.pipe("2024-05-01 12:04:00", sensor)
    line.commit()
    with pytest.raises(RuntimeError, match="after outputs"):
        NodeRunner(line.spark, COUNTS, line.lake, on_step=die).advance()


@pytest.mark.parametrize(
    ("topic", "key", "refusal"),
    [
        (KEYLESS, "s1", "Topic 'keyless' has no key"),
        (PAIRS, "s1", "Topic 'pairs': 's1' is no key of it"),
        (PAIRS, '{"c": 1}', "is no key of it"),
        (PAIRS, '{"a": "x", "b": "much"}', "is no key of it"),
    ],
)
def test_what_is_no_key_of_the_topic_is_refused(
    spark: SparkSession, lake: Lake, topic: hr.Topic, key: str, refusal: str
) -> None:
    with pytest.raises(TerminalError, match=refusal):
        Erasure(spark, lake, [], topic, key)


@pytest.mark.long
def test_a_key_goes_from_a_join_of_a_stream_with_its_own_topic(spark: SparkSession, lake: Lake) -> None:
    again = READINGS.select("sensor_id", "value AS earlier")
    pairs = READINGS.join(again, on="sensor_id", within="1 hour", grace="0 seconds").named("own_pairs")
    line = Line(spark, lake, pairs)
    for minute in (0, 2):
        for sensor in ("s1", "s2"):
            line.pipe(f"2024-05-01 12:{minute:02}:00", sensor, minute)
    line.commit()
    line.fold()
    views = Views(spark, lake)
    assert views.read(pairs).count() == 8
    done = {each.what: each.rows for each in Erasure(spark, lake, [pairs], READINGS, "s1").run()}
    assert done["results"] == 4
    rows = sorted((row["sensor_id"], row["value"], row["earlier"]) for row in views.read(pairs).collect())
    assert rows == [("s2", 0, 0), ("s2", 0, 2), ("s2", 2, 0), ("s2", 2, 2)]
    assert all(verdict.equal for verdict in verify(spark, lake, pairs))


@pytest.mark.long
def test_an_erasure_completes_while_a_node_rests_that_others_read(spark: SparkSession, drive: Drive) -> None:
    """The reader has read as far as the log of the other was promised, and the log of the topic has gone on since."""
    by_minute = COUNTS.as_stream().group_by("sensor_id").aggregate(windows=hr.count()).named("by_minute")
    driver = drive(COUNTS, by_minute)
    for minute in (0, 2, 4):
        for sensor in ("s1", "s2"):
            value = {"sensor_id": sensor, "value": 1.0}
            driver.pipe("readings", key=sensor, value=value, timestamp_ms=1_714_564_800_000 + minute * 60_000)
    driver.cut()
    write_promise(driver._lake.log("readings"), driver.now_ms + 1_000)
    driver.cut()
    driver.advance_wall_clock("2 seconds")
    driver.pipe("readings", key="s1", value={"sensor_id": "s1", "value": 2.0}, timestamp_ms=1_714_565_400_000)
    driver.cut(nodes=["by_minute"])
    driver.erase("readings", "s1")
    driver.cut()
    assert {row["sensor_id"] for row in driver.rows("by_minute")} == {"s2"}
    assert pending(driver._lake) == []


@pytest.mark.long
def test_one_process_erases_key_after_key(spark: SparkSession) -> None:
    """Each erasure replaces the rows of the tables that this very process maintains."""
    driver = TestDriver([READINGS.table().named("latest")], spark)
    for number, gone in enumerate(("a", "b")):
        for sensor in ("a", "b", "c"):
            value = {"sensor_id": sensor, "value": float(number)}
            driver.pipe("readings", key=sensor, value=value, timestamp_ms=1_700_000_000_000 + number)
        driver.cut()
        driver.erase("readings", gone)
    assert {row["sensor_id"] for row in driver.rows("latest")} == {"a", "c"}
    driver.check("latest")
    driver.close()
