"""The rows of logs after a stream's row-wise steps, which SQL computes.

A row is never removed on its way: what a `where` refuses is marked `filtered`, so that the ledger can account for
every record that Kafka delivered.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import functions as F

from headrace.description import Select, Transform, Where, WithColumn, quote
from headrace.errors import DescriptionError
from headrace.fold.contract import ROW_COLUMNS
from headrace.fold.fates import FILTERED, REPLAY, TOMBSTONE
from headrace.sequence.log_columns import CONTROL, DEAD_LETTER, DRAIN, ERASED, RECORD, SET_LIMITS, TICK
from headrace.spark.frames import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from headrace.description import Step, Stream, Topic

META = tuple(ROW_COLUMNS.names)
# Made once: each column costs calls into the JVM.
_KNOWN: WeakKeyDictionary[Topic, Selection] = WeakKeyDictionary()


def rows_of(logs: Mapping[str, DataFrame], stream: Stream) -> DataFrame:
    """The rows of a stream's topics after its row-wise steps.

    In:     logs  for each topic's name, rows of its log
    Out:    the stream's columns, then `META`: position, commit time, event time and stream time in ms, raw size, `__fate`
            (null while undecided; ticks and control rows carry their kind; drains and limits set are told apart),
            `__reason` (of limits that are set, their JSON). One row per row of the logs.
    Law:    row by row; no row is dropped.
    """
    frames = [
        reduce(_apply, branch.steps, _columns(branch.topic).of(logs[branch.topic.name]))
        for branch in stream.branches
    ]
    return reduce(lambda left, right: left.unionByName(right), frames)


def _columns(topic: Topic) -> Selection:
    if topic not in _KNOWN:
        _KNOWN[topic] = _make_columns(topic)
    return _KNOWN[topic]


def _make_columns(topic: Topic) -> Selection:
    action = F.when(F.col("kind") == CONTROL, F.get_json_object("control", "$.action"))
    fate = (
        F.when(action.isin(DRAIN, SET_LIMITS), action)
        .when(F.col("kind").isin(TICK, CONTROL, DEAD_LETTER), F.col("kind"))
        .when((F.col("kind") == RECORD) & (F.col("reason") == ERASED), ERASED)
        .when(F.col("replay"), REPLAY)
        .when(F.col("tombstone"), TOMBSTONE)
    )
    return Selection(
        *(F.col(_origin(topic, name)).alias(name) for name in topic.columns),
        F.unix_millis("ingested_at").alias("__ingested_ms"),
        F.col("topic").alias("__topic"),
        F.col("partition").alias("__partition"),
        F.col("offset").alias("__offset"),
        F.unix_millis("timestamp").alias("__event_ms"),
        F.unix_millis("stream_time").alias("__stream_ms"),
        F.col("size_bytes").cast("long").alias("__size_bytes"),
        fate.alias("__fate"),
        F.when(action == SET_LIMITS, F.col("control")).otherwise(F.col("reason")).alias("__reason"),
    )


def _origin(topic: Topic, name: str) -> str:
    side = "key" if any(column.name == name for column in topic.key_columns) else "value"
    return f"{side}.{quote(name)}"


def _apply(frame: DataFrame, step: Step) -> DataFrame:
    match step:
        case Where(expression):
            refused = F.col("__fate").isNull() & ~F.coalesce(F.expr(expression), F.lit(False))
            return frame.withColumn("__fate", F.when(refused, FILTERED).otherwise(F.col("__fate")))
        case Select(expressions):
            return frame.select(*(F.expr(expression) for expression in expressions), *META)
        case WithColumn(name, expression):
            return frame.withColumn(name, F.expr(expression))
        case Transform():
            return _transform(frame, step)


def _transform(frame: DataFrame, step: Transform) -> DataFrame:
    result: DataFrame = step.function(frame)
    lost = [name for name in META if name not in result.columns]
    if lost:
        raise DescriptionError(
            f"transform({getattr(step.function, '__name__', step.function)!r}) dropped the columns {', '.join(lost)}.",
            hint="Keep every column that begins with `__`: use withColumn, or select('*', …).",
        )
    return result
