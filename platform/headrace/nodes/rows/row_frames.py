"""Rows of logs as an operator decides them, as frames: for people, for checks, never on a stream's way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.errors import DescriptionError
from headrace.fold.contract import PARTITION, Scope
from headrace.fold.kernel import Feeds, Kernel
from headrace.nodes.bound_operator import bound
from headrace.spark.frames import together
from headrace.spark.one_task import made_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import Node
    from headrace.engine.slices.feed_rows import PackedFeeds
    from headrace.engine.steps.unusable import Unusable
    from headrace.nodes.bound_operator import BoundOperator


def decided(node: Node, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]) -> DataFrame:
    """The rows of a node's logs with FATE and REASON completed, one for each row of the logs.

    In:  unusable  the records among them for which steps raise
    Law: an operator that decides records together (`decided_with`) knows no records that were cut off the logs
    Out: ROW_COLUMNS; where the node has one feed, the columns that its operator reads before them
    """
    of = _bound(node, logs)
    kernel = of.operator.kernel
    twice = len({*node.topics}) < sum(len(feed.topics) for feed in of.operator.feeds.values())
    rows = of.rows.frame(logs, unusable)
    if twice:  # a row that several feeds have is decided in one place
        rows = _by_partition(of, rows)
    if kernel.decided_with:
        rows = together(rows, *(F.col(quote(name)) for name in kernel.decided_with))
    return _made(of, rows, kernel.decided, whole=bool(twice or kernel.decided_with))


def late(node: Node, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]) -> DataFrame | None:
    """Late records and what they came too late for (see `Kernel.late`).

    Out: None: nothing can be late or, as for joins of windows, the ledger alone tells how many are
    """
    of = _bound(node.update_source, logs)
    kernel, rows = of.operator.kernel, of.rows.frame(logs, unusable)
    if kernel.late_scope is None:
        return None
    if kernel.late_scope is Scope.GROUP:
        rows = together(rows, *(F.col(quote(name)) for name in kernel.steps[0].keys))
    elif kernel.late_scope is Scope.PARTITION:
        rows = _by_partition(of, rows)
    return _made(of, rows, partial(_late, kernel), whole=kernel.late_scope is not Scope.ANYWHERE)


def nothing_late(node: Node) -> DescriptionError:
    """The error that says that no record can be late for a node."""
    return DescriptionError(
        f"Node '{node.required_name}' has no windows: nothing can be late for it.",
        hint="Ask a node with .window(…).",
    )


def _bound(node: Node, logs: Mapping[str, DataFrame]) -> BoundOperator:
    return bound(next(iter(logs.values())).sparkSession, node)


def _made(of: BoundOperator, rows: DataFrame, make: Callable[[Feeds], pa.Table], *, whole: bool) -> DataFrame:
    feeds = of.rows.packed
    schema = make(feeds.empty()).schema
    return made_of(rows, partial(_unpack, feeds, make), feeds.names, schema=schema, whole=whole)


def _unpack(feeds: PackedFeeds, make: Callable[[Feeds], pa.Table], rows: pa.Table) -> pa.Table:
    return make(feeds.unpacked(rows))


def _by_partition(of: BoundOperator, rows: DataFrame) -> DataFrame:
    carried = of.rows.packed.carrying(PARTITION)
    return together(rows, F.coalesce(*(F.col(quote(name)) for name in carried)))


def _late(kernel: Kernel, feeds: Feeds) -> pa.Table:
    return kernel.late(kernel.rows(feeds))
