"""The evidence of a comparison as Spark reads it: for logs of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.description.feeds import feeds_of
from headrace.lake import open_table
from headrace.lifecycle.evidence.oracle_evidence import BEFORE, TIMES_OF_ROWS, Evidence, Rows
from headrace.nodes.balances.older_rows import is_made
from headrace.nodes.node_tables import read_logs, snapshot
from headrace.nodes.rows.node_frames import is_settled, shown_results
from headrace.nodes.unusable_table import UnusableTable
from headrace.operators.contract import SEQUENCE
from headrace.oracle.reader_time import BUSY, IDLE, Commit, commits_of
from headrace.sequence.log_columns import CONTROL, RECORD, TICK
from headrace.sequence.operator_rows import REFUSED
from headrace.spark.frames import arrow_frame
from headrace.spark.lake_rows import read_table
from headrace.spark.row_steps import RAW, raw_column
from headrace.spark.rows.same_rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator


@dataclass(frozen=True)
class SparkEvidence(Evidence):
    """See `Evidence`.

    In: logs    for each topic whole log commits
        frames  each feed as SQL's steps leave it
        rows    of the node's tables
    """

    logs: Mapping[str, DataFrame]
    frames: Mapping[str, DataFrame]
    rows: DataFrame

    @classmethod
    def read(cls, spark: SparkSession, lake: Lake, node: Node, of: BoundOperator) -> SparkEvidence:
        """The evidence as of the node's last micro-batch."""
        held, progress = snapshot(spark, lake, node)
        uri, version = lake.table(node.required_name), held.version
        if version is None:  # results are final: any version from now on has those that the progress leads to
            version = open_table(uri).version
            held = replace(held, results=read_table(spark, uri, version))
        rows = shown_results(node, held, progress)
        if node.has_days:
            settled = is_settled(node, progress) | F.col(SEQUENCE).isNull()
            rows = rows.where(settled).where(is_made(node))
        times = [name for name in TIMES_OF_ROWS if name in rows.columns]
        rows = rows.select(*(F.col(quote(name)) for name in (*node.columns, *times)))
        logs = read_logs(spark, lake, node, progress.upto_ms)
        unusable = UnusableTable(spark, lake, node).read()
        frames = {
            name: of.rows.rows_apart(name, feed, logs, unusable) for name, feed in feeds_of(node).items()
        }
        return cls(spark, node, of, progress, version, logs, frames, rows)

    @property
    def feeds(self) -> Sequence[str]:
        """See `Evidence`."""
        return [*self.frames]

    @property
    def table_columns(self) -> Sequence[str]:
        """See `Evidence`."""
        return self.rows.columns

    def table(self, by: Sequence[str], keys: pa.Table | None) -> Rows:
        """See `Evidence`."""
        rows = self.rows if keys is None else self._of_keys(self.rows, keys)
        plain: Rows = rows.toArrow().to_pylist()
        return plain

    def sampled(self, feed: str, by: Sequence[str], number: int, seed: int) -> pa.Table:
        """See `Evidence`."""
        frame, columns = self.frames[feed], [F.col(quote(name)) for name in by]
        known = frame.where(F.col(RAW["kind"]) == RECORD)
        if REFUSED in frame.columns:
            known = known.where(~F.col(REFUSED))
        everywhere = known.select(*columns).union(self.rows.select(*columns)).distinct()
        order = F.xxhash64(F.lit(seed), *columns)
        return everywhere.orderBy(order, *columns).limit(number).toArrow()

    def of_keys(
        self, feed: str, keys: pa.Table | None, *, controls: bool = False, before: bool = False
    ) -> Rows:
        """See `Evidence`."""
        frame = with_stream_before(self.frames[feed]) if before else self.frames[feed]
        if keys is not None:
            mine = self._of_keys(frame, keys)
            of_control = frame.where(F.col(RAW["kind"]) == CONTROL)
            frame = mine.unionByName(of_control) if controls else mine
        return self._plain(feed, frame)

    def at(self, feed: str, topic: str, partition: int, offset: int) -> Rows:
        """See `Evidence`."""
        is_there = (F.col(RAW["topic"]) == topic) & (F.col(RAW["partition"]) == partition)
        return self._plain(feed, self.frames[feed].where(is_there & (F.col(RAW["offset"]) == offset)))

    def of_partitions(self, feed: str, keys: pa.Table) -> Rows:
        """See `Evidence`."""
        frame, partition = self.frames[feed], RAW["partition"]
        own = self._of_keys(frame, keys).select(partition).distinct().collect()
        theirs, of_control = F.col(partition).isin([row[0] for row in own]), F.col(RAW["kind"]) == CONTROL
        return self._plain(feed, frame.where(theirs | of_control))

    def history(self) -> list[Commit]:
        """See `Evidence`."""
        return history_of(self.logs, self.node)

    def _of_keys(self, rows: DataFrame, keys: pa.Table) -> DataFrame:
        return rows_of(rows, F.broadcast(arrow_frame(self.spark, keys)), keys.column_names)

    def _plain(self, feed: str, frame: DataFrame) -> Rows:
        """Rows as dicts; their fates are told by the log's own columns."""
        rows = self.of.rows.packed.feeds[feed]
        more = [name for name in (BEFORE,) if name in frame.columns]
        columns = frame.select(*(F.col(quote(name)) for name in (*rows.carried, *more))).toArrow()
        table = rows.of({name: columns[name] for name in rows.carried}, columns.num_rows)
        for name in more:
            table = table.append_column(name, columns[name])
        plain: Rows = table.to_pylist()
        return plain


def with_stream_before(frame: DataFrame) -> DataFrame:
    """Rows of logs with the stream time of their partition before them."""
    place = Window.partitionBy(RAW["topic"], RAW["partition"]).orderBy(
        RAW["ingested_at"], F.col(RAW["offset"]).asc_nulls_last()
    )
    earlier = place.rowsBetween(Window.unboundedPreceding, -1)
    return frame.withColumn(BEFORE, F.unix_millis(F.max(RAW["stream_time"]).over(earlier)))


def history_of(logs: Mapping[str, DataFrame], node: Node) -> list[Commit]:
    """The log commits, with the stream times and idle topics after each: what their rows say."""
    found = list[dict[str, Any]]()
    for topic in {each.name: each for each in node.topics}.values():
        action = F.get_json_object("control", "$.action")
        fate = F.when(F.col("kind") == TICK, TICK).when(action.isin(IDLE, BUSY), action)
        stream = F.col(raw_column("stream_time", topic, clocks=node.goes_by_clocks))
        by_fate = logs[topic.name].groupBy(
            F.unix_millis("ingested_at").alias("at"), "partition", fate.alias("fate")
        )
        highest = by_fate.agg(F.unix_millis(F.max(stream)).alias("ms"), F.max("offset").alias("offset"))
        found += [
            {
                "__ingested_ms": row["at"],
                "__topic": topic.name,
                "__partition": row["partition"],
                "__offset": row["offset"],
                "__stream_ms": row["ms"],
                "__fate": row["fate"],
            }
            for row in highest.collect()
        ]
    return commits_of([found])
