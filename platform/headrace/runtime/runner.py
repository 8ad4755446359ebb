"""Advance one node, micro-batch by micro-batch, in an order that survives a crash anywhere.

One micro-batch, in this order (the names are the crash marks of the tests):
  1. the plan: how far to read, persisted and reused if the micro-batch is repeated;
  2. "before outputs"   everything is computed, nothing is written;
  3. "after outputs"    results are durable; a repeat finds their commit record and passes over them;
  4. "after state"      state and progress are durable in one commit: the micro-batch is done.
Spark's own checkpoint comes last and holds nothing that these do not: it may be thrown away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from headrace.errors import TerminalError
from headrace.log.columns import log_schema
from headrace.operators.progress import Progress
from headrace.operators.rows import KEPT, rows_of
from headrace.operators.windows import assign_windows, closed, fold_windows, merge_windows, partial_aggregates
from headrace.spark import files, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.description import Topic, WindowedAggregate
    from headrace.runtime.lake import Lake

RESULTS = {
    "delta.enableChangeDataFeed": "true"
}  # an append costs nothing more; a swap says which rows it changed
STATE_SKIPPING = {"delta.dataSkippingStatsColumns": "__pane,__batch"}


class NodeRunner:
    """Writes one node's results and state. Exactly one may be open for a node; the caller holds the lease."""

    def __init__(
        self,
        spark: SparkSession,
        node: WindowedAggregate,
        lake: Lake,
        *,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        """Open the node's tables, creating them if need be, and recover its progress.

        In: on_step  called with each numbered step's name; it may raise to stop there
        """
        self.node, self.name = node, node.required_name
        self._spark, self._lake, self._on_step = spark, lake, on_step
        self._writer = f"node/{self.name}"
        output, state = node_schemas(spark, node)
        tables.create(spark, lake.table(self.name), output, RESULTS)
        tables.create(spark, lake.state(self.name), state, STATE_SKIPPING)
        self.progress = read_progress(spark, lake, node)
        self._repeating = True

    def advance(self) -> bool:
        """Fold what the logs hold beyond the progress; False when there is nothing new."""
        plan = self._plan()
        if plan is None:
            return False
        progress, upto_ms = self.progress, plan["upto_ms"]
        logs = {
            t.name: self._increment(t, progress.upto_ms.get(t.name), upto_ms[t.name])
            for t in self.node.topics
        }
        state = tables.read(self._spark, self._lake.state(self.name)).where(
            F.col("__batch") <= progress.batch
        )
        folded = fold_windows(self.node, logs, upto_ms, state, progress)
        batch = folded.progress.batch
        self._on_step("before outputs")
        if folded.finals is not None and not self._has_outputs(batch):
            record = {"writer": self._writer, "batch": batch}
            tables.append(folded.finals, self._lake.table(self.name), record)
        self._on_step("after outputs")
        tables.append(folded.partials, self._lake.state(self.name), self._record(folded.progress))
        self._on_step("after state")
        folded.release()
        self.progress, self._repeating = folded.progress, False
        return True

    def expire(self) -> None:
        """Drop the partials of closed windows and gather what is left in few files; results do not change."""
        state = DeltaTable.forPath(self._spark, self._lake.state(self.name))
        if self.progress.closed_ms is not None:
            state.delete(
                closed(self.node, self.progress.closed_ms) & (F.col("__batch") <= self.progress.batch)
            )
        state.optimize().executeCompaction()

    def _plan(self) -> dict[str, Any] | None:
        path, batch = self._lake.plan(self.name), self.progress.batch + 1
        if self._repeating:
            plan: dict[str, Any] | None = files.read_json(self._spark, path)
            if plan is not None and plan["batch"] == batch:
                return plan
            self._repeating = False
        upto_ms = {topic.name: frontier_ms(self._spark, self._lake, topic) for topic in self.node.topics}
        if all(ms <= self.progress.upto_ms.get(name, 0) for name, ms in upto_ms.items()):
            return None
        plan = {"batch": batch, "upto_ms": upto_ms}
        files.write_json(self._spark, path, plan)
        return plan

    def _increment(self, topic: Topic, after_ms: int | None, upto_ms: int) -> DataFrame:
        return read_log(self._spark, self._lake, topic, after_ms=after_ms, upto_ms=upto_ms)

    def _has_outputs(self, batch: int) -> bool:
        if not self._repeating:
            return False
        commit = tables.last_commit(self._spark, self._lake.table(self.name), self._writer)
        return commit is not None and commit.record["batch"] >= batch

    def _record(self, progress: Progress) -> dict[str, Any]:
        return {
            "writer": self._writer,
            "fingerprint": self.node.fingerprint(),
            "progress": progress.to_json(),
        }


def node_schemas(spark: SparkSession, node: WindowedAggregate) -> tuple[StructType, StructType]:
    """The columns of a node's result table and of its state table."""
    logs = {topic.name: spark.createDataFrame([], log_schema(topic)) for topic in node.topics}
    rows = assign_windows(rows_of(logs, node.stream), node)
    partials = partial_aggregates(rows, node).where(F.col("__fate") == KEPT).drop("__fate")
    output = merge_windows(partials, node, rows.schema, first_ms=0, last_ms=None)
    return _nullable(output), _nullable(partials.withColumn("__batch", F.lit(0)))


def _nullable(frame: DataFrame) -> StructType:
    return type(frame.schema)([type(f)(f.name, f.dataType, True) for f in frame.schema])


def read_progress(spark: SparkSession, lake: Lake, node: WindowedAggregate) -> Progress:
    """How far a node has come.

    Raises: TerminalError when the state was written by another description of the node.
    """
    name = node.required_name
    commit = tables.last_commit(spark, lake.state(name), f"node/{name}")
    if commit is None:
        return Progress()
    if commit.record["fingerprint"] != node.fingerprint():
        raise TerminalError(
            f"Node '{name}': its state was written by another description of it.",
            detail=f"stored {commit.record['fingerprint'][:12]}, described {node.fingerprint()[:12]}",
            hint="Restore the description, or give the changed node a new name: it is then built from the log.",
        )
    return Progress.from_json(commit.record["progress"])


def frontier_ms(spark: SparkSession, lake: Lake, topic: Topic) -> int:
    """`ingested_at` of the last commit of a topic's log, in ms; 0 when it has none."""
    commit = tables.last_commit(spark, lake.log(topic.name), f"log/{topic.name}")
    return 0 if commit is None else int(commit.record["ingested_at_ms"])


def read_log(
    spark: SparkSession, lake: Lake, topic: Topic, *, after_ms: int | None = None, upto_ms: int
) -> DataFrame:
    """Whole commits of a log, after one `ingested_at` and through another."""
    log = tables.read(spark, lake.log(topic.name))
    log = log.where(F.col("ingested_at") <= F.timestamp_millis(F.lit(upto_ms)))
    return log if not after_ms else log.where(F.col("ingested_at") > F.timestamp_millis(F.lit(after_ms)))


def read_logs(
    spark: SparkSession, lake: Lake, node: WindowedAggregate, upto_ms: Mapping[str, int]
) -> dict[str, DataFrame]:
    """For each topic of a node, the whole log through a frontier."""
    return {t.name: read_log(spark, lake, t, upto_ms=upto_ms.get(t.name, 0)) for t in node.topics}
