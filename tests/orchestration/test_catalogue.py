"""The catalogue of Dagster: names, addresses, lineage, freshness, and checks that block."""

from __future__ import annotations

import datetime as dt

import pytest
from dagster import AssetSpec, FreshnessPolicy

import headrace as hr
from assets.readings import reading_counts
from headrace.errors import DescriptionError
from headrace.orchestration.assets import streaming_assets, table_asset
from headrace.orchestration.keys import key_of, query_of, stream_key
from headrace.orchestration.pipeline import pipeline_of
from headrace.orchestration.verdicts.checks import checks_of
from headrace.quality import Thresholds
from jobs.definitions import defs

pytestmark = pytest.mark.dagster


def test_the_catalogue_knows_where_tables_lie_of_what_their_columns_are_made_and_when_they_are_stale() -> (
    None
):
    quiet = (
        reading_counts.as_stream()
        .where("n < 4")
        .select("sensor_id", "n + total AS both")
        .named("quiet_sensors")
    )
    pipeline = pipeline_of(
        [reading_counts, quiet], partitions_start="2026-11-01", lake_root="s3://lake/", stale_after="1 hour"
    )
    log, *streams = streaming_assets(pipeline).specs
    (table,), (after,) = table_asset(reading_counts, pipeline).specs, table_asset(quiet, pipeline).specs
    assert log.metadata["dagster/uri"] == "s3://lake/logs/readings"
    assert table.metadata["dagster/uri"] == "s3://lake/tables/reading_counts"
    assert lineage(table) == {
        "sensor_id": [("log/readings", "key")],
        "total": [("log/readings", "value")],
    }
    assert lineage(after) == {
        "sensor_id": [("reading_counts", "sensor_id")],
        "both": [("reading_counts", "n"), ("reading_counts", "total")],
    }
    for spec in (log, *streams):
        assert spec.freshness_policy == FreshnessPolicy.time_window(
            fail_window=dt.timedelta(hours=1), warn_window=dt.timedelta(minutes=30)
        )
    never = pipeline_of([reading_counts], partitions_start="2026-11-01")
    assert {spec.freshness_policy for spec in streaming_assets(never).specs} == {None}


def test_columns_of_merged_branches_are_made_of_those_of_both_sides() -> None:
    """Before: nothing was known of them, nor of a node that reads them."""
    topic = hr.Topic("moves", key="account STRING", value="paid INT, drawn INT")
    drawn = topic.where("drawn > 0").select("account", "drawn AS amount", "account AS who")
    both = topic.select("account", "paid AS amount", "CAST(paid AS STRING) AS who").merge(drawn)
    totals = both.group_by("account").aggregate(total=hr.sum("amount"), last=hr.max("who")).named("totals")
    pipeline = pipeline_of([totals], partitions_start="2026-11-01")
    (table,) = table_asset(totals, pipeline).specs
    assert lineage(table) == {
        "account": [("log/moves", "key")],
        "total": [("log/moves", "value")],
        "last": [("log/moves", "key"), ("log/moves", "value")],
    }


def test_a_time_that_dagster_does_not_take_is_refused_with_one_that_serves() -> None:
    with pytest.raises(DescriptionError, match=r"(?s)stale_after: 1 minute is too short.*'30 minutes'"):
        pipeline_of([reading_counts], partitions_start="2026-11-01", stale_after="1 minute")


def lineage(spec: AssetSpec) -> dict[str, list[tuple[str, str]]]:
    made = spec.metadata["dagster/column_lineage"].deps_by_column
    return {
        name: [(dep.asset_key.to_user_string(), dep.column_name) for dep in deps]
        for name, deps in made.items()
    }


def test_no_two_assets_of_the_demo_bear_the_same_name_in_the_graph() -> None:
    keys = defs.get_repository_def().asset_graph.get_all_asset_keys()
    shown = [key.path[-1] for key in keys]
    assert len(shown) == len(set(shown)), sorted(shown)


def test_a_query_and_its_asset_name_each_other() -> None:
    for query in ("log/a.b", "stream/reading_counts_stream", "stream/a_stream"):
        assert query_of(key_of(query)) == query
    assert key_of("stream/reading_counts_stream") == stream_key(reading_counts)


def test_checks_block_what_is_downstream_where_that_is_asked_for() -> None:
    asked = {
        "reading_counts": Thresholds(blocking=["backfill_equals_stream", "expect_table_row_count_to_equal"])
    }
    pipeline = pipeline_of([reading_counts], partitions_start="2026-11-01", thresholds=asked)
    blocking = [spec.name for checks in checks_of(pipeline) for spec in checks.check_specs if spec.blocking]
    assert blocking == ["backfill_equals_stream"]
