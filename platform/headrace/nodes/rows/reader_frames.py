"""The logs of a node as frames, dated as the node dates them: for people and for checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.nodes.balances.opening import read_opening
from headrace.nodes.node_tables import read_log
from headrace.nodes.standing.reader_commits import LogCommit, ReaderTime, read_commits, reader_times
from headrace.nodes.unusable_table import UnusableTable
from headrace.operators.registry import operator_for
from headrace.spark.frames import local_frame
from headrace.spark.row_steps import raw_column

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.engine.steps.unusable import Unusable
    from headrace.fold.contract import Clock
    from headrace.lake.paths import Lake

AT, FLOOR = "__at_ms", "__floor_ms"
FLOORS = T.StructType([T.StructField(AT, T.LongType()), T.StructField(FLOOR, T.LongType())])


def logs_and_unusable(
    spark: SparkSession, lake: Lake, node: Node, upto_ms: Mapping[str, int]
) -> tuple[dict[str, DataFrame], list[Unusable]]:
    """For each topic of a node the log through a frontier, as the node dates it, and the records that it cannot use.

    A log begins after the opening balance of the node.
    """
    opening = read_opening(lake, node).progress
    logs = {
        topic.name: read_log(
            spark,
            lake,
            topic,
            after_ms=opening.upto_ms.get(topic.name, 0),
            upto_ms=upto_ms.get(topic.name, 0),
        )
        for topic in node.topics
    }
    return dated_logs(spark, lake, node, logs, upto_ms), UnusableTable(spark, lake, node).read()


def dated_logs(
    spark: SparkSession,
    lake: Lake,
    node: Node,
    logs: Mapping[str, DataFrame],
    upto_ms: Mapping[str, int],
) -> dict[str, DataFrame]:
    """Logs in which no row's stream time is below the node's own before its commit (L4).

    In: logs  rows of each topic, from the opening balance through `upto_ms`
    """
    driving = operator_for(node).driving
    if len(driving) < 2:
        return dict(logs)
    clock = read_opening(lake, node).progress.clock
    read = {
        topic.name: read_commits(
            topic, lake.log(topic.name), clock.upto_ms.get(topic.name, 0), upto_ms.get(topic.name, 0)
        ).seen(clocks=node.goes_by_clocks)
        for topic in node.topics
    }
    time = reader_time(clock, driving)
    floors: list[tuple[int, int | None]] = []
    for at_ms, after in reader_times(time, read, driving):
        floors.append((at_ms, time.lowest_ms))
        time = after
    frame = F.broadcast(local_frame(spark, [row for row in floors if row[1] is not None], FLOORS))
    column = {of.name: raw_column("stream_time", of, clocks=node.goes_by_clocks) for of in node.topics}
    return {name: _raised(log, frame, column[name]) if name in driving else log for name, log in logs.items()}


def reader_time(clock: Clock, driving: Collection[str]) -> ReaderTime:
    """Where a node's driving topics stand at a clock."""
    stream_ms = {
        name: min((ms for (topic, _), ms in clock.stream_ms.items() if topic == name), default=None)
        for name in driving
    }
    topics = {
        name: LogCommit(clock.upto_ms.get(name, 0), ms, idle=name in clock.idle)
        for name, ms in stream_ms.items()
    }
    return ReaderTime(topics, clock.lowest_ms)


def _raised(log: DataFrame, floors: DataFrame, column: str) -> DataFrame:
    there = log.join(floors, F.unix_millis("ingested_at") == F.col(AT), "left")
    stream = F.greatest(column, F.timestamp_millis(FLOOR))
    dated = F.when(F.col(column).isNotNull(), stream)
    return there.withColumn(column, dated).drop(AT, FLOOR)
