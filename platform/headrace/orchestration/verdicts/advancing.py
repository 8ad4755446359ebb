"""The check `stream_is_advancing` of logs and running queries: fails within a minute when one is behind and stands still.

The run itself judges, in the thread of its heartbeat: a hanging query, or a hanging loop around the queries, cannot keep
it from saying so. A run that is gone is found by the sensor. A verdict is reported when it changes, and noted so that the
check can be executed by itself at any time, without Spark.
"""

import json
import time
from collections.abc import Collection, Iterator, Sequence

import dagster as dg
import structlog

from headrace.observe.stall import StallWatch
from headrace.orchestration.events.carry import evaluation_of_newest
from headrace.orchestration.keys import ADVANCING, STREAM_TAG, key_of, op_name, query_of
from headrace.orchestration.pipeline import Pipeline
from headrace.streams.status.stream_status import StreamStatus

logger = structlog.get_logger(__name__)
CLAIM = "Whenever there is something to read, the query commits within a minute."
ADVANCES = "It advances, or has nothing to do."
ACTIVE = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]


class AdvanceReporter:
    """Reports the verdict on each asset of one run when it changes."""

    def __init__(self, instance: dg.DagsterInstance, run_id: str, watch: StallWatch | None = None) -> None:
        """Nothing is known before `see`."""
        self._instance, self._run_id = instance, run_id
        self._watch = watch or StallWatch(began=time.monotonic())
        self._reported: dict[str, str | None] = {}

    def see(self, statuses: Sequence[StreamStatus]) -> None:
        """Keep the statuses of a poll."""
        self._watch.see(statuses, time.monotonic())

    def report(self) -> None:
        """Judge now; the heartbeat calls this. Never raises: what Dagster did not take is told with the next call."""
        for asset, wrong in self._watch.verdicts(time.monotonic()).items():
            known = self._reported.get(asset, "")
            if wrong is not None and known:
                continue  # it was told; its seconds alone have changed
            if wrong == known:
                continue
            try:
                _note(self._instance, self._run_id, asset, wrong)
                self._instance.report_runless_asset_event(
                    evaluation_of_newest(self._instance, _result(asset, wrong))
                )
            except Exception as error:
                logger.warning("verdict not reported, will be tried again", asset=asset, error=str(error))
            else:
                self._reported[asset] = wrong


def advancing_checks(pipeline: Pipeline) -> dg.AssetChecksDefinition:
    """Make the check of every log and running query of a pipeline, to be executed by itself."""
    keys = pipeline.streaming_keys

    @dg.multi_asset_check(
        name=op_name("check", "advancing", pipeline.name),
        specs=[dg.AssetCheckSpec(ADVANCING, asset=key, description=CLAIM) for key in keys],
        can_subset=True,
        description="Says whether the running queries advance; needs no Spark.",
    )
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        filters = dg.RunsFilter(tags={STREAM_TAG: list(pipeline.runs)}, statuses=ACTIVE)
        running = {run.run_id for run in context.instance.get_runs(filters, limit=len(pipeline.runs))}
        for key in sorted(wanted.asset_key for wanted in context.selected_asset_check_keys):
            asset = query_of(key)
            if not running:
                yield _result(asset, None, "It does not run: nothing can stand still.")
            else:
                yield _result(asset, _noted(context.instance, running, asset))

    return check


def _result(asset: str, wrong: str | None, fine: str = ADVANCES) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key_of(asset),
        check_name=ADVANCING,
        passed=wrong is None,
        severity=dg.AssetCheckSeverity.ERROR,
        description=wrong or fine,
    )


def _note(instance: dg.DagsterInstance, run_id: str, asset: str, wrong: str | None) -> None:
    """Note the newest verdict; Dagster has no way to delete a key, so there is none for each run."""
    instance.daemon_cursor_storage.set_cursor_values(
        {_key(asset): json.dumps({"run": run_id, "wrong": wrong})}
    )


def _noted(instance: dg.DagsterInstance, running: Collection[str], asset: str) -> str | None:
    """The fault that one of these runs has noted; None: there is none."""
    text = instance.daemon_cursor_storage.get_cursor_values({_key(asset)}).get(_key(asset))
    noted = json.loads(text) if text else {}
    wrong: str | None = noted.get("wrong") if noted.get("run") in running else None
    return wrong


def _key(asset: str) -> str:
    return f"headrace/advancing/{asset}"
