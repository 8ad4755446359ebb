"""The jobs that change a stream while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from headrace.engine.slices.log_slices import whole_log
from headrace.errors import HeadraceError
from headrace.lake.paths import Lake
from headrace.log.decisions.limits import limits_in
from headrace.orchestration import build_definitions
from headrace.streams.pausing import wishes
from headrace.streams.trigger import trigger_set
from tests.runtime.test_limits import CALM, new_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.dagster, pytest.mark.spark]


def test_limits_and_the_trigger_are_set_by_jobs_and_a_bad_value_leaves_what_was_in_force(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(f"file:{tmp_path}")
    new_log(spark, lake)
    defs = build_definitions([CALM], partitions_start="2026-11-01", lake_root=lake.root)

    def run(job: str, instance: dg.DagsterInstance, **config: Any) -> None:
        op = job.replace("set", "record").replace("pause_node", "record_pause")
        run_config = {"ops": {f"{op}_streams": {"config": config}}}
        defs.resolve_job_def(job).execute_in_process(instance=instance, run_config=run_config)

    with dg.DagsterInstance.ephemeral() as instance:
        run("set_limits", instance, node="calm", time_limit="1 minute", max_records=7)
        for bad in (
            {"node": "calm", "max_records": -1},
            {"node": "loud", "max_records": 1},
            {"node": "calm"},
        ):
            with pytest.raises(HeadraceError):
                run("set_limits", instance, **bad)
        (seen,) = instance.fetch_observations(dg.AssetKey(["stream", "calm_stream"]), limit=10).records
        run("set_trigger", instance, trigger_ms=700)
        with pytest.raises(HeadraceError, match="is not from 50 to"):
            run("set_trigger", instance, trigger_ms=7)
        run("pause_node", instance, node="calm")
        assert wishes(lake).paused == {"calm"}
        run("pause_node", instance, node="calm", paused=False)
        with pytest.raises(HeadraceError, match="There is no node 'loud'"):
            run("pause_node", instance, node="loud")
    assert seen.asset_observation is not None
    shown = {name: value.value for name, value in seen.asset_observation.metadata.items()}
    assert shown["limits in force"] == "time limit 1 minute, max_records 7, max_bytes none"
    assert (shown["suppression_time_limit_seconds"], shown["suppression_max_records"]) == (60.0, 7)
    recorded = limits_in(whole_log(lake.log("visits")).controls())
    assert [entry.limits for entry in recorded] == [{"limit_ms": 60_000, "max_records": 7}]
    assert trigger_set(lake, "streams") == 700
    assert wishes(lake).paused == frozenset()
