"""What a sink should hold of some identities of a node, and which of them it should not hold.

Out of each function: the columns that sinks get (see `OperatorFrames.emitted`); one row for each identity, the newest that
the node has, or `__deleted` where it has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.fold.contract import DELETED
from headrace.nodes.current_results import changes, newest
from headrace.nodes.operator_frames import operator_of
from headrace.nodes.sink_rows import ORDINAL, PLACE, SEQUENCE, TIMESTAMP, changed_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace.description import Node


def right_rows_of_results(node: Node, after: DataFrame, touched: DataFrame, through_ms: int) -> DataFrame:
    """Of appended results. In: after  all of them; touched: rows with the identities."""
    until = after.where(F.col(SEQUENCE) <= through_ms)
    identities = _identities(node, touched)
    commits = until.join(identities, [*node.identity], "left_semi").select(SEQUENCE).distinct()
    emitted = operator_of(node).emitted(until.join(F.broadcast(commits), SEQUENCE, "left_semi"))
    rows = emitted.join(identities, [*node.identity], "left_semi").select(*emitted.columns)
    by_age = Window.partitionBy(*_columns(node)).orderBy(F.desc(SEQUENCE), F.desc(PLACE))
    held = rows.withColumn("__age", F.row_number().over(by_age)).where("__age = 1").drop("__age")
    return _with_gone(node, held, identities, through_ms)


def right_rows_of_table(node: Node, state: DataFrame, touched: DataFrame, through_ms: int) -> DataFrame:
    """Of current results, each at the place of its last change. In: state  where the log leads to."""
    identities = _identities(node, touched)
    rows = newest(changes(state)).join(identities, [*node.identity], "left_semi")
    return _with_gone(node, changed_rows(node, rows), identities, through_ms)


def right_rows_as_of(node: Node, current: DataFrame, touched: DataFrame, through_ms: int) -> DataFrame:
    """Of current results as people see them, all at one sequence. In: current  all of them."""
    identities = _identities(node, touched)
    rows = current.select(*(F.col(quote(name)) for name in node.columns), F.lit(False).alias(DELETED))
    return _with_gone(node, rows.select("*", *_as_of(node, through_ms)), identities, through_ms)


def _with_gone(node: Node, rows: DataFrame, identities: DataFrame, through_ms: int) -> DataFrame:
    """Add a row for each identity that has none."""
    gone = identities.join(rows, [*node.identity], "left_anti").select(
        *_columns(node), F.lit(True).alias(DELETED), *_as_of(node, through_ms)
    )
    return rows.unionByName(gone, allowMissingColumns=True)


def _as_of(node: Node, through_ms: int) -> list[Column]:
    """The place of rows that are told as of a log commit."""
    return [
        F.timestamp_millis(F.lit(through_ms)).alias(TIMESTAMP),
        F.lit(through_ms).cast("long").alias(SEQUENCE),
        F.lit(bytearray()).alias(PLACE),
        (F.row_number().over(Window.orderBy(*_columns(node))) - 1).alias(ORDINAL),
    ]


def _identities(node: Node, rows: DataFrame) -> DataFrame:
    return rows.select(*_columns(node)).distinct()


def _columns(node: Node) -> list[Column]:
    return [F.col(quote(name)) for name in node.identity]
