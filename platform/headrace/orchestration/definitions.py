"""Descriptions in, Dagster definitions out."""

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition as AssetJob

from headrace.description import Duration, Node, with_unnamed
from headrace.description.limits import is_suppressed
from headrace.orchestration.alerting.alert_channels import AlertChannel
from headrace.orchestration.alerting.alerts import alert_sensor
from headrace.orchestration.assets import streaming_assets, table_asset
from headrace.orchestration.events.finality import final_spec
from headrace.orchestration.jobs.changing import change_jobs
from headrace.orchestration.jobs.limits import limits_job, pause_job, trigger_job
from headrace.orchestration.jobs.upkeep import erasure_job, maintenance_job, retention_job
from headrace.orchestration.keys import ENDS, STREAM_TAG
from headrace.orchestration.pipeline import Pipeline, pipeline_of
from headrace.orchestration.resources import LakeResource, spark_resource
from headrace.orchestration.sensors import keep_running_sensor
from headrace.orchestration.verdicts.checks import checks_of
from headrace.orchestration.verdicts.first_checks import first_checks_sensor
from headrace.quality import Thresholds
from headrace.spark.kafka import KafkaSettings

LAKE = "HEADRACE_LAKE"


def build_definitions(
    nodes: Sequence[Node],
    *,
    partitions_start: str,
    lake_root: str | dg.EnvVar | None = None,
    kafka: KafkaSettings | None = None,
    docs: str | None = None,
    docs_url: str | None = None,
    group: str = "streams",
    stream_name: str = "streams",
    standby: bool = False,
    sensor_running: bool = False,
    first_checks_running: bool = False,
    quality_cron: str = "0 * * * *",
    maintenance_cron: str = "30 3 * * *",
    spark: Mapping[str, str] | None = None,
    thresholds: Mapping[str, Thresholds] | None = None,
    owners: Mapping[str, Sequence[str]] | None = None,
    alerts: Sequence[AlertChannel] = (),
    alerts_running: bool = False,
    stale_after: Duration = "1 hour",
    logs_elsewhere: Sequence[str] = (),
    finals: Mapping[str, Literal["day", "hour"]] | None = None,
) -> dg.Definitions:
    """Make the assets, checks, jobs, sensors and schedules that run and watch topics and nodes.

    In: partitions_start  first day of the result tables, YYYY-MM-DD
        lake_root         where the tables lie, a URI; default $HEADRACE_LAKE
        kafka             default: from $HEADRACE_KAFKA_…, when a run starts
        docs, docs_url    where the quality pages go, and the address that serves them (see LakeResource)
        stream_name       of the stream run; nodes given in one call share one run and one Spark
        standby           whether a second run, `<stream_name>_standby`, waits and takes over when the first one ends
        sensor_running    whether the sensor starts switched on
        first_checks_running  whether the sensor that runs all checks once, after the first data, starts switched on
        quality_cron      when the checks run once their schedule is switched on; maintenance_cron likewise
        spark             more of Spark's configuration
        thresholds        by asset, `log/<topic>` or the node's name: how much is too much, and how bad that is
        logs_elsewhere    topics that another pipeline reads, too, whose call defines their logs as assets: in this code
                          location or in another one. One of all the runs writes such a log; another goes on when it ends
        owners            likewise: teams and e-mail addresses, beside those of a node's description
        alerts            who is told about checks and runs that fail: `SlackAlerts`, `EmailAlerts`, or channels of your own;
                          with `no_result_for="15 minutes"` also about tables that have had no result for so long
        alerts_running    whether the sensor that tells them starts switched on
        stale_after       when logs and streams count as stale if they have reported nothing; after half of it as a warning.
                          A running stream reports every ten minutes, also without records. 0: never
        finals            by a node's name "day" or "hour": the asset `final/<node>` has a partition for each that is final

    Raises: DescriptionError naming the value and the fix
    """
    warnings.filterwarnings("ignore", "Parameter `backfill_policy`", category=dg.BetaWarning)
    pipeline = pipeline_of(
        nodes,
        partitions_start=partitions_start,
        group=group,
        name=stream_name,
        kafka=kafka,
        thresholds=thresholds,
        owners=owners,
        lake_root=lake_root.get_value()
        if isinstance(lake_root, dg.EnvVar)
        else lake_root or os.environ.get(LAKE),
        stale_after=stale_after,
        standby=standby,
        logs_elsewhere=logs_elsewhere,
        finals=finals,
    )
    checks = checks_of(pipeline)
    streams = [_stream_job(pipeline, run) for run in pipeline.runs]
    quality, maintenance = _quality_job(pipeline, checks), maintenance_job(pipeline)
    jobs: list[dg.JobDefinition | AssetJob] = [*streams, _backfill_job(pipeline), quality, maintenance]
    jobs += [erasure_job(pipeline), retention_job(pipeline), *change_jobs(pipeline)]
    jobs += [trigger_job(pipeline), pause_job(pipeline)]
    if any(is_suppressed(node) for node in with_unnamed(pipeline.nodes)):
        jobs.append(limits_job(pipeline))
    told, suffix = [job.name for job in jobs], pipeline.suffix
    alerting = [alert_sensor(f"alerts{suffix}", pipeline, told, alerts, _status(alerts_running))]
    return dg.Definitions(
        assets=[
            streaming_assets(pipeline),
            *(table_asset(node, pipeline) for node in pipeline.nodes),
            *(final_spec(node, pipeline) for node in pipeline.nodes if node.required_name in pipeline.finals),
        ],
        asset_checks=checks,
        jobs=jobs,
        sensors=[
            *(keep_running_sensor(pipeline, job, _status(sensor_running)) for job in streams),
            first_checks_sensor(f"first_checks{suffix}", pipeline, quality, _status(first_checks_running)),
            *(alerting if alerts else ()),
        ],
        schedules=[
            _schedule(quality, quality_cron, "Runs every check of every log and table."),
            _schedule(
                maintenance,
                maintenance_cron,
                "Packs files and deletes those that nobody can read any more.",
            ),
        ],
        resources=_resources(
            lake_root or dg.EnvVar(LAKE), docs, docs_url, tuple(sorted((spark or {}).items()))
        ),
        executor=dg.in_process_executor,  # one process, one JVM: one for each step would cost seconds each
    )


@cache  # Dagster merges definitions whose resources are the same objects
def _resources(
    lake_root: str, docs: str | None, docs_url: str | None, spark: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    lake = LakeResource(root=lake_root, docs=docs, docs_url=docs_url)
    root = lake_root.get_value() if isinstance(lake_root, dg.EnvVar) else lake_root
    return {"lake": lake, "spark": spark_resource(dict(spark), root)}


def _status(running: bool) -> dg.DefaultSensorStatus:
    return dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED


def _schedule(job: dg.JobDefinition | AssetJob, cron: str, description: str) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule", job=job, cron_schedule=cron, description=description
    )


def _stream_job(pipeline: Pipeline, run: str) -> AssetJob:
    takes_over = " It waits while another run has them." if pipeline.standby else ""
    return dg.define_asset_job(
        run,
        dg.AssetSelection.assets(*pipeline.streaming_keys).without_checks(),
        description=f"Runs every log and query in one process until terminated. The sensor starts it.{takes_over}",
        tags={STREAM_TAG: run},
        executor_def=dg.in_process_executor,
    )


def _backfill_job(pipeline: Pipeline) -> AssetJob:
    return dg.define_asset_job(
        f"backfill{pipeline.suffix}",
        dg.AssetSelection.assets(*pipeline.table_keys).without_checks(),
        description="Recomputes days of the tables from the logs and replaces only the rows that differ.",
        tags=ENDS,
        executor_def=dg.in_process_executor,
    )


def _quality_job(pipeline: Pipeline, checks: Sequence[dg.AssetChecksDefinition]) -> AssetJob:
    return dg.define_asset_job(
        f"quality{pipeline.suffix}",
        dg.AssetSelection.checks(*checks),
        description="Runs every check of every log and table and writes their pages.",
        tags=ENDS,
        executor_def=dg.in_process_executor,
    )
