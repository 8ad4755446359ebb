"""The sensor that tells people about checks that fail, runs that fail, dead letters, and tables without results.

Law: each channel is told each failure once, and its end once. A check that goes on failing is silent. A message that a
channel did not take is sent to it again with the next look: each channel has a cursor, which moves after it took a message.

Dead letters: the check `dead_letters_below` of each log says how many there are, and its threshold how many are too many.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import dagster as dg

from headrace.orchestration.alerting.alert_channels import AlertChannel
from headrace.orchestration.alerting.no_results import Silence, lake_of, no_result_ms, silent_tables
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.verdicts.newest_verdicts import Verdict, newest_verdicts

LOOK_EVERY_SECONDS = 30
LINES_MAX = 20
SAID_MAX = 300  # letters of one line
TOLD_MAX = 1_000  # runs that a cursor remembers
OF_ASSETS = "__ASSET_JOB"  # Dagster's job of runs that are launched on the pages of assets, such as backfills


@dataclass
class Cursor:
    """Holds how far failures were told to a channel.

    reported     failed runs, the newest first; None: nobody has looked yet
    failing  the checks that fail, as people read them
    results  each table as of the last look, for a channel with `no_result_for`
    """

    reported: list[str] | None = None
    failing: set[str] = field(default_factory=set)
    results: Mapping[str, Silence] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Cursor:
        """Read the document that `to_json` made."""
        results = {name: Silence(**each) for name, each in document.get("results", {}).items()}
        return cls(document.get("reported"), set(document.get("failing", ())), results)

    def to_json(self) -> dict[str, Any]:
        """Write it as a JSON document."""
        results = {name: asdict(each) for name, each in self.results.items()}
        return {"reported": self.reported, "failing": sorted(self.failing), "results": results}


def cursors_of(text: str | None, channels: int) -> list[Cursor]:
    """Read the cursor of each channel from the text that Dagster keeps."""
    known = json.loads(text).get("channels", ()) if text else ()
    return [Cursor.of(known[number] if number < len(known) else {}) for number in range(channels)]


@dataclass(frozen=True)
class News:
    """Holds the news to tell, and the cursor after it.

    unread  why tables were not looked at; their cursor stays. None: they were, if that was asked for
    """

    lines: Sequence[str]
    cursor: Cursor
    unread: Exception | None = None


def alert_sensor(
    name: str,
    pipeline: Pipeline,
    jobs: Sequence[str],
    channels: Sequence[AlertChannel],
    default_status: dg.DefaultSensorStatus,
) -> dg.SensorDefinition:
    """Make the sensor of alerts of one pipeline. In: jobs  those whose failed runs it tells."""

    @dg.sensor(
        name=name,
        minimum_interval_seconds=LOOK_EVERY_SECONDS,
        default_status=default_status,
        description="Tells people about checks and runs that fail, and tables without results. A message that could not be "
        "sent is sent again.",
    )
    def alert(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        cursors = cursors_of(context.cursor, len(channels))
        refused, unread, sent = list[Exception](), list[Exception](), 0
        for number, channel in enumerate(channels):
            try:
                found = news(context.instance, pipeline, jobs, cursors[number], no_result_ms(channel))
                _send(channel, pipeline.name, found.lines)
            except Exception as error:
                refused.append(error)
            else:
                cursors[number], sent = found.cursor, sent + len(found.lines)
                unread += [found.unread] if found.unread else []
        if len(refused) == len(channels):
            raise refused[0]
        context.update_cursor(json.dumps({"channels": [cursor.to_json() for cursor in cursors]}))
        return dg.SkipReason(_in_words(sent, refused, unread))

    return alert


def _send(channel: AlertChannel, name: str, lines: Sequence[str]) -> None:
    """Send one message with some lines, if there are any. In: name  of the pipeline."""
    if lines:
        shown = list(lines[:LINES_MAX])
        if len(lines) > LINES_MAX:
            shown.append(f"… and {len(lines) - LINES_MAX} more: see Dagster.")
        channel.send(f"Headrace: {len(lines)} message{'s' * (len(lines) > 1)} about {name}", shown)


def _in_words(sent: int, refused: Sequence[Exception], unread: Sequence[Exception]) -> str:
    said = [f"{sent} messages were sent."] if sent else []
    said += [f"A channel gets its message again with the next look: {error}" for error in refused]
    said += [
        f"Whether tables have results is looked up again with the next look: {error}" for error in unread[:1]
    ]
    return " ".join(said) or "Nothing new failed."


def news(
    instance: dg.DagsterInstance,
    pipeline: Pipeline,
    jobs: Sequence[str],
    cursor: Cursor,
    limit_ms: int | None = None,
) -> News:
    """Find the failures and recoveries since a cursor. In: limit_ms  how long a table may be silent; None: for ever."""
    own = {*pipeline.streaming_keys, *pipeline.table_keys}
    runs, told = _failed_runs(instance, jobs, own, cursor.reported)
    checks, failing = _checks(instance, pipeline, cursor.failing)
    lake = None if limit_ms is None else lake_of(pipeline)
    if lake is None or limit_ms is None:
        return News([*runs, *checks], Cursor(told, failing))
    try:
        silent, results = silent_tables(lake, pipeline.nodes, limit_ms, cursor.results)
    except Exception as error:  # the lake is away: the failures, which Dagster keeps, are told without it
        return News([*runs, *checks], Cursor(told, failing, cursor.results), error)
    return News([*runs, *checks, *silent], Cursor(told, failing, results))


def _failed_runs(
    instance: dg.DagsterInstance, jobs: Sequence[str], own: set[dg.AssetKey], reported: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Those that were not told; the first look tells none, for they may be old. A long run fails after younger ones.

    In: own  assets, whose runs are told, too
    """
    lines, failed = list[str](), list[str]()
    for job in (*jobs, OF_ASSETS):
        filters = dg.RunsFilter(job_name=job, statuses=[dg.DagsterRunStatus.FAILURE])
        for run in instance.get_runs(filters, limit=LINES_MAX):
            assets = sorted(key.to_user_string() for key in own & (run.asset_selection or set()))
            if job == OF_ASSETS and not assets:
                continue
            shown = run.run_id[:8]
            failed.append(shown)
            if reported is not None and shown not in reported:
                what = ", ".join(assets) if job == OF_ASSETS else f"job {job}"
                lines.append(f"Run {shown} of {what} failed.")
    return lines, [*dict.fromkeys([*failed, *(reported or ())])][:TOLD_MAX]


def _checks(
    instance: dg.DagsterInstance, pipeline: Pipeline, failing: set[str]
) -> tuple[list[str], set[str]]:
    keys = [key for keys in pipeline.checks().values() for key in keys]
    found = newest_verdicts(instance, keys)
    lines, now = list[str](), set(failing)
    for key in keys:
        verdict, shown = found.get(key), f"{key.asset_key.to_user_string()}: {key.name}"
        if verdict is None or verdict.passed is None:
            continue
        if not verdict.passed and shown not in failing:
            lines.append(f"{shown} fails. {_sentence(verdict)}".strip())
            now.add(shown)
        elif verdict.passed and shown in failing:
            lines.append(f"{shown} holds again.")
            now.discard(shown)
    return lines, now


def _sentence(verdict: Verdict) -> str:
    """Give the check's own sentence."""
    said = verdict.evaluation and verdict.evaluation.description
    return (said or "")[:SAID_MAX]
