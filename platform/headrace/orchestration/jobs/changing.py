"""Change a pipeline under its own names, as launched jobs: one tells the plan, one applies it, one goes back."""

from collections.abc import Sequence

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from headrace.changing.apply_changes import KEPT_HOURS, ApplyChanges
from headrace.changing.plan import HEADS, ChangePlan
from headrace.changing.plan_changes import plan_changes
from headrace.changing.requirements import EMITS, NOTHING
from headrace.changing.roll_back import RESTORED, roll_back
from headrace.log.site import Site
from headrace.observe.long_work import Lines
from headrace.orchestration.jobs.upkeep import job_of
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.resources import LakeResource, session


class ApplyConfig(dg.Config):
    """Holds the settings of an apply."""

    emit: str = Field(
        default=NOTHING,
        description=f"What sinks get: {', '.join(EMITS)}. 'differences' corrects the sinks that can be corrected.",
    )
    keep_hours: float = Field(
        default=KEPT_HOURS, description="How long the former tables are kept, for a rollback."
    )


def change_jobs(pipeline: Pipeline) -> Sequence[dg.JobDefinition]:
    """Make the jobs that plan, apply and undo changes of descriptions."""

    def plan(context: dg.OpExecutionContext, lake: LakeResource) -> None:
        """Shows what happens to each topic and node under the changed description. It changes nothing."""
        found = plan_changes(lake.lake, pipeline.nodes, pipeline.kafka)
        context.log.info(str(found))
        context.add_output_metadata(
            {"plan": dg.MetadataValue.md(as_table(found)), "details": dg.MetadataValue.json(found.to_json())}
        )

    def apply(
        context: dg.OpExecutionContext,
        config: ApplyConfig,
        spark: LazyPySparkResource,
        lake: LakeResource,
    ) -> None:
        """Builds new tables for changed nodes from the log, compares rows, and swaps the tables in.

        Meanwhile a running stream goes on with the old version. After the swap these nodes wait: restart the stream with the
        new code.
        """
        act = ApplyChanges(
            Site(session(spark, context.log), lake.lake),
            pipeline.nodes,
            emit=config.emit,
            kept_hours=config.keep_hours,
            kafka=pipeline.kafka,
        )
        context.log.info(str(act.plan))
        # Dagster keeps what it is told for ever, so it gets no examples of rows: a key that is erased must not stand there.
        shown = Lines(context.log.info)
        act.on_folded = shown.reach
        done = act.run(on_stage=shown.begin).in_words(examples=False)
        context.log.info(done)
        context.add_output_metadata({"plan": dg.MetadataValue.md(as_table(act.plan)), "applied": done})

    def back(context: dg.OpExecutionContext, spark: LazyPySparkResource, lake: LakeResource) -> None:
        """Puts back the tables that the last apply_changes replaced.

        Afterwards these nodes of a running stream wait: restart the stream with the former code.
        """
        nodes = roll_back(session(spark, context.log), lake.lake, nodes=pipeline.nodes)
        context.log.info(f"{', '.join(nodes)}: the former tables are back. Now {RESTORED}")
        context.add_output_metadata({"nodes": ", ".join(nodes)})

    return [
        job_of(pipeline, "plan_changes", "plan", plan),
        job_of(pipeline, "apply_changes", "apply", apply),
        job_of(pipeline, "roll_back_changes", "roll_back", back),
    ]


def as_table(plan: ChangePlan) -> str:
    """Write the plan as a Markdown table."""
    head = "| node | outcome | details |\n| --- | --- | --- |"
    rows = [
        f"| {each.node} | {HEADS[each.outcome]} | {'<br>'.join(str(each).splitlines()[1:]).replace('|', '&#124;')} |"
        for each in plan.nodes
    ]
    topics = [f"| topic {each.topic} | {each.outcome} | {each.detail} |" for each in plan.topics]
    return "\n".join([head, *topics, *rows, "", plan.summary])
