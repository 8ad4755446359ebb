"""The rows of a node's logs as the node decides them, read by Arrow in this process: for people.

Law: the rows are those of `reader_frames` and `row_frames`, which Spark computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.engine.clocks import raised, times_of
from headrace.engine.log_slices import LogSlice
from headrace.expressions import SparkNeededError
from headrace.nodes.bound_operator import bound
from headrace.nodes.feed_tables import set_apart
from headrace.nodes.node_tables import progress_of
from headrace.nodes.opening import read_opening
from headrace.nodes.operator_frames import operator_of
from headrace.nodes.unusable_table import UnusableTable
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator

HERE_BYTES = 64 << 20  # of the logs' Parquet; larger logs are read by Spark


@dataclass(frozen=True)
class ReaderRows:
    """The rows of a node's feeds, as far as the node has read.

    bound   the operator that decides them
    feeds   by name; records that the node cannot use are decided
    slices  of each topic's log the part that was read
    """

    bound: BoundOperator
    feeds: Mapping[str, pa.Table]
    slices: Mapping[str, LogSlice]

    @property
    def decided(self) -> pa.Table:
        """The rows with FATE and REASON completed."""
        decided: pa.Table = self.bound.operator.kernel.decided(self.feeds)
        return decided

    @property
    def late(self) -> pa.Table | None:
        """Late records, one row for each record and closed window; None: nothing can be late."""
        kernel = self.bound.operator.kernel
        return None if kernel.late_scope is None else kernel.late(kernel.rows(self.feeds))


def reader_rows(spark: SparkSession, lake: Lake, node: Node, *, updated: bool = False) -> ReaderRows | None:
    """The rows of a node; None: Spark has to compute a step, or the logs are large.

    In: spark    may be one that starts on demand; it starts only if Spark has to say what types there are
        updated  whether the rows are for the node whose updates a suppression waits for
    """
    of, opening, progress = (
        bound(spark, operator_of(node).updated if updated else node),
        read_opening(lake, node).progress,
        progress_of(lake, node),
    )
    slices = {
        topic.name: LogSlice.of(
            lake.log(topic.name), opening.upto_ms.get(topic.name, 0), progress.upto_ms.get(topic.name, 0)
        )
        for topic in node.topics
    }
    if of.rows.stepped or sum(each.bytes for each in slices.values()) > HERE_BYTES:
        return None
    try:
        feeds = {name: feed.read(slices) for name, feed in of.rows.packed.feeds.items()}
    except SparkNeededError:
        return None
    driving, unusable = operator_for(node).driving, UnusableTable(spark, lake, node).read()
    times = times_of([*feeds.values()], opening.clock, progress.upto_ms, (), driving)
    feeds = {name: raised(set_apart(name, rows, unusable), times, driving) for name, rows in feeds.items()}
    return ReaderRows(of, feeds, slices)
