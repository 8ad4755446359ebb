"""The table of current results: what has changed since is folded into it off the hot path."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import TransientError
from headrace.lake import APPENDER, as_maintainer, open_table
from headrace.nodes.node_tables import base_of
from headrace.spark.merge import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.lake import TableWriter
    from headrace.lake.paths import Lake
    from headrace.nodes.operator_frames import OperatorFrames
    from headrace.nodes.progress import Progress


class ReplacedRowsError(TransientError):
    """A rebuild has replaced the results of a node since this process opened it. Nothing was merged."""


class Bases:
    """The base of one node's current results.

    Law: no row of an older state is merged into the results of a rebuild (L29). Only a swap takes an appender's epoch on
    current results, and it takes an epoch of each role before it replaces a row. So a maintainer that finds the epoch of
    `rows_of` merges into the rows that this process knows, or is fenced.

    folded  the micro-batch through which changes are in the base
    """

    def __init__(self, lake: Lake, operator: OperatorFrames, rows_of: int) -> None:
        """The tables are there already.

        In: rows_of  the appender's epoch of the results before the node's state was opened
        """
        self._operator = operator
        self._name = operator.node.required_name
        self._results = open_table(lake.table(self._name))
        self._rows_of = rows_of
        self.folded = base_of(lake, operator.node).batch

    def fold(self, state: DataFrame, progress: Progress) -> None:
        """Merge what has changed into the base, whose record says how far it is folded.

        May run beside micro-batches: it folds what was done when it began, and every reader pairs the base with the changes
        beyond what it says is folded.

        In:     state  its rows of the micro-batches after the base
        Raises: ReplacedRowsError
        """
        fold = f"fold/{self._name}"
        record = {"writer": fold, "batch": progress.batch, "upto_ms": dict(progress.upto_ms)}
        changes = self._operator.compacted(state, self.folded)
        merge = partial(upsert, changes=changes, identity=self._operator.node.key, record=record)
        as_maintainer(self._results, lambda writer: merge(self._require_same_rows(writer)), carries=[fold])
        self.folded = progress.batch

    def _require_same_rows(self, writer: TableWriter) -> TableWriter:
        if writer.epochs.get(APPENDER, 0) != self._rows_of:
            raise ReplacedRowsError(
                f"Node '{self._name}': another process has replaced its results since this one opened it.",
                hint="The stream opens the node again by itself.",
            )
        return writer
