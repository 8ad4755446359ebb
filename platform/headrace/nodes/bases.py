"""The table of current results: what has changed since is folded into it off the hot path."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.lake import as_maintainer, open_table
from headrace.nodes.node_tables import base_of
from headrace.spark.merge import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.lake.paths import Lake
    from headrace.nodes.operator_frames import OperatorFrames
    from headrace.nodes.progress import Progress


class Bases:
    """Of one node.

    folded  the micro-batch through which changes are in the base
    """

    def __init__(self, spark: SparkSession, lake: Lake, operator: OperatorFrames) -> None:
        """The tables are there already."""
        self._operator = operator
        self._name = operator.node.required_name
        self._results = open_table(lake.table(self._name))
        self.folded = base_of(spark, lake, operator.node).batch

    def fold(self, state: DataFrame, progress: Progress) -> None:
        """Merge what has changed into the base, whose record says how far it is folded.

        May run beside micro-batches: it folds what was done when it began, and every reader pairs the base with the changes
        beyond what it says is folded.

        In: state  its rows of the micro-batches after the base
        """
        fold = f"fold/{self._name}"
        record = {"writer": fold, "batch": progress.batch, "upto_ms": dict(progress.upto_ms)}
        changes = self._operator.compacted(state, self.folded)
        merge = partial(upsert, changes=changes, identity=self._operator.identity, record=record)
        as_maintainer(self._results, merge, carries=[fold])
        self.folded = progress.batch
