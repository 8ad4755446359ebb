"""The answers of `Views`, computed in the process that asks: for tests, and for logs that fit into memory.

Law: each answer has the rows of that of `Views`. Spark starts only for steps that the expressions do not cover.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import Topic, with_unnamed
from headrace.engine.slices.log_slices import LogSlice
from headrace.lake import open_table
from headrace.lake.files.sorted_rows import fitted
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.node_tables import frontier_ms, read_progress
from headrace.nodes.rows import state_views
from headrace.nodes.rows.row_frames import nothing_late
from headrace.nodes.rows.state_frames import StateTables
from headrace.nodes.rows.stored_rows import StoredRows, rows_of, settled, stored_rows
from headrace.nodes.rows.updates import updates_of
from headrace.observe.fates.fated_records import CONTENTS, FatedRows, contents, late_rows
from headrace.observe.fates.records_by_fate import POSITION, nodes_with_fate
from headrace.observe.views import counted_fates, ledger_rows
from headrace.sequence.log_columns import DEAD_LETTER
from headrace.writing.fold_aside import folded_logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

COLUMNS = (*POSITION, "timestamp", "reason", "key", "value", "headers", "ingested_at", "node")
Values = dict[str, Any]
NOTHING_FOLDED = -1  # what a fold of the log leads to is in the state alone


class LocalViews:
    """Reads the tables of a lake, each as of its node's last micro-batch."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        """In: spark  a session, or one on demand (see `SparkOnDemand`)."""
        self._spark, self._lake = spark, lake

    def stored(self, node: Node) -> StoredRows:
        """The content of a node's tables."""
        node = resolve_references(self._lake, node)
        return stored_rows(self._lake, node, bound(self._spark, node))

    def read(self, node: Node) -> pa.Table:
        """See `Views.read`."""
        return _without_internal(self.stored(node).table)

    def updates(self, node: Node) -> pa.Table:
        """Read the node's raw updates: each row as it was after each micro-batch that touched it.

        Out: the columns of `read`, and `__batch`: the micro-batch, or null for the final row of a closed window. To fold
             the updates, take each identity's row with the highest `__batch`, where null is the highest. For suppressed
             windows, upkeep puts the updates of many micro-batches together
        Law: the updates fold to the same rows however the log was cut; the rows in between depend on the cuts
        """
        return updates_of(self.stored(node))

    def log(self, topic: Topic) -> pa.Table:
        """The log of a topic, without commit rows."""
        uri = self._lake.log(topic.name)
        return LogSlice.of(uri, 0, frontier_ms(self._lake, topic)).rows(open_table(uri).columns)

    def late(self, node: Node) -> pa.Table:
        """See `Views.late`."""
        node = resolve_references(self._lake, node)
        parts = [late_rows(self._spark, self._lake, step) for step in with_unnamed([node])]
        there = [part for part in parts if part is not None]
        if not there:
            raise nothing_late(node)
        return pa.concat_tables(there, promote_options="default")

    def store(self, node: Node, store: str) -> pa.Table:
        """See `Views.store`."""
        stored = self.stored(node)
        return state_views.entries(stored.of, StateTables(stored.state), store, stored.progress.clock)

    def ledger(self, node: Node) -> pa.Table:
        """See `Views.ledger`."""
        stored = self.stored(node)
        waiting = state_views.open_records(stored.of, StateTables(stored.state), stored.progress.clock)
        rows = ledger_rows(counted_fates(stored.progress, [] if waiting is None else waiting.to_pylist()))
        columns = ("topic", "partition", "fate", "records")
        return pa.table({name: [row[n] for row in rows] for n, name in enumerate(columns)})

    def dead_letters(self, of: Topic | Node, nodes: Iterable[Node] = ()) -> list[Values]:
        """See `Views.dead_letters`."""
        if not isinstance(of, Topic):
            return self.records(of, DEAD_LETTER)
        log = self.log(of)
        letters = log.filter(pc.equal(log["kind"], DEAD_LETTER))
        of_nobody = letters.append_column("node", pa.nulls(letters.num_rows, pa.string()))
        rows = [*_rows_shown(of_nobody, of)]
        for node in nodes:
            rows += [row for row in self.records(node, DEAD_LETTER) if _is_below(row, of)]
        return _once(rows)

    def records(self, node: Node, fate: str) -> list[Values]:
        """See `Views.records`."""
        nodes = nodes_with_fate(resolve_references(self._lake, node), fate)
        return _once(row for each in nodes for row in self._records(each, fate))

    def recompute(self, node: Node) -> pa.Table:
        """See `Views.recompute`."""
        node = resolve_references(self._lake, node)
        of, opening = bound(self._spark, node), read_opening(self._lake, node)
        upto_ms = read_progress(self._lake, node).upto_ms
        with folded_logs(self._spark, self._lake, node, upto_ms, opening) as folded:
            uris = [f"{folded.results_uri}/{name}" for name in folded.results]
            rows = rows_of(uris, of.result_schema)
            if node.has_days and not opening.is_at_the_beginning:
                before = settled(self.stored(node).results, opening.progress.frontier_ms(node))
                rows = pa.concat_tables([before, fitted(rows, before.schema)])
            stored = StoredRows(of, rows, folded.source, folded.progress, NOTHING_FOLDED)
            return _without_internal(stored.table)

    def _records(self, node: Node, fate: str) -> Iterator[Values]:
        """The records of one node's logs that met a fate."""
        found = FatedRows(self._spark, self._lake, node, ("timestamp", "headers", *CONTENTS))
        for topic, rows in found.of(fate):
            yield from _rows_shown(rows, topic)


def _rows_shown(rows: pa.Table, topic: Topic) -> Iterator[Values]:
    """Records in the columns of `Views.records`."""
    for row, (key, value) in zip(rows.to_pylist(), contents(rows, topic), strict=True):
        row |= {"key": key, "value": value}
        yield {name: row[name] for name in COLUMNS}


def _is_below(row: Values, topic: Topic) -> bool:
    """See `records_by_fate.below_topic`."""
    return row["node"] is not None and (row["topic"] == topic.name or "@" in row["topic"])


def _once(rows: Iterable[Values]) -> list[Values]:
    """The records of several nodes; those of a log, which are dead for each of them, once."""
    return [*{(*(row[name] for name in POSITION), row["node"]): row for row in rows}.values()]


def _without_internal(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.column_names if not name.startswith("__")])
