"""Care of a lake as launched jobs: maintenance, retention of logs, erasure of a key. Each says what it did."""

import datetime as dt
from collections.abc import Callable, Sequence

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from headrace.description.epoch_time import milliseconds
from headrace.lifecycle.erasure import Erased, Erasure, until_vacuum
from headrace.lifecycle.maintenance import RETENTION_HOURS, Maintenance, Upkept
from headrace.lifecycle.retention import Retention
from headrace.nodes.descriptions.topics import topic_named
from headrace.observe.long_work import Lines
from headrace.orchestration.keys import ENDS, log_key, op_name
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.resources import LakeResource, session

MIB = 1024 * 1024


def job_of(pipeline: Pipeline, name: str, op: str, work: Callable[..., None]) -> dg.JobDefinition:
    """Make a job of one op, in one process. In: work  takes what Dagster gives by type; its docstring describes the job."""
    run = dg.op(name=op_name(op, pipeline.name), out=dg.Out(dg.Nothing))(work)
    words = " ".join((work.__doc__ or "").split())

    @dg.job(
        name=f"{name}{pipeline.suffix}", description=words, tags=ENDS, executor_def=dg.in_process_executor
    )
    def job() -> None:
        run()

    return job


class MaintenanceConfig(dg.Config):
    """Holds the settings of a maintenance run."""

    compact: bool = Field(default=True, description="Pack small files into larger ones.")
    vacuum: bool = Field(default=True, description="Delete files that left the newest version long ago.")
    retention_hours: float = Field(
        default=RETENTION_HOURS, description="How long ago; at least 48, because a run may still read them."
    )


def maintenance_job(pipeline: Pipeline) -> dg.JobDefinition:
    """Make the job that maintains every log and table of a pipeline; streams and backfills may run meanwhile."""

    def maintain(
        context: dg.OpExecutionContext,
        config: MaintenanceConfig,
        spark: LazyPySparkResource,
        lake: LakeResource,
    ) -> None:
        """Packs small files of every log and table and deletes those that nobody can read any more.

        The stream and backfills may run meanwhile.
        """
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

    return job_of(pipeline, "maintenance", "maintain", maintain)


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


class RetentionConfig(dg.Config):
    """Holds the topic, and the date before which rows of its log go."""

    topic: str = Field(description="The topic whose log is cut, by its name.")
    before: str = Field(
        description="Log commits before this moment are cut off: a date or a time in UTC, such as 2026-10-01."
    )


def retention_job(pipeline: Pipeline) -> dg.JobDefinition:
    """Make the job that cuts off a log's older rows; the stream may run."""

    def retain(
        context: dg.OpExecutionContext,
        config: RetentionConfig,
        spark: LazyPySparkResource,
        lake: LakeResource,
    ) -> None:
        """Cuts off the rows of a topic's log before a date, once every node has written its opening balance.

        The stream may run.
        """
        topic = topic_named(pipeline.nodes, config.topic)
        work = Retention(session(spark, context.log), lake.lake, pipeline.nodes, topic)
        shown = Lines(context.log.info)
        cut = work.run(utc_ms(config.before), on_stage=shown.begin, on_folded=shown.reach)
        context.log.info(str(cut))
        context.log_event(dg.AssetObservation(log_key(topic), metadata={"rows cut off": cut.rows}))
        context.add_output_metadata({"cut": str(cut)})

    return job_of(pipeline, "retain_log", "retain", retain)


def utc_ms(text: str) -> int:
    """A date or time in UTC, as ISO 8601 writes it, in ms since 1970."""
    return milliseconds(dt.datetime.fromisoformat(text))


class ErasureConfig(dg.Config):
    """Holds the topic and the key whose records go."""

    topic: str = Field(description="The topic whose records are erased, by its name.")
    key: str = Field(
        description="Their key: the text of a one-column STRING key, else a JSON object of the key's columns. This run's "
        "config contains it: delete the run afterwards if the key itself must not stay."
    )


def erasure_job(pipeline: Pipeline) -> dg.JobDefinition:
    """Make the job that erases a key's records; the stream may run."""

    def erase(
        context: dg.OpExecutionContext,
        config: ErasureConfig,
        spark: LazyPySparkResource,
        lake: LakeResource,
    ) -> None:
        """Erases the records of one key from a topic's log and from every table that is made of them.

        The stream may run: its nodes rest for a moment.
        """
        topic = topic_named(pipeline.nodes, config.topic)
        work = Erasure(session(spark, context.log), lake.lake, pipeline.nodes, topic, config.key)
        done, shown = [], Lines(context.log.info)
        for each in work.run(on_stage=shown.begin, on_folded=shown.reach):
            context.log.info(str(each))
            done.append(each)
        context.log.info(until_vacuum())
        context.add_output_metadata(
            {"tables": dg.MetadataValue.md(erased_table(done)), "older versions": until_vacuum()}
        )

    return job_of(pipeline, "erase_key", "erase", erase)


def erased_table(done: Sequence[Erased]) -> str:
    """Write what was done to each table as a Markdown table."""
    head = "| asset | table | rows | |\n| --- | --- | --: | --- |"
    return "\n".join([head, *(f"| {d.of} | {d.what} | {_number(d)} | {d.note} |" for d in done)])


def _number(done: Erased) -> str:
    return "" if done.rows is None else f"{done.rows:,}"
