"""The row-wise step that drops a record: the steps before it are computed for the log commit of the record alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from headrace.description import NamedStream
from headrace.description.feeds import RESULT, feeds_of
from headrace.description.steps import Select, WithColumn
from headrace.description.stream import Branch, Stream
from headrace.description.topology import words_of_branch
from headrace.engine.slices.log_slices import LogSlice
from headrace.fold.contract import FATE, OFFSET, PARTITION
from headrace.fold.fates import FILTERED
from headrace.nodes.bound_operator import bound
from headrace.nodes.rows.feed_tables import feed_tables
from headrace.nodes.unusable_table import UnusableTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.explain.logged_record import LoggedRecord
    from headrace.lake.paths import Lake


def dropping_step(
    spark: SparkSession, lake: Lake, node: Node, feed: str, record: LoggedRecord
) -> tuple[str, dict[str, Any]] | None:
    """The step in words, and the record's columns that it reads; None: no row-wise step drops the record."""
    for branch in feeds_of(node)[feed].stream.branches:
        if branch.topic.name != record.topic:
            continue
        dropping = [n for n, step in enumerate(branch.steps, 1) if not isinstance(step, Select | WithColumn)]
        for number in dropping:
            part = Branch(branch.topic, branch.steps[:number])
            if number == dropping[-1] or _drops(spark, lake, node, part, record):
                reads = getattr(part.steps[-1], "reads", ())
                return words_of_branch(part), {n: v for n, v in record.values.items() if n in reads}
    return None


def _drops(spark: SparkSession, lake: Lake, node: Node, part: Branch, record: LoggedRecord) -> bool:
    """Whether some steps drop a record. Steps whose columns are unknown are not asked."""
    columns, at_ms = part.shape.columns, record.at_ms
    if columns is None or at_ms is None:
        return False
    of = bound(spark, NamedStream(Stream((part,), columns), name="steps"))
    unusable = [replace(each, feed=RESULT) for each in UnusableTable(spark, lake, node).read()]
    commit = LogSlice.of(lake.log(record.topic), at_ms - 1, at_ms)
    rows = feed_tables(spark, of, {record.topic: commit}, unusable)[RESULT]
    is_it = pc.and_(pc.equal(rows[PARTITION], record.partition), pc.equal(rows[OFFSET], record.offset))
    fates: list[str] = rows.filter(pc.fill_null(is_it, False))[FATE].to_pylist()
    return FILTERED in fates
