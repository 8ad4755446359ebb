"""Changing a stream that runs, as jobs: limits of a suppression (control rows of the log), the trigger interval, pauses."""

import datetime as dt
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from headrace.description import is_unnamed, with_unnamed
from headrace.description.limits import is_suppressed, limits_asked, limits_in_words, limits_of, suppressed_at
from headrace.errors import DescriptionError
from headrace.lifecycle.live_limits import limits_known, limits_shown, set_limits
from headrace.log.decisions.limits import LimitsSet
from headrace.orchestration.jobs.upkeep import job_of
from headrace.orchestration.keys import stream_key
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.resources import LakeResource, session
from headrace.streams.pausing import pause, resume
from headrace.streams.trigger import set_trigger


class LimitsConfig(dg.Config):
    """Holds the limits that change; those that are not given stay as they are."""

    node: str = Field(
        description="The name of the suppressed node, or of one that reads a suppressed step without a name."
    )
    time_limit: str | None = Field(default=None, description="How long a wait lasts, as '5 minutes'.")
    max_records: int | None = Field(
        default=None, description="How many keys (with windows: keys and windows) may wait; 0: no bound."
    )
    max_bytes: int | None = Field(default=None, description="How many bytes may wait; 0: no bound.")


def limits_job(pipeline: Pipeline) -> dg.JobDefinition:
    """Make the job that sets limits of a suppression, whether its stream runs or not."""

    def record(
        context: dg.OpExecutionContext,
        config: LimitsConfig,
        spark: LazyPySparkResource,
        lake: LakeResource,
    ) -> None:
        """Sets the time limit or the bounds of a suppression.

        A control row of the log records them, and they are in force from that row on. The stream may run.
        """
        nodes = {node.required_name: node for node in with_unnamed(pipeline.nodes)}
        if config.node not in nodes:
            known = [name for name, node in nodes.items() if is_suppressed(node) and not is_unnamed(name)]
            raise DescriptionError(
                f"There is no suppressed node {config.node!r}.",
                hint=f"There are: {', '.join(known) or 'none'}.",
            )
        node = suppressed_at(nodes[config.node])
        asked = limits_asked(config.time_limit, config.max_records, config.max_bytes)
        started = session(spark, context.log)
        entry = set_limits(started, lake.lake, node, asked)
        policy, entries = limits_known(lake.lake, node)
        context.log.info(f"{config.node}: {limits_in_words(entry.limits)}, from {_at(entry)} on.")
        figures: dict[str, Any] = {
            "limits in force": limits_in_words(limits_of(policy)),
            "limits set": dg.MetadataValue.md(_as_table(entries)),
            **limits_shown(policy),
        }
        if not is_unnamed(node.required_name):  # a step without a name is no asset
            context.log_event(dg.AssetObservation(stream_key(node), metadata=figures))
        context.add_output_metadata(figures)

    return job_of(pipeline, "set_limits", "record_limits", record)


class TriggerConfig(dg.Config):
    """Holds how often the queries of a stream work."""

    trigger_ms: int = Field(
        description="The shortest time between two micro-batches of a query; 0: as the stream run's configuration says."
    )


def trigger_job(pipeline: Pipeline) -> dg.JobDefinition:
    """Make the job that sets the trigger interval of a stream, whether it runs or not."""

    def record(
        context: dg.OpExecutionContext,
        config: TriggerConfig,
        lake: LakeResource,
    ) -> None:
        """Sets the shortest time between two micro-batches.

        A running stream follows within seconds. No result depends on it.
        """
        set_trigger(lake.lake, pipeline.name, config.trigger_ms)
        context.log.info(f"Stream '{pipeline.name}': trigger_ms {config.trigger_ms or 'as configured'}.")

    return job_of(pipeline, "set_trigger", "record_trigger", record)


class PauseConfig(dg.Config):
    """Holds which node rests, or goes on."""

    node: str = Field(description="The name of the node.")
    paused: bool = Field(default=True, description="True: pause the node; False: resume it.")


def pause_job(pipeline: Pipeline) -> dg.JobDefinition:
    """Make the job that lets one node of a stream rest, or go on, whether the stream runs or not."""

    def record(
        context: dg.OpExecutionContext,
        config: PauseConfig,
        lake: LakeResource,
    ) -> None:
        """Pauses one node while the others of its stream go on, or resumes it.

        A running stream follows within seconds; a restart keeps the pause. No record is lost, because the logs go on.
        """
        names = [node.required_name for node in pipeline.nodes]
        if config.node not in names:
            raise DescriptionError(
                f"There is no node {config.node!r}.", hint=f"There are: {', '.join(names)}."
            )
        if config.paused:
            pause(lake.lake, config.node)
        else:
            resume(lake.lake, config.node)
        context.log.info(f"Node '{config.node}' {'rests' if config.paused else 'goes on'}.")

    return job_of(pipeline, "pause_node", "record_pause", record)


def _at(entry: LimitsSet) -> str:
    return dt.datetime.fromtimestamp(entry.ingested_at_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")


def _as_table(entries: list[LimitsSet]) -> str:
    rows = (f"| {_at(entry)} | {limits_in_words(entry.limits)} |" for entry in entries)
    return "\n".join(["| from ingested_at | limits |", "| --- | --- |", *rows])
