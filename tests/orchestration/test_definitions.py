"""The graph of assets, jobs, sensors and checks as a snapshot, so that a change shows as a reviewed diff.

`pytest tests/orchestration --snapshot-update` takes it anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetCheckSpec, AssetKey, Definitions
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

import headrace as hr
from assets.readings import reading_counts
from headrace.errors import DescriptionError
from headrace.orchestration import build_definitions
from headrace.orchestration.assets import streaming_assets, table_asset
from headrace.orchestration.events.columns import log_table_schema, result_table_schema
from headrace.orchestration.keys import op_name
from headrace.orchestration.pipeline import pipeline_of
from headrace.orchestration.verdicts.checks import checks_of
from headrace.quality import Thresholds
from jobs.definitions import defs

pytestmark = pytest.mark.dagster

READINGS = hr.Topic("readings", key="sensor STRING", value="value INT", idle_timeout=None)
LINES = hr.Topic("lines", value="text STRING")
ROOT = Path(__file__).resolve().parents[2]
COLUMNS = "dagster/column_schema"


def graph_of(definitions: Definitions) -> dict[str, Any]:
    repository = definitions.get_repository_def()
    graph = repository.asset_graph
    checks = check_specs()
    return {
        "assets": {key.to_user_string(): asset(graph.get(key)) for key in sorted(graph.get_all_asset_keys())},
        "checks": {
            f"{check.key.asset_key.to_user_string()}: {check.key.name}": check.description for check in checks
        },
        "jobs": {job.name: sorted(node.name for node in job.nodes) for job in repository.get_all_jobs()},
        "job tags": {job.name: dict(job.run_tags) for job in repository.get_all_jobs() if job.run_tags},
        "sensors": {sensor.name: sensor.default_status.value for sensor in repository.sensor_defs},
        "schedules": {each.name: str(each.cron_schedule) for each in repository.schedule_defs},
    }


def check_specs() -> list[AssetCheckSpec]:
    pipeline = pipeline_of([reading_counts], partitions_start="2026-11-01")
    return [spec for checks in checks_of(pipeline) for spec in checks.check_specs]


def asset(node: Any) -> dict[str, Any]:
    columns = node.metadata[COLUMNS].columns if COLUMNS in node.metadata else []
    return {
        "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
        "group": node.group_name,
        "kinds": sorted(node.kinds),
        "owners": sorted(node.owners),
        "partitioned": node.is_partitioned,
        "columns": [f"{column.name} {column.type}" for column in columns],
        "description": node.description,
    }


def test_the_graph_of_the_demo_is_as_reviewed(snapshot: SnapshotAssertion) -> None:
    assert graph_of(defs) == snapshot(extension_class=JSONSnapshotExtension)


def test_a_table_says_what_it_is_made_of() -> None:
    (spec,) = table_asset(reading_counts, pipeline_of([reading_counts], partitions_start="2026-11-01")).specs
    assert str(hr.describe(reading_counts)) in str(spec.metadata["made of"].value)
    assert "flowchart LR" in str(spec.metadata["picture"].value)


def test_dagster_knows_logs_and_tables_as_tables_of_delta() -> None:
    pipeline = pipeline_of([reading_counts], partitions_start="2026-11-01")
    specs = [*streaming_assets(pipeline).specs, *table_asset(reading_counts, pipeline).specs]
    named = {spec.key.to_user_string(): spec.metadata.get("dagster/table_name") for spec in specs}
    assert named["log/readings"] == "logs.readings"
    assert named["reading_counts"] == "tables.reading_counts"
    assert {spec.metadata.get("dagster/storage_kind") for spec in specs} == {"delta", None}


def test_the_stream_of_a_node_that_reads_a_node_depends_on_its_stream() -> None:
    quiet = reading_counts.as_stream().where("n < 4").named("quiet_sensors")
    pipeline = pipeline_of([quiet, reading_counts], partitions_start="2026-11-01")
    specs = {spec.key.to_user_string(): spec for spec in streaming_assets(pipeline).specs}
    assert [*specs] == ["log/readings", "stream/quiet_sensors_stream", "stream/reading_counts_stream"]
    assert [dep.asset_key.to_user_string() for dep in specs["stream/quiet_sensors_stream"].deps] == [
        "stream/reading_counts_stream"
    ]


def test_a_stream_with_a_standby_has_two_runs_that_wait_for_each_other_in_no_queue() -> None:
    built = build_definitions([reading_counts], partitions_start="2026-11-01", standby=True)
    graph = graph_of(built)
    assert {"keep_streams_running", "keep_streams_standby_running"} <= graph["sensors"].keys()
    assert graph["jobs"]["streams"] == graph["jobs"]["streams_standby"] == ["host_streams"]
    tags = [graph["job tags"][name]["headrace/stream"] for name in ("streams", "streams_standby")]
    assert tags == ["streams", "streams_standby"]


def test_the_workspace_loads_as_the_webserver_loads_it() -> None:
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "platform")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Validation successful for code location headrace" in done.stdout + done.stderr


def test_what_people_see_has_a_description() -> None:
    repository = defs.get_repository_def()
    graph = repository.asset_graph
    described: list[str | None] = [graph.get(key).description for key in graph.get_all_asset_keys()]
    described += [check.description for check in check_specs()]
    described += [job.description for job in repository.get_all_jobs() if job.name != "__ASSET_JOB"]
    described += [sensor.description for sensor in repository.sensor_defs]
    described += [schedule.description for schedule in repository.schedule_defs]
    assert all(described)


def test_two_nodes_of_one_topic_share_its_log() -> None:
    topic = hr.Topic("visits", key="who STRING", value="seconds BIGINT")
    grouped = topic.group_by("who").window(hr.tumbling("1 hour"), grace=0)
    nodes = [grouped.aggregate(n=hr.count()).named("visits"), grouped.aggregate(n=hr.count()).named("calls")]
    graph = build_definitions(nodes, partitions_start="2026-01-01").get_repository_def().asset_graph
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == {
        *("log/visits", "stream/visits_stream", "stream/calls_stream"),
        *("visits", "calls"),
    }
    assert graph.get(AssetKey(["stream", "calls_stream"])).parent_keys == {AssetKey(["log", "visits"])}


def test_two_pipelines_stand_side_by_side_in_one_code_location() -> None:
    topics = [hr.Topic(name, key="who STRING", value="seconds BIGINT") for name in ("a.b", "a-b")]
    nodes = [
        topic.group_by("who").window(hr.tumbling("1 hour"), grace=0).aggregate(n=hr.count()).named(name)
        for topic, name in zip(topics, ("first", "second"), strict=True)
    ]
    both = Definitions.merge(
        *(
            build_definitions([node], partitions_start="2026-01-01", stream_name=str(node.name))
            for node in nodes
        )
    )
    Definitions.validate_loadable(both)
    assert {sensor.name for sensor in both.get_repository_def().sensor_defs} == {
        *("keep_first_running", "keep_second_running"),
        *("first_checks_first", "first_checks_second"),
    }


def test_pipelines_that_share_a_topic_define_its_log_once() -> None:
    nodes = [READINGS.group_by("sensor").aggregate(n=hr.count()).named(name) for name in ("first", "second")]
    by_name = hr.node("second", schema="sensor STRING, n BIGINT").named("third")
    one = build_definitions([nodes[0]], partitions_start="2026-01-01", stream_name="one")
    other = build_definitions(
        [nodes[1], by_name], partitions_start="2026-01-01", stream_name="other", logs_elsewhere=["readings"]
    )
    both = Definitions.merge(one, other)
    Definitions.validate_loadable(both)
    graph = both.get_repository_def().asset_graph
    log = AssetKey(["log", "readings"])
    assert graph.get(log).child_keys == {
        AssetKey(["stream", f"{name}_stream"]) for name in ("first", "second")
    }
    assert graph.get(AssetKey(["stream", "third_stream"])).parent_keys == {
        AssetKey(["stream", "second_stream"])
    }
    with pytest.raises(DescriptionError, match="logs_elsewhere: no node reads topic 'visits'"):
        build_definitions(nodes, partitions_start="2026-01-01", logs_elsewhere=["visits"])


def test_a_run_hosts_the_logs_that_its_nodes_read_though_they_are_assets_elsewhere() -> None:
    node = READINGS.group_by("sensor").aggregate(n=hr.count()).named("second")
    own = LINES.group_by("text").aggregate(n=hr.count()).named("own")
    pipeline = pipeline_of([node, own], partitions_start="2026-01-01", logs_elsewhere=["readings"])
    keys = [key.to_user_string() for key in pipeline.streaming_keys]
    assert keys == ["log/lines", "stream/second_stream", "stream/own_stream"]
    assert pipeline.hosted(pipeline.streaming_keys) == {
        *("log/lines", "stream/second_stream", "stream/own_stream", "log/readings")
    }
    assert pipeline.hosted([AssetKey(["stream", "own_stream"])]) == {"stream/own_stream"}


def test_names_that_differ_only_in_illegal_characters_stay_different() -> None:
    assert op_name("check", "a.b") != op_name("check", "a-b")
    assert op_name("check", "ab") == "check_ab"


def test_the_catalogue_knows_the_type_of_every_aggregate() -> None:
    topic = hr.Topic("t", key="k STRING", value="small INT, big BIGINT, price DECIMAL(10,2), level DOUBLE")
    node = (
        topic.with_column("twice", "2 * level")
        .group_by("k")
        .window(hr.tumbling("1 hour"), grace=0)
        .aggregate(
            n=hr.count(),
            small=hr.sum("small"),
            big=hr.sum("big"),
            price=hr.sum("price"),
            level=hr.sum("level"),
            lowest=hr.min("price"),
            mean=hr.avg("big"),
            twice=hr.max("twice"),
        )
        .named("n")
    )
    assert [(column.name, column.type) for column in result_table_schema(node).columns] == [
        ("k", "STRING"),
        ("window_start", "TIMESTAMP"),
        ("window_end", "TIMESTAMP"),
        ("n", "BIGINT"),
        ("small", "BIGINT"),
        ("big", "BIGINT"),
        ("price", "DECIMAL(38,2)"),
        ("level", "DOUBLE"),
        ("lowest", "DECIMAL(10,2)"),
        ("mean", "DOUBLE"),
        ("twice", "DOUBLE"),
    ]


def test_a_log_without_keys_has_no_key_column() -> None:
    names = [column.name for column in log_table_schema(hr.Topic("t", value="v INT")).columns]
    assert "key" not in names
    assert "value" in names


def test_thresholds_and_owners_stand_where_the_asset_is_described() -> None:
    severities = {"late_drops_below": "error"}
    pipeline = pipeline_of(
        [reading_counts],
        partitions_start="2026-11-01",
        thresholds={"reading_counts": Thresholds(late_ratio_max=0.2, severities=severities)},
        owners={"log/readings": ["team:factory"], "reading_counts": ["ann@example.com"]},
    )
    table, log = AssetKey(["reading_counts"]), AssetKey(["log", "readings"])
    assert pipeline.thresholds_of(table).severity("late_drops_below") == "error"
    assert pipeline.thresholds_of(log).severity("dead_letters_below") == "warn"
    owners = {
        spec.key.to_user_string(): list(spec.owners)
        for assets in (streaming_assets(pipeline), table_asset(reading_counts, pipeline))
        for spec in assets.specs
    }
    assert owners == {
        "log/readings": ["team:factory"],
        "stream/reading_counts_stream": ["ann@example.com"],
        "reading_counts": ["ann@example.com"],
    }


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"thresholds": {"readings": {}}}, "thresholds: there is no asset 'readings'."),
        (
            {"owners": {"stream/reading_counts_stream": ["ann@example.com"]}},
            "owners: there is no asset 'stream/reading_counts_stream'.",
        ),
        ({"owners": {"log/readings": ["Ann"]}}, "owners: 'Ann' is neither an e-mail address nor a team."),
    ],
)
def test_words_about_what_there_is_not_are_refused(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(DescriptionError, match=f"^{re.escape(says)}"):
        pipeline_of([reading_counts], partitions_start="2026-11-01", **asked)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"late_ratio_max": 5}, "thresholds: late_ratio_max=5 is no ratio from 0 to 1."),
        ({"refused_in_a_row_max": 0}, "thresholds: refused_in_a_row_max=0 is no number of records."),
        ({"severities": {"late_drops": "warn"}}, "thresholds: there is no check 'late_drops'."),
        ({"blocking": ["late_drops"]}, "thresholds: there is no check 'late_drops'."),
        (
            {"severities": {"late_drops_below": "bad"}},
            "thresholds: severity 'bad' of late_drops_below is neither 'error' nor 'warn'.",
        ),
    ],
)
def test_thresholds_that_mean_nothing_are_refused(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(DescriptionError, match=f"^{re.escape(says)}"):
        Thresholds(**asked)


def test_a_step_without_a_name_is_no_asset() -> None:
    words = (
        READINGS.flat_map("split(sensor, ' ') AS word")
        .group_by("word")
        .aggregate(n=hr.count())
        .named("words")
    )
    graph = build_definitions([words], partitions_start="2026-11-01").get_repository_def().asset_graph
    keys = {key.to_user_string() for key in graph.get_all_asset_keys()}
    assert keys == {"log/readings", "stream/words_stream", "words"}
    assert graph.get(AssetKey(["stream", "words_stream"])).parent_keys == {AssetKey(["log", "readings"])}
