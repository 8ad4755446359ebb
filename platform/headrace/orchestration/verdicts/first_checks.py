"""The sensor that runs all checks once, when all streams have written something for the first time.

A new pipeline thus has verdicts and report pages soon after its first records. From then on the schedule runs the checks.
"""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition as AssetJob

from headrace.orchestration.pipeline import Pipeline

LOOK_EVERY_SECONDS = 15


def first_checks_sensor(
    name: str, pipeline: Pipeline, quality: AssetJob, default_status: dg.DefaultSensorStatus
) -> dg.SensorDefinition:
    """Make the sensor that runs all checks once after the first data.

    In: quality  the job that runs every check
    """

    @dg.sensor(
        name=name,
        job=quality,
        minimum_interval_seconds=LOOK_EVERY_SECONDS,
        default_status=default_status,
        description=(
            f"Runs the job `{quality.name}` once, when all streams have written something for the first time. "
            "After that, the schedule of the job runs the checks."
        ),
    )
    def check_first(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return decide(context.instance, pipeline, quality.name)

    return check_first


def decide(instance: dg.DagsterInstance, pipeline: Pipeline, job: str) -> dg.RunRequest | dg.SkipReason:
    """Ask for the run, or say why not.

    In: job  the name of the job that runs every check
    """
    if instance.get_runs(dg.RunsFilter(job_name=job), limit=1):
        return dg.SkipReason("The checks have run before; the schedule runs them from now on.")
    keys = sorted(pipeline.streaming_keys, key=dg.AssetKey.to_user_string)
    waiting = [key.to_user_string() for key in keys if instance.get_latest_materialization_event(key) is None]
    if waiting:
        return dg.SkipReason(f"Not written yet: {', '.join(waiting)}.")
    return dg.RunRequest(run_key=f"{pipeline.name}:first")
