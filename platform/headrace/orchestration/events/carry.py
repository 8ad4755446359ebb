"""Materialize an asset without hiding what its checks said.

Dagster shows a check as "not evaluated" once its asset has a newer materialization. A stream's only says
that rows were added, so a verdict that was current before is reported again for the new one, with the time at
which it was reached. A backfill's carries nothing: it may have changed rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import AssetCheckEvaluation, MetadataValue
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)

from headrace.orchestration.verdicts.newest_verdicts import newest_verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster import (
        AssetCheckKey,
        AssetCheckResult,
        AssetExecutionContext,
        AssetKey,
        AssetMaterialization,
        DagsterInstance,
        EventLogRecord,
    )

    from headrace.orchestration.verdicts.newest_verdicts import Verdict

EVALUATED_AT = "evaluated_at"


def materialize(
    context: AssetExecutionContext, materialization: AssetMaterialization, checks: Sequence[AssetCheckKey]
) -> None:
    """Report a materialization from a running stream and carry the current verdicts of these checks over."""
    instance, key = context.instance, materialization.asset_key
    before = _latest(instance, key)
    latest = newest_verdicts(instance, checks).values()
    current = [verdict for verdict in latest if _is_current(verdict, before)]
    context.log_event(materialization)
    after = _latest(instance, key)
    if after is not None:
        for verdict in current:
            instance.report_runless_asset_event(_carried(verdict, after))


def evaluation_of_newest(instance: DagsterInstance, result: AssetCheckResult) -> AssetCheckEvaluation:
    """A verdict to report from outside a step, on the newest materialization of its asset if there is any."""
    assert result.asset_key is not None
    assert result.check_name is not None
    newest = _latest(instance, result.asset_key)
    return AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=result.metadata,
        target_materialization_data=None if newest is None else _target(newest),
    )


def _target(materialized: EventLogRecord) -> Target:
    return Target(
        storage_id=materialized.storage_id, run_id=materialized.run_id, timestamp=materialized.timestamp
    )


def _latest(instance: DagsterInstance, key: AssetKey) -> EventLogRecord | None:
    records = instance.fetch_materializations(key, limit=1).records
    return records[0] if records else None


def _is_current(verdict: Verdict, before: EventLogRecord | None) -> bool:
    if verdict.evaluation is None:
        return False  # planned, and not run yet
    if before is None or before.run_id == verdict.run_id:
        return True
    target = verdict.evaluation.target_materialization_data
    if target is None:
        return before.timestamp < verdict.noted_at
    return bool(target.storage_id == before.storage_id)


def _carried(verdict: Verdict, after: EventLogRecord) -> AssetCheckEvaluation:
    evaluation = verdict.evaluation
    assert evaluation is not None
    reached = {EVALUATED_AT: MetadataValue.timestamp(verdict.noted_at)}
    return AssetCheckEvaluation(
        asset_key=evaluation.asset_key,
        check_name=evaluation.check_name,
        passed=evaluation.passed,
        severity=evaluation.severity,
        description=evaluation.description,
        metadata=reached | dict(evaluation.metadata),
        target_materialization_data=_target(after),
    )
