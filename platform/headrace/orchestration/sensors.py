"""The sensor that keeps a stream run going, and its rule.

| newest run | then |
| --- | --- |
| none, or SUCCESS (a rotation) | start |
| queued, starting, running, being canceled | leave it |
| running, but silent for a minute, as several looks have found | declare it failed |
| CANCELED since the sensor was switched on | leave it: a person stopped it |
| CANCELED because Dagster goes down (tag `headrace/stopped_by`) | start, but not while it goes down |
| FAILURE | start, after 5 s, 10 s, 20 s … at most 10 minutes |

Switching the sensor off and on forgets cancellations and failures.
"""

import time
from collections.abc import Sequence

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunRecord,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition as AssetJob

from headrace.orchestration.heartbeat import SILENCE_SECONDS_MAX, Silences, read_heartbeat
from headrace.orchestration.keys import SHUTDOWN_TAG, STREAM_TAG
from headrace.orchestration.pipeline import Pipeline

LOOK_EVERY_SECONDS = 10
BACKOFF_SECONDS, BACKOFF_SECONDS_MAX = 5.0, 600.0
HEALTHY_SECONDS = 600.0  # a run that lasted so long before it failed does not add to the back-off
STARTUP_SECONDS_MAX = 180.0  # between STARTED and the first heartbeat
SHUTDOWN_SECONDS = 20.0  # what Dagster is given to be gone after its last stream
RUNS_SEEN = 25
ACTIVE = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
)


def keep_running_sensor(
    pipeline: Pipeline, job: AssetJob, default_status: DefaultSensorStatus
) -> SensorDefinition:
    """Make the sensor that keeps one stream run going. In: job  of that run, one of the pipeline's `runs`."""

    @sensor(
        name=f"keep_{job.name}_running",
        job=job,
        minimum_interval_seconds=LOOK_EVERY_SECONDS,
        default_status=default_status,
        description=(
            "Switch on: the streams run, and start again after a fault or a rotation. "
            "To stop them, terminate the run: it stays stopped until you switch this off and on. "
            "Switching this off alone stops nothing."
        ),
    )
    def keep_running(context: SensorEvaluationContext) -> RunRequest | SkipReason:
        switched_on_at = context.last_sensor_start_time
        silences = Silences(context.cursor)
        decision = supervise(context.instance, pipeline, switched_on_at, time.time(), job.name, silences)
        context.update_cursor(silences.to_text())
        return decision

    return keep_running


def supervise(
    instance: DagsterInstance,
    pipeline: Pipeline,
    switched_on_at: float | None,
    now: float,
    run: str | None = None,
    silences: Silences | None = None,
) -> RunRequest | SkipReason:
    """Decide what the sensor does; times in seconds since 1970.

    In: run       one of the pipeline's; None: the first
        silences  those of the look before; those of this one are added. None: this is the first look
    """
    run, silences = run or pipeline.name, silences or Silences(None)
    filters = RunsFilter(tags={STREAM_TAG: run})
    records = instance.get_run_records(filters, limit=RUNS_SEEN)
    active = [record for record in records if record.dagster_run.status in ACTIVE]
    silent = [record for record in active if _is_silent(instance, record, now, silences)]
    for record in silent:
        instance.report_run_failed(
            record.dagster_run,
            f"No sign of life for {SILENCE_SECONDS_MAX:g} s: its process is gone; nothing is lost.",
        )
    if active:
        newest = active[0].dagster_run
        what = "declared failed, it was silent" if silent else newest.status.value.lower()
        return SkipReason(f"Run {newest.run_id[:8]} is {what}.")
    # A second start may end first.
    ended = sorted(records, key=lambda record: record.end_time or now, reverse=True)
    reason = _reason_to_wait(ended, switched_on_at or 0.0, now)
    return SkipReason(reason) if reason else _start(pipeline, run, records, switched_on_at)


def backoff_seconds(failures: int) -> float:
    """Say how long to wait after so many failures in a row."""
    return min(BACKOFF_SECONDS * 2.0 ** min(failures - 1, 30), BACKOFF_SECONDS_MAX)


def _reason_to_wait(records: Sequence[RunRecord], switched_on_at: float, now: float) -> str | None:
    if not records or (records[0].end_time or now) < switched_on_at:
        return None
    newest = records[0]
    ended_at = newest.end_time or now
    if newest.dagster_run.status is DagsterRunStatus.CANCELED:
        if SHUTDOWN_TAG in newest.dagster_run.tags:
            return "Dagster is going down." if now < _down_until(newest, ended_at) else None
        return (
            f"Run {newest.dagster_run.run_id[:8]} was stopped by a person and stays stopped. "
            "To start again, switch this sensor off and on, or launch the job."
        )
    failures = _failures_in_a_row(records, switched_on_at)
    if not failures:
        return None
    left = ended_at + backoff_seconds(failures) - now
    return f"Failed {failures} time(s) in a row; next start in {left:.0f} s." if left > 0 else None


def _down_until(record: RunRecord, ended_at: float) -> float:
    """When Dagster is gone at last, in seconds since 1970; the tag may say so."""
    told = record.dagster_run.tags[SHUTDOWN_TAG]
    return max(ended_at + SHUTDOWN_SECONDS, float(told) if told.isdecimal() else 0.0)


def _failures_in_a_row(records: Sequence[RunRecord], switched_on_at: float) -> int:
    failures = 0
    for record in records:
        ended_at = record.end_time or 0.0
        if record.dagster_run.status is not DagsterRunStatus.FAILURE or ended_at < switched_on_at:
            break
        failures += 1
        if ended_at - (record.start_time or ended_at) >= HEALTHY_SECONDS:
            break
    return failures


def _is_silent(instance: DagsterInstance, record: RunRecord, now: float, silences: Silences) -> bool:
    if record.dagster_run.status is not DagsterRunStatus.STARTED:
        return False
    run_id = record.dagster_run.run_id
    beat = read_heartbeat(instance, run_id)
    since, patience = (
        (record.start_time or now, STARTUP_SECONDS_MAX) if beat is None else (beat, SILENCE_SECONDS_MAX)
    )
    return now - since > patience and silences.is_sure(run_id, since, now)


def _start(
    pipeline: Pipeline, run: str, records: Sequence[RunRecord], switched_on_at: float | None
) -> RunRequest:
    # Dagster starts one run for each key. The key names the run that was created last, so each start gives the next another
    # one. Which run ended last would not do: that may be noted late, or by a clock that is wrong.
    created_last = records[0].dagster_run.run_id if records else "none"
    return RunRequest(
        run_key=f"{run}:{created_last}:{switched_on_at or 0:.3f}",
        tags={STREAM_TAG: run},
        asset_selection=pipeline.streaming_keys,
        asset_check_keys=[],  # else they are planned, and show "in progress" while the stream runs
    )
