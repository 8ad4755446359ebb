"""All checks run once by themselves, when all streams have written something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dagster import AssetMaterialization, DagsterInstance, RunRequest, SkipReason

import headrace as hr
from headrace.orchestration import build_definitions
from headrace.orchestration.pipeline import Pipeline, pipeline_of
from headrace.orchestration.verdicts.first_checks import decide

pytestmark = pytest.mark.dagster

VISITS = hr.Topic("visits", key="who STRING", value="seconds BIGINT")
NODE = VISITS.group_by("who").aggregate(n=hr.count()).named("counts")
STREAMS = "log/visits", "stream/counts_stream"


@pytest.fixture(name="instance")
def new_instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture(name="pipeline")
def new_pipeline() -> Pipeline:
    return pipeline_of([NODE], partitions_start="2026-11-01")


def wrote(instance: DagsterInstance, *assets: str) -> None:
    for asset in assets:
        instance.report_runless_asset_event(AssetMaterialization(asset.split("/")))


def test_it_waits_until_all_streams_have_written(instance: DagsterInstance, pipeline: Pipeline) -> None:
    wrote(instance, "log/visits")
    found = decide(instance, pipeline, "quality")
    assert isinstance(found, SkipReason)
    assert found.skip_message == "Not written yet: stream/counts_stream."


def test_it_asks_for_one_run(instance: DagsterInstance, pipeline: Pipeline) -> None:
    wrote(instance, *STREAMS)
    asked = [decide(instance, pipeline, "quality") for _ in range(2)]
    assert all(isinstance(each, RunRequest) for each in asked)
    assert len({each.run_key for each in asked if isinstance(each, RunRequest)}) == 1


def test_checks_that_have_run_are_left_to_the_schedule(instance: DagsterInstance, pipeline: Pipeline) -> None:
    wrote(instance, *STREAMS)
    defs = build_definitions([NODE], partitions_start="2026-11-01", lake_root="file:/nowhere")
    instance.create_run_for_job(defs.resolve_job_def("quality"))
    assert isinstance(decide(instance, pipeline, "quality"), SkipReason)
