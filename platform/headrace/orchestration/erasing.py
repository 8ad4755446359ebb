"""Erasure of a key as a launched job; it says of each table what is gone."""

from collections.abc import Sequence

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from headrace.lifecycle.erasure import Erased, Erasure, until_vacuum
from headrace.nodes.topics import topic_named
from headrace.orchestration.keys import ENDS, op_name
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.resources import LakeResource, session


class ErasureConfig(dg.Config):
    """Holds the topic and the key whose records go."""

    topic: str = Field(description="The topic whose records are erased, by its name.")
    key: str = Field(
        description="Their key: the text of a one-column STRING key, else a JSON object of the key's columns. This run's "
        "config contains it: delete the run afterwards if the key itself must not stay."
    )


def erasure_job(pipeline: Pipeline, name: str) -> dg.JobDefinition:
    """Make the job that erases a key's records; the stream may run."""

    @dg.op(name=op_name("erase", pipeline.name), out=dg.Out(dg.Nothing))
    def erase(
        context: dg.OpExecutionContext,
        config: ErasureConfig,
        spark: LazyPySparkResource,
        lake: LakeResource,
    ) -> None:
        topic = topic_named(pipeline.nodes, config.topic)
        work = Erasure(session(spark, context.log), lake.lake, pipeline.nodes, topic, config.key)
        done = []
        for each in work.run():
            context.log.info(str(each))
            done.append(each)
        context.log.info(until_vacuum())
        context.add_output_metadata(
            {"tables": dg.MetadataValue.md(as_table(done)), "older versions": until_vacuum()}
        )

    @dg.job(
        name=name,
        description="Erases the records of one key from a topic's log and from every table that is made of them. The "
        "stream may run: its nodes rest for a moment.",
        tags=ENDS,
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        erase()

    return job


def as_table(done: Sequence[Erased]) -> str:
    """Write what was done to each table as a Markdown table."""
    head = "| asset | table | rows | |\n| --- | --- | --: | --- |"
    return "\n".join([head, *(f"| {d.of} | {d.what} | {_number(d)} | {d.note} |" for d in done)])


def _number(done: Erased) -> str:
    return "" if done.rows is None else f"{done.rows:,}"
