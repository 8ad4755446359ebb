"""Asset checks: the claims of `headrace.quality`, judged apart from the runs that write the tables."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from headrace.description import Node, Topic
from headrace.lifecycle.backfill import verify
from headrace.lifecycle.backfills.backfill_plan import DayVerdict
from headrace.orchestration.keys import log_key, op_name, table_key
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.resources import LakeResource, session
from headrace.orchestration.verdicts.advancing import advancing_checks
from headrace.orchestration.verdicts.mirror_checks import mirror_checks
from headrace.quality import CheckResult, Thresholds, check_log, check_node, log_checks, node_checks
from headrace.writing.leases.lease import LeaseTakenError

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
SEVERITIES = {"error": dg.AssetCheckSeverity.ERROR, "warn": dg.AssetCheckSeverity.WARN}


def checks_of(pipeline: Pipeline) -> list[dg.AssetChecksDefinition]:
    """Make the checks of every log, running query and table of a pipeline."""
    tables = [_log_checks(topic, pipeline) for topic in pipeline.own_topics]
    tables += [_node_checks(node, pipeline) for node in pipeline.nodes]
    return [*tables, *mirror_checks(pipeline), advancing_checks(pipeline)]


def _log_checks(topic: Topic, pipeline: Pipeline) -> dg.AssetChecksDefinition:
    key, thresholds = log_key(topic), pipeline.thresholds_of(log_key(topic))

    @dg.multi_asset_check(
        name=op_name("check", "log", topic.name),
        specs=_specs(key, log_checks(topic), thresholds),
        can_subset=True,
        description=f"Judges the log of topic `{topic.name}`.",
    )
    def check(
        context: dg.AssetCheckExecutionContext, spark: LazyPySparkResource, lake: LakeResource
    ) -> Iterator[dg.AssetCheckResult]:
        started = session(spark, context.log)
        results = check_log(started, lake.lake, topic, lake.docs_folder, thresholds=thresholds)
        yield from _selected(context, results, key, lake)

    return check


def _node_checks(node: Node, pipeline: Pipeline) -> dg.AssetChecksDefinition:
    key, thresholds = table_key(node), pipeline.thresholds_of(table_key(node))

    @dg.multi_asset_check(
        name=op_name("check", node.required_name),
        specs=_specs(key, node_checks(node), thresholds),
        can_subset=True,
        description=f"Judges the results of `{node.required_name}`.",
    )
    def check(
        context: dg.AssetCheckExecutionContext, spark: LazyPySparkResource, lake: LakeResource
    ) -> Iterator[dg.AssetCheckResult]:
        started, days = session(spark, context.log), _days_of_run(context)
        verdicts = _recomputed(started, lake, node, days)
        results = check_node(
            started, lake.lake, node, lake.docs_folder, thresholds=thresholds, verdicts=verdicts
        )
        yield from _selected(context, results, key, lake)

    return check


def _specs(key: dg.AssetKey, claims: Mapping[str, str], thresholds: Thresholds) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(name, asset=key, description=claim, blocking=name in thresholds.blocking)
        for name, claim in claims.items()
    ]


def _days_of_run(context: dg.AssetCheckExecutionContext) -> list[dt.date] | None:
    """The days that this run is about, if it is a backfill; None: all."""
    tags = context.run.tags
    first, last = tags.get(RANGE_START), tags.get(RANGE_END)
    first, last = (first, last) if first and last else (tags.get("dagster/partition"),) * 2
    if not first or not last:
        return None
    start, end = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    return [start + dt.timedelta(days=n) for n in range((end - start).days + 1)]


def _recomputed(
    spark: Any, lake: LakeResource, node: Node, days: Sequence[dt.date] | None
) -> list[DayVerdict] | None:
    """The verdicts on these days; None: `check_node` recomputes, or says why it cannot."""
    try:
        return None if days is None else verify(spark, lake.lake, node, days)
    except LeaseTakenError:  # another backfill of the node is running
        return None


def _selected(
    context: dg.AssetCheckExecutionContext,
    results: Sequence[CheckResult],
    key: dg.AssetKey,
    lake: LakeResource,
) -> Iterator[dg.AssetCheckResult]:
    wanted = {check.name for check in context.selected_asset_check_keys}
    return (as_asset_check(result, key, lake) for result in results if result.name in wanted)


def as_asset_check(result: CheckResult, key: dg.AssetKey, lake: LakeResource) -> dg.AssetCheckResult:
    """Turn a result into Dagster's: the sentence is its description, the page and the numbers are its metadata."""
    page = {} if result.report is None else {"report": lake.page(result.report)}
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=result.name,
        passed=result.passed,
        severity=SEVERITIES[result.severity],
        description=result.sentence,
        metadata={**page, **result.metadata},
    )
