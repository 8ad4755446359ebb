"""The rows that a sink should hold for some identities of a node, and the identities that it should not hold.

Out of each function: the columns that sinks get (see `sink_rows.final_rows`); one row for each identity: the node's newest
row, or `__deleted` if the node has none. Rows that are given as of a log commit have ordinals below zero, so no other row of
that commit has the same.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.fold.contract import DELETED
from headrace.nodes.rows.current_results import changes, newest
from headrace.nodes.rows.sink_rows import ORDINAL, changed_rows, final_rows, with_place
from headrace.operators.contract import PLACE, SEQUENCE, TIMESTAMP
from headrace.operators.registry import operator_for
from headrace.spark.rows.same_rows import rows_not_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from headrace.description import Node

PARTS = 256  # rows are numbered in that many parts at a time; 2³¹ ordinals are for all of them


def right_rows_of_results(node: Node, after: DataFrame, touched: DataFrame, through_ms: int) -> DataFrame:
    """The right rows of appended results. In: after  all results; touched: rows with the identities."""
    until = with_place(node, after.where(F.col(SEQUENCE) <= through_ms))
    identities, identity = _identities(node, with_place(node, touched)), operator_for(node).identity
    commits = rows_of(until, identities, identity).select(SEQUENCE).distinct()
    emitted = final_rows(node, until.join(F.broadcast(commits), SEQUENCE, "left_semi"))
    rows = rows_of(emitted, identities, identity)
    by_age = Window.partitionBy(*_columns(node)).orderBy(F.desc(SEQUENCE), F.desc(PLACE))
    held = rows.withColumn("__age", F.row_number().over(by_age)).where("__age = 1").drop("__age")
    return _with_gone(node, held, identities, through_ms)


def right_rows_of_table(node: Node, state: DataFrame, touched: DataFrame, through_ms: int) -> DataFrame:
    """The right rows of current results, each at the place of its last change. In: state  the state that the log gives."""
    identities = _identities(node, touched)
    rows = rows_of(newest(changes(state)), identities, node.key)
    return _with_gone(node, changed_rows(node, rows), identities, through_ms)


def right_rows_as_of(node: Node, current: DataFrame, touched: DataFrame, through_ms: int) -> DataFrame:
    """The right rows of current results as people see them, all at one sequence. In: current  all results."""
    rows = current.select(*(F.col(quote(name)) for name in node.columns), F.lit(False).alias(DELETED))
    gone = _gone(node, rows, _identities(node, touched))
    return _as_of(node, rows.unionByName(gone, allowMissingColumns=True), through_ms)


@contextmanager
def counted(right: DataFrame) -> Iterator[tuple[DataFrame, int, int]]:
    """Right rows, worked out once; how many a sink should hold, and how many identities it should not hold."""
    rows = right.persist()
    try:
        found = {row[DELETED]: row["count"] for row in rows.groupBy(DELETED).count().collect()}
        yield rows, found.get(False, 0), found.get(True, 0)
    finally:
        rows.unpersist()


def _with_gone(node: Node, rows: DataFrame, identities: DataFrame, through_ms: int) -> DataFrame:
    """Add a row for each identity that has none."""
    gone = _as_of(node, _gone(node, rows, identities), through_ms)
    return rows.unionByName(gone, allowMissingColumns=True)


def _gone(node: Node, rows: DataFrame, identities: DataFrame) -> DataFrame:
    """A row for each identity that has none."""
    return rows_not_of(identities, rows, operator_for(node).identity).withColumn(DELETED, F.lit(True))


def _as_of(node: Node, rows: DataFrame, through_ms: int) -> DataFrame:
    """Give rows, one for each identity, the place of rows as of a log commit, unless the place is their identity."""
    part = F.pmod(F.xxhash64(*_columns(node)), F.lit(PARTS))
    within = F.row_number().over(Window.partitionBy("__part").orderBy(*_columns(node))) - 1
    own = {
        TIMESTAMP: F.timestamp_millis(F.lit(through_ms)),
        SEQUENCE: F.lit(through_ms).cast("long"),
        PLACE: F.lit(bytearray()),
        ORDINAL: (-1 - within * PARTS - F.col("__part")).cast("int"),
    }
    identity = operator_for(node).identity
    added = {name: value for name, value in own.items() if name not in identity}
    return rows.withColumn("__part", part).withColumns(added).drop("__part")


def _identities(node: Node, rows: DataFrame) -> DataFrame:
    return rows.select(*_columns(node)).distinct()


def _columns(node: Node) -> list[Column]:
    return [F.col(quote(name)) for name in operator_for(node).identity]
