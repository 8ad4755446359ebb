"""Maintenance as a job: packs files, deletes those that nobody reads any more, and says so on each asset's page."""

from collections.abc import Sequence

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from headrace.lifecycle.maintenance import RETENTION_HOURS, Maintenance, Upkept
from headrace.orchestration.keys import ENDS, op_name
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.resources import LakeResource, session

MIB = 1024 * 1024


class MaintenanceConfig(dg.Config):
    """Holds the settings of a maintenance run."""

    compact: bool = Field(default=True, description="Pack small files into larger ones.")
    vacuum: bool = Field(default=True, description="Delete files that left the newest version long ago.")
    retention_hours: float = Field(
        default=RETENTION_HOURS, description="How long ago; at least 48, because a run may still read them."
    )


def maintenance_job(pipeline: Pipeline, name: str) -> dg.JobDefinition:
    """Make the job that maintains every log and table of a pipeline; streams and backfills may run meanwhile."""

    @dg.op(name=op_name("maintain", pipeline.name), out=dg.Out(dg.Nothing))
    def maintain(
        context: dg.OpExecutionContext,
        config: MaintenanceConfig,
        spark: LazyPySparkResource,
        lake: LakeResource,
    ) -> None:
        work = Maintenance(
            session(spark, context.log), lake.lake, pipeline.nodes, retention_hours=config.retention_hours
        )
        done = []
        for each in work.run(compact=config.compact, vacuum=config.vacuum):
            context.log.info(in_words(each))
            done.append(each)
        for asset in dict.fromkeys(each.of for each in done):
            observed = figures([each for each in done if each.of == asset])
            context.log_event(dg.AssetObservation(dg.AssetKey.from_user_string(asset), metadata=observed))
        context.add_output_metadata({"tables": dg.MetadataValue.md(as_table(done))})

    @dg.job(
        name=name,
        description="Packs small files of every log and table and deletes those that nobody can read any more. "
        "The stream and backfills may run meanwhile.",
        tags=ENDS,
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        maintain()

    return job


def in_words(done: Upkept) -> str:
    """Say what was done to a table, in one sentence."""
    if done.skipped is not None:
        return f"{done.of}, {done.what}: left as it is. {done.skipped}"
    freed = done.stored_before.bytes - done.stored_after.bytes
    disk = (
        f"{freed / MIB:,.1f} MiB freed"
        if freed >= 0
        else f"{-freed / MIB:,.1f} MiB more until the old ones are deleted"
    )
    return f"{done.of}, {done.what}: {done.before.files:,} files became {done.after.files:,}; on disk {disk}."


def figures(done: Sequence[Upkept]) -> dict[str, int | str]:
    """Sum the figures of an asset's tables, as its page shows and plots them."""
    skipped = " ".join(dict.fromkeys(each.skipped for each in done if each.skipped))
    return {
        "files before": sum(each.before.files for each in done),
        "files after": sum(each.after.files for each in done),
        "bytes on disk before": sum(each.stored_before.bytes for each in done),
        "bytes on disk after": sum(each.stored_after.bytes for each in done),
        **({"maintenance skipped": skipped} if skipped else {}),
    }


def as_table(done: Sequence[Upkept]) -> str:
    """Write what was done to each table as a Markdown table."""
    head = "| asset | table | files | files after | MiB on disk | MiB after | |\n| --- | --- | --: | --: | --: | --: | --- |"
    return "\n".join([head, *map(_row, done)])


def _row(done: Upkept) -> str:
    disk = (f"{size.bytes / MIB:,.1f}" for size in (done.stored_before, done.stored_after))
    cells = (done.of, done.what, done.before.files, done.after.files, *disk, done.skipped or "")
    return f"| {' | '.join(map(str, cells))} |"
