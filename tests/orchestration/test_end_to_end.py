"""A pipeline in a real Dagster instance: streamed from a real broker, stopped, backfilled, judged.

The stream runs once for all tests; each test leaves the tables as it found them.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator

import dagster as dg
import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.orchestration.jobs.backfills import logged_progress
from headrace.streams.trigger import set_trigger
from tests.broker.harness import produce
from tests.orchestration.location import OBSERVE_SECONDS
from tests.orchestration.world import HOURS, STREAM, TABLE, World, new_world, two_days

pytestmark = [pytest.mark.dagster, pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

DAYS = ("2024-05-01", "2024-05-02")
RANGE = {"dagster/asset_partition_range_start": DAYS[0], "dagster/asset_partition_range_end": DAYS[1]}
ROWS = {"2024-05-01": 36, "2024-05-02": 72}
ROWS_OF_A_SECOND = 4_000_000  # as the session of tests reads them, which interprets
CHECKS = {
    *("no_log_commit_missing", "no_duplicate_offset", "dead_letters_below"),
    *("every_offset_accounted_for", "windows_are_final", "late_drops_below", "backfill_equals_stream"),
    "stream_is_advancing",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, kafka: Broker) -> Iterator[World]:
    """Two days streamed until all is folded, with another trigger set on the way, then terminated as Dagster does it."""
    topic = f"story-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap_servers, {topic: 3})
    produce(kafka, topic, two_days())
    root = tmp_path_factory.mktemp("world")
    with new_world(root, kafka.bootstrap_servers, topic) as world, world.stream() as stream:

        def all_folded() -> bool:
            seen = world.observations(STREAM)
            days = world.instance.get_materialized_partitions(TABLE)
            return bool(seen) and seen[0]["rows_total"] >= len(two_days()) and set(DAYS) <= days

        stream.until(all_folded)
        set_trigger(world.lake, "streams", 300)
        stream.until(lambda: world.observations(STREAM)[0].get("trigger_seconds") == 0.3)
        world.terminate(stream)
        yield world


def test_a_terminated_run_is_canceled_and_its_assets_are_shown_as_stopped(world: World) -> None:
    (run,) = world.instance.get_runs(dg.RunsFilter(job_name="streams"))
    assert run.status is dg.DagsterRunStatus.CANCELED
    for key in (world.log_key, STREAM):
        assert world.observations(key)[0]["state"] == "stopped"


def test_progress_shows_on_the_page_of_each_asset(world: World) -> None:
    log, stream = world.observations(world.log_key)[0], world.observations(STREAM)[0]
    assert (log["rows_total"], log["dead_letters"]) == (len(two_days()), 1)
    assert (stream["late"], stream["dead_letters"]) == (1, 1)
    running = [seen for seen in world.observations(world.log_key) if seen["state"] == "running"]
    assert any(seen["lag_records"] == 0 for seen in running)
    assert any(seen["rows_per_second"] > 0 for seen in running)
    assert "stream_time" in running[0]


def test_observations_come_by_time_and_not_by_micro_batch(world: World) -> None:
    (record,) = world.instance.get_run_records(dg.RunsFilter(job_name="streams"))
    assert record.end_time is not None
    assert record.start_time is not None
    seconds = record.end_time - record.start_time
    for key in (world.log_key, STREAM):
        assert len(world.observations(key)) <= 4 * seconds / OBSERVE_SECONDS


def test_the_streaming_assets_are_materialized_while_they_run_and_plan_no_check(world: World) -> None:
    for key in (world.log_key, STREAM):
        (newest,) = world.instance.fetch_materializations(key, limit=1).records
        assert newest.run_id == world.instance.get_runs(dg.RunsFilter(job_name="streams"))[0].run_id
    run = world.instance.get_runs(dg.RunsFilter(job_name="streams"))[0]
    planned = world.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED)
    assert not planned


def test_each_day_that_the_stream_has_completed_is_reported_with_its_rows(world: World) -> None:
    reported = {}
    for record in world.instance.fetch_materializations(TABLE, limit=100, ascending=True).records:
        assert record.asset_materialization is not None
        if record.partition_key and "written by" in record.asset_materialization.metadata:
            reported[record.partition_key] = record.asset_materialization.metadata["rows"].value
    assert reported == ROWS


def test_a_backfill_of_equal_days_changes_nothing_and_says_so(world: World, spark: SparkSession) -> None:
    table = DeltaTable.forPath(spark, world.lake.table("reading_counts"))
    before = table.history(1).collect()[0]["version"]
    result = world.run("backfill", RANGE)
    assert result.success
    events = result.asset_materializations_for_node("recompute_reading_counts")
    assert {event.partition for event in events} == set(DAYS)
    (words,) = {str(event.metadata["verdict"].value) for event in events}
    assert words.startswith("**Equal.** 2 days, 108 rows")
    assert "Backfill of" in str(events[0].metadata["plan"].value)
    assert table.history(1).collect()[0]["version"] == before


def test_every_check_passes_and_says_what_it_has_verified(world: World) -> None:
    assert world.run("quality").success
    verdicts = world.evaluations()
    assert verdicts.keys() == CHECKS
    assert {name for name, verdict in verdicts.items() if not verdict.passed} <= {"late_drops_below"}
    for name, verdict in verdicts.items():
        assert verdict.description
        assert name == "stream_is_advancing" or "report" in verdict.metadata


def test_a_changed_row_fails_the_proof_and_a_backfill_mends_it(world: World, spark: SparkSession) -> None:
    table = DeltaTable.forPath(spark, world.lake.table("reading_counts"))
    table.update("sensor_id = 's1' AND to_date(window_start) = '2024-05-02'", {"n": "n + 1"})
    world.run("quality")
    assert not world.evaluations()["backfill_equals_stream"].passed
    result = world.run("backfill", RANGE)
    words = str(
        result.asset_materializations_for_node("recompute_reading_counts")[0].metadata["verdict"].value
    )
    assert "1 of 2 days (2024-05-02)" in words
    assert "replaced in one commit" in words
    assert "sensor_id=s1" in words
    world.run("quality")
    assert world.evaluations()["backfill_equals_stream"].passed


def test_maintenance_packs_files_and_says_so_on_the_page_of_each_asset(
    world: World, spark: SparkSession
) -> None:
    path = world.lake.table(
        "reading_counts"
    )  # the backfill has left one file; somebody rearranges it in three
    rows = spark.read.format("delta").load(path).repartition(3)
    rows.write.format("delta").mode("overwrite").option("dataChange", "false").save(path)
    result = world.run("maintenance")
    assert result.success
    for key in (world.log_key, TABLE):
        told = world.observations(key)[0]
        assert told["files after"] < told["files before"]
    (said,) = (e.step_output_data.metadata for e in result.all_events if e.is_successful_output)
    assert "| results |" in str(said["tables"].value)


def test_a_run_rotates_after_its_time_and_the_next_goes_on_where_it_ended(
    world: World, kafka: Broker, spark: SparkSession
) -> None:
    with world.stream("0.0003") as stream:
        stream.end()
    newest = world.newest_run()
    assert (newest.job_name, newest.status) == ("streams", dg.DagsterRunStatus.SUCCESS)
    results = spark.read.format("delta").load(world.lake.table("reading_counts"))
    assert results.count() == 3 * (HOURS - 1)


def test_a_long_computation_tells_how_far_it_has_come(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO),
        logged_progress(spark, logging.getLogger("backfill"), every_seconds=0.05),
    ):
        spark.range(0, ROWS_OF_A_SECOND, 1, 8).selectExpr("sum(hash(id))").collect()
    assert re.search(r"Spark has finished \d of 8 tasks of the current stages\.", caplog.text)
