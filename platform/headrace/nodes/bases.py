"""The table of current results: what has changed since is folded into it off the hot path."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.folding.bucket_tasks import write_output
from headrace.engine.state_files import StateSource
from headrace.engine.state_layout import StateLayout
from headrace.engine.state_reads import read_state
from headrace.errors import TransientError
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import BATCH, DELETED, Needs
from headrace.fold.keys import bucket_range
from headrace.lake import APPENDER, FencedError, as_maintainer, open_table
from headrace.lake.care.merge import FOLDER, Changes, upsert
from headrace.nodes.node_tables import base_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.lake import TableWriter
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator
    from headrace.nodes.progress import Progress

PART_BYTES = 16 << 20  # of the state's files: so much of their rows is in memory at once


class ReplacedRowsError(TransientError):
    """A rebuild has replaced the results of a node since this process opened it. Nothing was merged."""


class Bases:
    """The base of one node's current results.

    Law: no row of an older state is merged into the results of a rebuild (L29). Only a swap takes an appender's epoch on
    current results, and it takes an epoch of each role before it replaces a row. So a maintainer that finds the epoch of
    `rows_of` merges into the rows that this process knows, or is fenced.

    folded  the micro-batch through which changes are in the base
    """

    def __init__(self, lake: Lake, of: BoundOperator, rows_of: int) -> None:
        """The tables are there already.

        In: rows_of  the appender's epoch of the results before the node's state was opened
        """
        node = of.operator.node
        self._name, self._identity = node.required_name, node.key
        self._layout = StateLayout({RESULTS: of.operator.kept[RESULTS]})
        self._columns = of.result_schema.append(pa.field(DELETED, pa.bool_()))
        self._results = open_table(lake.table(self._name))
        self._rows_of = rows_of
        self.folded = base_of(lake, node).batch

    def fold(self, changes: StateSource, progress: Progress) -> None:
        """Merge what has changed into the base, whose record says how far it is folded.

        May run beside micro-batches: it folds what was done when it began, and every reader pairs the base with the changes
        beyond what it says is folded.

        In:     changes  the files of the state with current results of the micro-batches after the base
        Raises: ReplacedRowsError
        """
        fold = f"fold/{self._name}"
        record = {"writer": fold, "batch": progress.batch, "upto_ms": dict(progress.upto_ms)}
        put = partial(self._put, changes=changes, record=record)
        as_maintainer(self._results, put, carries=[fold])
        self.folded = progress.batch

    def _put(self, writer: TableWriter, *, changes: StateSource, record: Mapping[str, Any]) -> int:
        self._require_same_rows(writer)
        folder = f"{writer.uri}/{FOLDER}/{uuid4()}"
        files = [write_output(folder, rows) for rows in self._newest(changes) if rows.num_rows]
        rows = Changes(folder, files, self._columns)
        try:
            return upsert(writer, changes=rows, identity=self._identity, record=record)
        finally:
            rows.remove()

    def _newest(self, changes: StateSource) -> Iterator[pa.Table]:
        """The newest row of each identity that has changed since the base, with DELETED; of some identities at a time."""
        parts = 1 + sum(file.size for file in changes.files.values()) // PART_BYTES
        for number in range(parts):
            hashes = bucket_range(number, parts)
            rows = read_state(changes, self._layout, RESULTS, Needs(), hashes, remember=False).rows
            rows = rows.filter(pc.greater(rows[BATCH], self.folded))
            yield rows.select(self._columns.names).cast(self._columns)

    def _require_same_rows(self, writer: TableWriter) -> None:
        epoch = writer.epochs.get(APPENDER, 0)
        # A swap of this very process has come since: `as_maintainer` takes a new writer.
        if epoch < self._rows_of:
            raise FencedError(f"{writer.uri}: this process opened its maintainer before the last swap.")
        if epoch > self._rows_of:
            raise ReplacedRowsError(
                f"Node '{self._name}': another process has replaced its results since this one opened it.",
                hint="The stream opens the node again by itself.",
            )
