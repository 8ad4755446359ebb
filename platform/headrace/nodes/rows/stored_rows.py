"""The rows of a node's tables as of one micro-batch, as this process reads them: the counterpart of `NodeFrames`.

Law: `table_rows` has the rows that `shown_results` has. All of them are in memory at once, so callers ask for tables
of tests and of small lakes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.state_files import StateSource
from headrace.engine.state_layout import StateLayout
from headrace.engine.state_reads import read_state
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import BATCH, DELETED, KEY, Needs
from headrace.lake import last_commit, open_table
from headrace.lake.files.sorted_rows import all_rows, fitted
from headrace.nodes.node_tables import read_progress
from headrace.nodes.rows import state_views
from headrace.nodes.rows.state_frames import StateTables
from headrace.operators.contract import SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator
    from headrace.nodes.progress import Progress


@dataclass(frozen=True)
class StoredRows:
    """The content of a node's tables.

    results   rows of the result table
    state     the files of the state
    progress  how far the node has come
    folded    of results that are revised: the micro-batch through which changes are in `results`
    version   of the result table
    """

    of: BoundOperator
    results: pa.Table
    state: StateSource
    progress: Progress
    folded: int = 0
    version: int = 0

    @cached_property
    def table(self) -> pa.Table:
        """The results as people see them (see `node_frames.shown_results`); columns that begin with `__` are internal."""
        node = self.of.operator.node
        if not node.has_days:
            return current_rows(self.results, kept_results(self.of, self.state), self.folded)
        if not node.shows_open:
            return self.results
        windows = state_views.open_windows(self.of, StateTables(self.state), self.progress.clock)
        return pa.concat_tables([self.results, windows], promote_options="default")

    @property
    def judged(self) -> pa.Table:
        """The rows that count before others: appended ones, which are final, and current ones; no open windows."""
        return self.results if self.of.operator.node.has_days else self.table


def stored_rows(lake: Lake, node: Node, of: BoundOperator) -> StoredRows:
    """The content of a node's tables as of its last micro-batch.

    The base of current results is read first, because the progress only moves on. Appended results are read after the
    progress: their commit times tell the rows beyond it.
    """
    name = node.required_name
    results, state = open_table(lake.table(name)), open_table(lake.state(name))
    base = results.snapshot()
    folded = None if node.has_days else last_commit(results, f"fold/{name}", through=base.version)
    snapshot = state.snapshot()
    progress = read_progress(lake, node, through=snapshot.version)
    if node.has_days:
        base = results.snapshot()
    rows = rows_of((f"{results.uri}/{name}" for name in base.files), results.columns)
    if node.has_days:
        rows = settled(rows, progress.frontier_ms(node))
    source = StateSource(state.uri, snapshot.files)
    batch = 0 if folded is None else folded.record["batch"]
    return StoredRows(of, rows, source, progress, batch, base.version)


def rows_of(uris: Iterable[str], schema: pa.Schema) -> pa.Table:
    """The rows of files. In: schema  of the result; what a file lacks is null."""
    return pa.concat_tables([schema.empty_table(), *all_rows([*uris], schema)]).combine_chunks()


def settled(rows: pa.Table, frontier_ms: int) -> pa.Table:
    """The appended rows that logs read that far lead to."""
    return rows.filter(pc.less_equal(rows[SEQUENCE], frontier_ms))


def kept_results(of: BoundOperator, state: StateSource) -> pa.Table:
    """The newest row of each identity that a state holds, with DELETED and BATCH."""
    layout = StateLayout({RESULTS: of.operator.kept[RESULTS]})
    return read_state(state, layout, RESULTS, Needs(), remember=False).rows


def current_rows(base: pa.Table, kept: pa.Table, folded: int) -> pa.Table:
    """See `current_results.current`. In: kept  the newest row of each identity, with DELETED and BATCH."""
    since = kept.filter(pc.greater(kept[BATCH], folded))
    untouched = base.filter(pc.invert(pc.is_in(base[KEY], since[KEY].combine_chunks())))
    there = since.filter(pc.invert(since[DELETED]))
    return pa.concat_tables([untouched, fitted(there, base.schema)])
