"""The sensor that tells people about checks that fail, runs that fail, and dead letters.

Law: each failure is told once, and its end once. A check that goes on failing is silent; a message that no channel took is
sent again with the next look, for the cursor moves only after all channels took it.

Dead letters: the check `dead_letters_below` of each log says how many there are, and its threshold how many are too many.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status

from headrace.orchestration.alert_channels import AlertChannel
from headrace.orchestration.pipeline import Pipeline

LOOK_EVERY_SECONDS = 30
LINES_MAX = 20
SAID_MAX = 300  # letters of one line


@dataclass
class Cursor:
    """How far failures were told.

    runs_through  storage id of the last failed run; None: the sensor has not looked yet
    failing       the checks that fail, as people read them
    """

    runs_through: int | None = None
    failing: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, text: str | None) -> Cursor:
        """From what `text` gave."""
        document: Mapping[str, Any] = json.loads(text) if text else {}
        return cls(document.get("runs_through"), set(document.get("failing", ())))

    @property
    def text(self) -> str:
        """As Dagster keeps it."""
        return json.dumps({"runs_through": self.runs_through, "failing": sorted(self.failing)})


@dataclass(frozen=True)
class News:
    """What is to be told, and the cursor after it."""

    lines: Sequence[str]
    cursor: Cursor


def alert_sensor(
    name: str,
    pipeline: Pipeline,
    jobs: Sequence[str],
    channels: Sequence[AlertChannel],
    default_status: dg.DefaultSensorStatus,
) -> dg.SensorDefinition:
    """The sensor of one pipeline. In: jobs  whose failures are told."""

    @dg.sensor(
        name=name,
        minimum_interval_seconds=LOOK_EVERY_SECONDS,
        default_status=default_status,
        description="Tells people about checks and runs that fail. A message that could not be sent is sent again.",
    )
    def alert(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        found = news(context.instance, pipeline, jobs, Cursor.of(context.cursor))
        if found.lines:
            subject = (
                f"Headrace: {len(found.lines)} message{'s' * (len(found.lines) > 1)} about {pipeline.name}"
            )
            shown = list(found.lines[:LINES_MAX])
            if len(found.lines) > LINES_MAX:
                shown.append(f"… and {len(found.lines) - LINES_MAX} more: see Dagster.")
            for channel in channels:
                channel.send(subject, shown)
        context.update_cursor(found.cursor.text)
        return dg.SkipReason(
            f"{len(found.lines)} messages were sent." if found.lines else "Nothing new failed."
        )

    return alert


def news(instance: dg.DagsterInstance, pipeline: Pipeline, jobs: Sequence[str], cursor: Cursor) -> News:
    """What has failed, and what has recovered, since a cursor."""
    runs, through = _failed_runs(instance, jobs, cursor.runs_through)
    checks, failing = _checks(instance, pipeline, cursor.failing)
    return News([*runs, *checks], Cursor(through, failing))


def _failed_runs(
    instance: dg.DagsterInstance, jobs: Sequence[str], through: int | None
) -> tuple[list[str], int]:
    """Those after a storage id; the first look tells none, for they may be old."""
    lines, newest = list[str](), through or 0
    for job in jobs:
        filters = dg.RunsFilter(job_name=job, statuses=[dg.DagsterRunStatus.FAILURE])
        for record in instance.get_run_records(filters, limit=LINES_MAX):
            if through is not None and record.storage_id > through:
                lines.append(f"Run {record.dagster_run.run_id[:8]} of job {job} failed.")
            newest = max(newest, record.storage_id)
    return lines, newest


def _checks(
    instance: dg.DagsterInstance, pipeline: Pipeline, failing: set[str]
) -> tuple[list[str], set[str]]:
    keys = [key for keys in pipeline.checks().values() for key in keys]
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    lines, now = list[str](), set(failing)
    for key in keys:
        record, shown = found.get(key), f"{key.asset_key.to_user_string()}: {key.name}"
        if record is None or record.status not in (Status.FAILED, Status.SUCCEEDED):
            continue
        if record.status is Status.FAILED and shown not in failing:
            lines.append(f"{shown} fails. {_said(record)}".strip())
            now.add(shown)
        elif record.status is Status.SUCCEEDED and shown in failing:
            lines.append(f"{shown} holds again.")
            now.discard(shown)
    return lines, now


def _said(record: Any) -> str:
    """What the check says of itself."""
    entry = record.event and record.event.dagster_event
    evaluation = entry and entry.event_specific_data
    return str(getattr(evaluation, "description", None) or "")[:SAID_MAX]
