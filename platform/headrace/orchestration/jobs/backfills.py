"""The body of a backfill: say the plan, run it stage by stage, report each day and the verdict in words."""

import datetime as dt
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field
from pyspark.sql import SparkSession

from headrace.description import Node
from headrace.lifecycle.backfill import Backfill
from headrace.lifecycle.backfills.backfill_plan import STAGES, DayVerdict
from headrace.lifecycle.backfills.sink_corrections import SinkVerdict
from headrace.observe.long_work import Lines
from headrace.orchestration.keys import DATA_VERSION_TAG
from headrace.orchestration.resources import LakeResource, session

DAYS_SHOWN, DAYS_NAMED = 60, 10
EVERY_SECONDS = 10.0


class BackfillConfig(dg.Config):
    """Holds the settings of a backfill: whether it replaces the rows that differ."""

    swap: bool = Field(
        default=True, description="Replace the rows that differ; false: compare only, change nothing."
    )


def backfill(
    context: dg.AssetExecutionContext,
    node: Node,
    config: BackfillConfig,
    spark: LazyPySparkResource,
    lake: LakeResource,
) -> dg.MaterializeResult[None]:
    """Recompute the run's days from the log beside the table, and swap in what differs."""
    dated = node.day_column is not None
    days = [dt.date.fromisoformat(key) for key in context.partition_keys] if dated else None
    started = session(spark, context.log)
    work = Backfill(started, lake.lake, node, days)
    plan = work.plan().explain()
    context.log.info(_unmarked(plan))

    shown = Lines(context.log.info)

    def on_stage(stage: str) -> None:
        shown.begin(f"Stage {STAGES.index(stage) + 1} of {len(STAGES)}: {stage}.")

    with logged_progress(started, context.log):
        verdicts = work.run(swap=config.swap, on_stage=on_stage, on_folded=shown.reach)
    for verdict in verdicts:
        key = verdict.day.isoformat() if verdict.day else None
        context.add_asset_metadata(metadata=_figures(verdict), partition_key=key)
    words = in_words(verdicts, work.sinks)
    context.log.info(_unmarked(words))
    return dg.MaterializeResult(
        metadata={
            "verdict": dg.MetadataValue.md(words),
            "days": dg.MetadataValue.md(as_table(verdicts)),
            "plan": dg.MetadataValue.md(plan),
        },
        tags={DATA_VERSION_TAG: node.fingerprint()[:12]},
    )


def in_words(verdicts: Sequence[DayVerdict], sinks: Sequence[SinkVerdict] = ()) -> str:
    """Say whether the table was what its log gives, what was done, also in sinks, and which rows differ first."""
    different = [verdict for verdict in verdicts if not verdict.equal]
    if not different:
        rows = sum(verdict.rows_stored for verdict in verdicts)
        held = f"{_days(len(verdicts))}, {rows:,} rows: the log gives exactly what the table held."
        return f"**Equal.** {held} Nothing was changed."
    rows = sum(verdict.rows_differing for verdict in different)
    swapped = any(verdict.swapped for verdict in different)
    done = "They were replaced in one commit." if swapped else "They were left as they were."
    named = ", ".join(verdict.what for verdict in different[:DAYS_NAMED])
    more = f" and {len(different) - DAYS_NAMED} more" if len(different) > DAYS_NAMED else ""
    first = (
        f"**Different.** {len(different)} of {_days(len(verdicts))} ({named}{more}), {rows:,} rows. {done}"
    )
    examples = [f"- {words}" for verdict in different for words in verdict.first_differences]
    of_sinks = [f"- {sink.in_words}" for sink in sinks]
    return "\n".join([first, "", *of_sinks, *examples[:DAYS_NAMED]])


def as_table(verdicts: Sequence[DayVerdict]) -> str:
    """Write the days as a Markdown table; of many days, the last ones."""
    head = "| day | verdict | rows from the log | rows in the table | rows that differ |"
    return "\n".join([head, "| --- | --- | --: | --: | --: |", *map(_row, verdicts[-DAYS_SHOWN:])])


def _unmarked(text: str) -> str:
    """Markdown for a log, which shows it as it is."""
    return text.replace("**", "").replace("`", "")


def _row(verdict: DayVerdict) -> str:
    word = "equal" if verdict.equal else "different, replaced" if verdict.swapped else "different"
    cells = (verdict.what, word, verdict.rows_recomputed, verdict.rows_stored, verdict.rows_differing)
    return f"| {' | '.join(map(str, cells))} |"


def _figures(verdict: DayVerdict) -> dict[str, int | bool]:
    return {
        "rows": verdict.rows_recomputed if verdict.swapped else verdict.rows_stored,
        "equal": verdict.equal,
        "rows differing": verdict.rows_differing,
        "swapped": verdict.swapped,
    }


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


@contextmanager
def logged_progress(
    spark: SparkSession, log: logging.Logger, every_seconds: float = EVERY_SECONDS
) -> Iterator[None]:
    """While entered, log every few seconds how many tasks of the current stages are done; short work is not logged."""
    ended = threading.Event()

    def log_stages() -> None:
        told = ""
        while not ended.wait(every_seconds):
            words = under_way(spark)
            if words and words != told:
                log.info(words)
            told = words

    teller = threading.Thread(target=log_stages, name="progress of Spark", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join(timeout=5)


def under_way(spark: SparkSession) -> str:
    """The finished tasks of the current stages in words; empty when Spark runs no stage."""
    tracker = spark.sparkContext.statusTracker()
    stages = [
        info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None
    ]
    if not stages:
        return ""
    done, tasks = (sum(getattr(info, name) for info in stages) for name in ("numCompletedTasks", "numTasks"))
    return f"Spark has finished {done:,} of {tasks:,} tasks of the current stages."
