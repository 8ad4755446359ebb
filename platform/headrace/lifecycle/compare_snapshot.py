"""The comparison of one snapshot of a node with its log: all that is said of the snapshot is said of one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.lifecycle.backfill import Backfill

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.lifecycle.backfill_plan import DayVerdict
    from headrace.nodes.node_frames import NodeFrames
    from headrace.nodes.progress import Progress


class SnapshotComparison(Backfill):
    """A backfill that swaps nothing, of the tables as of a micro-batch; the stream may be ahead of it."""

    def __init__(
        self, spark: SparkSession, lake: Lake, node: Node, frames: NodeFrames, progress: Progress
    ) -> None:
        """In: held, progress  the node's tables as of one micro-batch."""
        super().__init__(spark, lake, node)
        self._held, self.progress = frames, progress

    def verdicts(self) -> list[DayVerdict]:
        """Recompute and compare, day by day. Raises: LeaseTakenError when a backfill of the node is running."""
        return self.run(swap=False)

    def _table(self) -> DataFrame:
        """The rows of the snapshot; of current results with the changes that are not folded yet."""
        if self._operator.appended:
            return self._held.results
        return self._operator.read(self._held, self.progress)

    @property
    def _upto_ms(self) -> Mapping[str, int]:
        return self.progress.upto_ms
