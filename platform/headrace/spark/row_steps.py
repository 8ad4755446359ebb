"""The rows of logs after a stream's row-wise steps, which SQL computes.

No row is removed on its way: what a `where` refuses is marked, so that the ledger can account for every record.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import functions as F

from headrace.description import Select, Transform, Where, WithColumn, is_of_kafka, quote
from headrace.description.record_metadata import HEADERS, runnable
from headrace.description.wording import listed
from headrace.errors import DescriptionError
from headrace.fold.contract import CAUSE
from headrace.sequence.operator_rows import RAW_COLUMNS, REFUSED
from headrace.spark.errors.refusals import in_words, refusals_explained
from headrace.spark.frames import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from headrace.description import Step, Stream, Topic

_GENERATES = re.compile(r"^[ :+\-]*Generate ", re.MULTILINE)  # a node of Spark's plan
# Each column of the log by which operators tell a row's fate, under a name that no user's column has.
RAW = {name: f"__{name}" for name in RAW_COLUMNS.names}
OWN = (*RAW.values(), HEADERS, REFUSED, CAUSE)
# Made once: each column costs calls into the JVM.
_KNOWN: WeakKeyDictionary[Topic, dict[bool, Selection]] = WeakKeyDictionary()


def rows_of(
    logs: Mapping[str, DataFrame],
    stream: Stream,
    *,
    headers: bool = False,
    clocks: bool = False,
    causes: bool = False,
) -> DataFrame:
    """The rows of a stream's topics after its row-wise steps.

    In:     logs     for each topic's name, rows of its log
            headers  whether HEADERS is wanted
            clocks   whether the stream time of a node's row is its clock
            causes   whether CAUSE is wanted: a node writes one of the topics
    Out:    the stream's columns, RAW, HEADERS and CAUSE if wanted, and REFUSED if `refuses`. One row per row of the logs.
    Law:    row by row; no row is dropped.
    """
    frames = []
    for branch in stream.branches:
        log = logs[branch.topic.name]
        frame = rows_before(log, branch.topic, stream, headers=headers, clocks=clocks, causes=causes)
        for step in branch.steps:
            frame = applied(frame, step, branch.topic)
        frames.append(frame)
    return reduce(lambda left, right: left.unionByName(right), frames)


def rows_before(
    log: DataFrame,
    topic: Topic,
    stream: Stream,
    *,
    headers: bool = False,
    clocks: bool = False,
    causes: bool = False,
) -> DataFrame:
    """The rows of one topic of a stream before any step. Out: the topic's columns, and others as `rows_of` says."""
    more = [F.lit(False).alias(REFUSED)] if refuses(stream) else []
    more += [F.col("headers").alias(HEADERS)] if headers else []
    if causes:
        more.append((F.lit(None) if is_of_kafka(topic) else F.col("cause")).cast("binary").alias(CAUSE))
    return _columns(topic, clocks=clocks).of(log, *more)


def _columns(topic: Topic, *, clocks: bool) -> Selection:
    known = _KNOWN.setdefault(topic, {})
    if clocks not in known:
        known[clocks] = _make_columns(topic, clocks=clocks)
    return known[clocks]


def _make_columns(topic: Topic, *, clocks: bool) -> Selection:
    return Selection(
        *(F.col(f"{side}.{quote(name)}").alias(name) for name, side in origins(topic).items()),
        *(F.col(raw_column(name, topic, clocks=clocks)).alias(raw) for name, raw in RAW.items()),
    )


def raw_column(name: str, topic: Topic, *, clocks: bool) -> str:
    """The column of a topic's log that a column of RAW is. In: clocks  whether a node's rows go by their clocks."""
    return "clock" if clocks and name == "stream_time" and not is_of_kafka(topic) else name


def origins(topic: Topic) -> dict[str, str]:
    """For each column of a topic whether it lies in the key or the value of its log."""
    keys = {column.name for column in topic.key_columns}
    return {name: "key" if name in keys else "value" for name in topic.columns}


def refuses(stream: Stream) -> bool:
    """True if a `where` is among the steps."""
    return any(isinstance(step, Where) for branch in stream.branches for step in branch.steps)


def column_of(sql: str, topic: Topic) -> Column:
    """An expression of a step over a topic, as Spark runs it."""
    return F.expr(runnable(sql, topic.chain_header).sql)


def expression_of(sql: str) -> Column:
    """An expression over rows of a table, as Spark runs it."""
    return F.expr(runnable(sql).sql)


def applied(frame: DataFrame, step: Step, topic: Topic) -> DataFrame:
    """The rows of a topic after one step more.

    Raises: DescriptionError when Spark refuses the step
    """
    with refusals_explained(in_words(step)):
        return _applied(frame, step, topic)


def _applied(frame: DataFrame, step: Step, topic: Topic) -> DataFrame:
    match step:
        case Where(expression):
            passes = F.coalesce(column_of(expression, topic), F.lit(False))
            return frame.withColumn(REFUSED, F.col(REFUSED) | ~passes)
        case Select(expressions):
            kept = (name for name in OWN if name in frame.columns)
            return frame.select(*(column_of(expression, topic) for expression in expressions), *kept)
        case WithColumn(name, expression):
            return frame.withColumn(name, column_of(expression, topic))
        case Transform():
            return _transform(frame, step)


def _transform(frame: DataFrame, step: Transform) -> DataFrame:
    result: DataFrame = step.function(frame)
    lost = [name for name in OWN if name in frame.columns and name not in result.columns]
    if lost:
        raise DescriptionError(
            f"transform({getattr(step.function, '__name__', step.function)!r}) dropped the columns {', '.join(lost)}.",
            hint="Keep every column that begins with `__`: use withColumn, or select('*', …).",
        )
    return result


def refuse_generators(rows: DataFrame, stream: Stream) -> None:
    """Raise DescriptionError when a transform makes several rows of one record. In: rows  as `rows_of` gives them."""
    if not stream.transformed or not _GENERATES.search(rows._jdf.queryExecution().analyzed().toString()):
        return
    steps = [step for branch in stream.branches for step in branch.steps if isinstance(step, Transform)]
    names = dict.fromkeys(getattr(step.function, "__name__", str(step.function)) for step in steps)
    raise DescriptionError(
        f"transform({listed([*map(repr, names)])}) makes several rows of one record.",
        hint="Let the transform make an array, and write .flat_map('array AS element') after it.",
    )
