"""The rows of a node's feeds over a stretch of its logs, as this process reads them: for people, checks and tests.

Law: the rows are those of `NodeRows.frame`. Steps that the expressions cover need no Spark; others start it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.clocks import raised, times_of
from headrace.expressions import SparkNeededError
from headrace.fold.contract import FATE, OFFSET, PARTITION, REASON, TOPIC
from headrace.fold.fates import with_column
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.node_tables import read_progress, slices_of
from headrace.nodes.unusable_table import UnusableTable
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.engine.slices.log_slices import LogSlice
    from headrace.engine.steps.unusable import Unusable
    from headrace.fold.contract import Clock
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator

FeedTables = Mapping[str, pa.Table]


def feed_tables(
    spark: SparkSession, of: BoundOperator, slices: Mapping[str, LogSlice], unusable: Sequence[Unusable]
) -> dict[str, pa.Table]:
    """The rows of each feed, with the records set apart that the node cannot use.

    In: slices  of each topic
    """
    rows = of.rows
    try:
        feeds = {
            name: feed.read(slices) for name, feed in rows.packed.feeds.items() if feed.origins is not None
        }
    except SparkNeededError:
        return feed_tables(spark, of.by_spark(spark), slices, unusable)
    marked = {name: set_apart(name, table, unusable) for name, table in feeds.items()}
    if rows.computed.feeds:
        frame = rows.computed_frame(spark, slices, unusable)
        marked |= (
            rows.computed.empty() if frame is None else rows.computed.unpacked(frame.coalesce(1).toArrow())
        )
    return {name: marked[name] for name in rows.packed.feeds}


def read_feeds(spark: SparkSession, lake: Lake, node: Node, of: BoundOperator) -> dict[str, pa.Table]:
    """The rows of a node's feeds since its opening balance, as far as it has read them and as it dates them.

    In: of  the operator that takes the rows: the node's, or that of the node whose updates it waits for
    """
    unusable = UnusableTable(spark, lake, node).read()
    feeds = feed_tables(spark, of, read_slices(lake, node), unusable)
    return as_dated(of, feeds, read_opening(lake, node).progress.clock)


def read_slices(lake: Lake, node: Node) -> dict[str, LogSlice]:
    """The logs of a node since its opening balance, as far as it has read them.

    Raises: ForeignCommitError when somebody else has changed rows of a log
    """
    upto_ms = read_progress(lake, node).upto_ms
    through_ms = {topic.name: upto_ms.get(topic.name, 0) for topic in node.topics}
    return slices_of(lake, node, read_opening(lake, node).progress.upto_ms, through_ms)


def as_dated(of: BoundOperator, feeds: FeedTables, before: Clock) -> dict[str, pa.Table]:
    """The same with the stream times that they have for the node (L4). In: before  the clock before the first of them."""
    driving = operator_for(of.operator.node).driving
    times = times_of([*feeds.values()], before, {}, (), driving)
    return {name: raised(rows, times, driving) for name, rows in feeds.items()}


def set_apart(feed: str, rows: pa.Table, unusable: Sequence[Unusable]) -> pa.Table:
    """The rows of a feed, with the fate and reason of the records that the node cannot use."""
    marks = {(one.topic, one.partition, one.offset): one for one in unusable if one.feed == feed}
    if not marks:
        return rows
    places = zip(*(rows[name].to_pylist() for name in (TOPIC, PARTITION, OFFSET)), strict=True)
    marked = [marks.get(place) for place in places]
    fates = pa.array([one and one.fate for one in marked], pa.string())
    reasons = pa.array([one and one.reason for one in marked], pa.string())
    was_open = rows[FATE].is_null()
    reasons = pc.if_else(was_open, pc.coalesce(reasons, rows[REASON]), rows[REASON])
    return with_column(with_column(rows, FATE, pc.coalesce(rows[FATE], fates)), REASON, reasons)
