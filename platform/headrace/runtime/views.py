"""What a person asks of a node: results, open windows, updates, late records, the ledger."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.log.columns import DEAD_LETTER
from headrace.log.views import dead_letters as log_dead_letters
from headrace.operators.progress import Progress
from headrace.operators.rows import FATES, KEPT, OPEN, USED, rows_of
from headrace.operators.windows import (
    assign_windows,
    fold_windows,
    late_records,
    merge_windows,
    running_windows,
)
from headrace.operators.windows.fold import still_open
from headrace.runtime.runner import read_logs, read_progress
from headrace.spark import tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.description import Topic, WindowedAggregate
    from headrace.runtime.lake import Lake


class Views:
    """Reads what a node has written, as of its last micro-batch."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        """Read with this session, below this lake."""
        self._spark, self._lake = spark, lake

    def read(self, node: WindowedAggregate) -> DataFrame:
        """The node's results: final windows if suppressed, else every window as of now.

        Out: group columns, window_start, window_end, the aggregates; one row per group and window
        """
        finals = self._finals(node)
        frame = finals if node.suppression is not None else finals.unionByName(self._open(node))
        return without_internal(frame)

    def open_windows(self, node: WindowedAggregate) -> DataFrame:
        """The windows that are not closed yet, with their values so far; columns and grain as `read`."""
        return without_internal(self._open(node))

    def updates(self, node: WindowedAggregate) -> DataFrame:
        """Raw updates, conflated per micro-batch: what each window was worth after each that touched it.

        Out: the columns of `read`, `__batch` (micro-batch; null on the last word about a closed window); to fold them
             take each window's row with the highest `__batch`, nulls last
        Law: they fold to the same windows however the log was cut; the rows in between depend on the cuts.
        """
        finals = self._finals(node).withColumn("__batch", F.lit(None).cast("long"))
        return finals.unionByName(self._running(node)).drop("__timestamp", "__records")

    def late(self, node: WindowedAggregate) -> DataFrame:
        """Late records: one row for each record and closed window (see `late_records`)."""
        return late_records(self._assigned(node), node)

    def dead_letters(self, topic: Topic, nodes: Iterable[WindowedAggregate] = ()) -> DataFrame:
        """Records that the topic, or one of these nodes (then named in `node`), could not use; one row each."""
        log = tables.read(self._spark, self._lake.log(topic.name))
        frames = [log_dead_letters(log)]
        for node in nodes:
            dead = self._assigned(node).where(
                (F.col("__fate") == DEAD_LETTER) & (F.col("__topic") == topic.name)
            )
            position = {"topic": "__topic", "partition": "__partition", "offset": "__offset"}
            unusable = dead.select(
                *(F.col(source).alias(name) for name, source in position.items()),
                F.col("__reason").alias("node_reason"),
                F.lit(node.required_name).alias("node_name"),
            )
            own = log.where(F.col("kind") != DEAD_LETTER).join(unusable, list(position))
            frames.append(
                own.select(
                    *("topic", "partition", "offset", "timestamp"),
                    F.col("node_reason").alias("reason"),
                    (
                        F.to_json("key").cast("binary") if topic.key_columns else F.lit(None).cast("binary")
                    ).alias("key"),
                    F.to_json("value").cast("binary").alias("value"),
                    *("headers", "ingested_at"),
                    F.col("node_name").alias("node"),
                )
            )
        return reduce(lambda left, right: left.unionByName(right), frames)

    def ledger(self, node: WindowedAggregate) -> DataFrame:
        """Where every record that Kafka delivered ended up.

        Out: topic, partition, fate, records; one row for each fate and partition
        Law: over the fates, `records` sums to the records delivered. `open` is counted in the state table; `used` is
             what was kept and is no longer open, to be compared with what the results say (see the checks).
        """
        progress = read_progress(self._spark, self._lake, node)
        open_records = {
            (r["__topic"], r["__partition"]): r["records"]
            for r in still_open(self._state(node, progress), node, progress)
            .groupBy("__topic", "__partition")
            .agg(F.sum("__records").alias("records"))
            .collect()
        }
        rows = []
        for topic, partitions in progress.records.items():
            for partition, fates in partitions.items():
                still = open_records.get((topic, int(partition)), 0)
                counts = {**fates, OPEN: still, USED: fates.get(KEPT, 0) - still}
                rows += [(topic, int(partition), fate, counts.get(fate, 0)) for fate in FATES]
        return self._spark.createDataFrame(rows, "topic STRING, partition INT, fate STRING, records BIGINT")

    def recompute(self, node: WindowedAggregate) -> DataFrame:
        """The node's results, computed from the whole log in one go, as far as the stream has read it."""
        progress = read_progress(self._spark, self._lake, node)
        logs = read_logs(self._spark, self._lake, node, progress.upto_ms)
        folded = fold_windows(node, logs, progress.upto_ms, None, Progress())
        finals = self._finals(node).limit(0) if folded.finals is None else folded.finals
        if node.suppression is None:
            schema = self._row_schema(node)
            finals = finals.unionByName(
                merge_windows(
                    folded.partials,
                    node,
                    schema,
                    first_ms=self._first_open(node, folded.progress),
                    last_ms=None,
                )
            )
        return without_internal(finals)

    def _finals(self, node: WindowedAggregate) -> DataFrame:
        return tables.read(self._spark, self._lake.table(node.required_name))

    def _state(self, node: WindowedAggregate, progress: Progress) -> DataFrame:
        state = tables.read(self._spark, self._lake.state(node.required_name))
        return state.where(F.col("__batch") <= progress.batch)

    def _open(self, node: WindowedAggregate) -> DataFrame:
        progress = read_progress(self._spark, self._lake, node)
        partials = self._state(node, progress).drop("__batch")
        first_ms = self._first_open(node, progress)
        return merge_windows(partials, node, self._row_schema(node), first_ms=first_ms, last_ms=None)

    def _running(self, node: WindowedAggregate) -> DataFrame:
        """Each window of the state after each micro-batch that touched it."""
        progress = read_progress(self._spark, self._lake, node)
        return running_windows(self._state(node, progress), node, self._row_schema(node))

    def _first_open(self, node: WindowedAggregate, progress: Progress) -> int:
        if progress.closed_ms is None:
            return 0
        advance = node.window.advance_ms
        return max(0, ((progress.closed_ms - node.window.size_ms - node.grace_ms) // advance + 1) * advance)

    def _row_schema(self, node: WindowedAggregate) -> StructType:
        return self._assigned(node).schema

    def _assigned(self, node: WindowedAggregate) -> DataFrame:
        progress = read_progress(self._spark, self._lake, node)
        logs = read_logs(self._spark, self._lake, node, progress.upto_ms)
        return assign_windows(rows_of(logs, node.stream), node)


def without_internal(frame: DataFrame) -> DataFrame:
    """Only the columns that belong to users."""
    return frame.select(*(F.col(quote(name)) for name in frame.columns if not name.startswith("__")))
