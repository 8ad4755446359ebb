"""Retention of a log as a launched job: each node keeps its balance, then older rows go."""

import datetime as dt

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from headrace.lifecycle.retention import Retention
from headrace.nodes.topics import topic_named
from headrace.orchestration.keys import ENDS, log_key, op_name
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.resources import LakeResource, session


class RetentionConfig(dg.Config):
    """Holds the topic, and the date before which rows of its log go."""

    topic: str = Field(description="The topic whose log is cut, by its name.")
    before: str = Field(
        description="Log commits before this moment are cut off: a date or a time in UTC, such as 2026-10-01."
    )


def retention_job(pipeline: Pipeline, name: str) -> dg.JobDefinition:
    """Make the job that cuts off a log's older rows; the stream may run."""

    @dg.op(name=op_name("retain", pipeline.name), out=dg.Out(dg.Nothing))
    def retain(
        context: dg.OpExecutionContext,
        config: RetentionConfig,
        spark: LazyPySparkResource,
        lake: LakeResource,
    ) -> None:
        topic = topic_named(pipeline.nodes, config.topic)
        work = Retention(session(spark, context.log), lake.lake, pipeline.nodes, topic)
        cut = work.run(utc_ms(config.before), on_stage=context.log.info)
        context.log.info(str(cut))
        context.log_event(dg.AssetObservation(log_key(topic), metadata={"rows cut off": cut.rows}))
        context.add_output_metadata({"cut": str(cut)})

    @dg.job(
        name=name,
        description="Cuts off the rows of a topic's log before a date, once every node has written its opening balance. "
        "The stream may run.",
        tags=ENDS,
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        retain()

    return job


def utc_ms(text: str) -> int:
    """A date or time in UTC, as ISO 8601 writes it, in ms since 1970."""
    at = dt.datetime.fromisoformat(text)
    return round((at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp() * 1000)
