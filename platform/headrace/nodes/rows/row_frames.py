"""Rows of logs as an operator decides them, as frames: for people, for checks, never on a stream's way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.fold.contract import PARTITION, Scope
from headrace.fold.kernel import Feeds, Kernel
from headrace.spark.one_task import made_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.engine.slices.feed_rows import PackedFeeds
    from headrace.engine.steps.unusable import Unusable
    from headrace.nodes.bound_operator import BoundOperator


def decided(bound: BoundOperator, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]) -> DataFrame:
    """The rows of logs with FATE and REASON completed, one for each row of the logs.

    In:  unusable  the records among them for which steps raise
    Law: an operator that decides records together (`decided_with`) knows no records that were cut off the logs
    Out: ROW_COLUMNS; where the node has one feed, the columns that its operator reads before them
    """
    kernel = bound.operator.kernel
    twice = len({*bound.operator.node.topics}) < sum(
        len(feed.topics) for feed in bound.operator.feeds.values()
    )
    rows = bound.rows.frame(logs, unusable)
    if twice:  # a row that several feeds have is decided in one place
        rows = _by_partition(bound, rows)
    if kernel.decided_with:
        by = [F.col(quote(name)) for name in kernel.decided_with]
        rows = rows.repartition(rows.sparkSession.sparkContext.defaultParallelism, *by)
    return _made(bound, rows, kernel.decided, whole=bool(twice or kernel.decided_with))


def late(
    bound: BoundOperator, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]
) -> DataFrame | None:
    """Late records and what they came too late for (see `Kernel.late`); None: nothing can be late."""
    kernel, rows = bound.operator.kernel, bound.rows.frame(logs, unusable)
    if kernel.late_scope is None:
        return None
    if kernel.late_scope is Scope.GROUP:
        by = [F.col(quote(name)) for name in kernel.steps[0].keys]
        rows = rows.repartition(rows.sparkSession.sparkContext.defaultParallelism, *by)
    elif kernel.late_scope is Scope.PARTITION:
        rows = _by_partition(bound, rows)
    return _made(bound, rows, partial(_late, kernel), whole=kernel.late_scope is not Scope.ANYWHERE)


def _made(
    bound: BoundOperator, rows: DataFrame, make: Callable[[Feeds], pa.Table], *, whole: bool
) -> DataFrame:
    feeds = bound.rows.packed
    schema = make(feeds.empty()).schema
    return made_of(rows, partial(_unpack, feeds, make), feeds.names, schema=schema, whole=whole)


def _unpack(feeds: PackedFeeds, make: Callable[[Feeds], pa.Table], rows: pa.Table) -> pa.Table:
    return make(feeds.unpacked(rows))


def _by_partition(bound: BoundOperator, rows: DataFrame) -> DataFrame:
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    carried = bound.rows.packed.carrying(PARTITION)
    return rows.repartition(tasks, F.coalesce(*(F.col(quote(name)) for name in carried)))


def _late(kernel: Kernel, feeds: Feeds) -> pa.Table:
    return kernel.late(kernel.rows(feeds))
