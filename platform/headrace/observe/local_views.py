"""The answers of `Views`, computed in the process that asks: for tests, and for logs that fit into memory.

Law: each answer has the rows of that of `Views`. Spark starts only for steps that the expressions do not cover.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import Topic, is_of_kafka, with_unnamed
from headrace.engine.log_slices import LogSlice
from headrace.errors import DescriptionError
from headrace.fold import contract
from headrace.fold.contract import FATE, OFFSET, PARTITION, REASON
from headrace.fold.fates import FATES, KEPT, LATE, OPEN, USED
from headrace.fold.json_text import json_values
from headrace.lake import open_table, small_files
from headrace.lake.sorted_rows import fitted
from headrace.nodes import state_views
from headrace.nodes.bound_operator import bound
from headrace.nodes.feed_tables import as_dated, feed_tables
from headrace.nodes.local_updates import updates_here
from headrace.nodes.node_tables import frontier_ms, read_progress, slices_of
from headrace.nodes.opening import fold_logs, read_opening
from headrace.nodes.operator_frames import nothing_late, operator_of
from headrace.nodes.references import resolve_references
from headrace.nodes.state_frames import StateTables
from headrace.nodes.stored_rows import StoredRows, rows_of, settled, stored_rows
from headrace.nodes.unusable_table import UnusableTable
from headrace.observe.views import counted_fates, ledger_rows
from headrace.sequence.log_columns import DEAD_LETTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator

POSITION = ("topic", "partition", "offset")
Place = tuple[str, int, int]
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
        """See `Views.updates`."""
        return updates_here(self.stored(node))

    def log(self, topic: Topic) -> pa.Table:
        """The log of a topic, without commit rows."""
        uri = self._lake.log(topic.name)
        return LogSlice.of(uri, 0, frontier_ms(self._lake, topic)).rows(open_table(uri).columns)

    def late(self, node: Node) -> pa.Table:
        """See `Views.late`."""
        node = resolve_references(self._lake, node)
        parts = [self._late(step) for step in with_unnamed([node])]
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
        letters = log.filter(pc.equal(log["kind"], DEAD_LETTER)).to_pylist()
        rows = [_shown(row, row["reason"], row["raw_key"], row["raw_value"], None) for row in letters]
        for node in nodes:
            rows += [row for row in self.records(node, DEAD_LETTER) if _is_below(row, of)]
        return _once(rows)

    def records(self, node: Node, fate: str) -> list[Values]:
        """See `Views.records`."""
        if fate not in FATES:
            raise DescriptionError(f"There is no fate {fate!r}.", hint=f"There are: {', '.join(FATES)}.")
        node = resolve_references(self._lake, node)
        nodes = [node] if fate in (USED, OPEN) else with_unnamed([node])
        return _once([row for each in nodes for row in self._records(each, fate)])

    def recompute(self, node: Node) -> pa.Table:
        """See `Views.recompute`."""
        node = resolve_references(self._lake, node)
        of, operator, opening = bound(self._spark, node), operator_of(node), read_opening(self._lake, node)
        upto_ms = read_progress(self._lake, node).upto_ms
        folder = f"{self._lake.scratch(node.required_name)}/{uuid.uuid4().hex}"
        try:
            folded = fold_logs(self._spark, self._lake, node, upto_ms, opening, folder)
            uris = [f"{folded.results_uri}/{name}" for name in folded.results]
            rows = rows_of(uris, of.result_schema)
            if operator.appended and not opening.is_at_the_beginning:
                before = settled(self.stored(node).results, operator.frontier_ms(opening.progress))
                rows = pa.concat_tables([before, fitted(rows, before.schema)])
            stored = StoredRows(of, rows, folded.source, folded.progress, NOTHING_FOLDED)
            return _without_internal(stored.table)
        finally:
            small_files.delete(folder)

    def _late(self, node: Node) -> pa.Table | None:
        """The late records of one node; None: none can be late."""
        of = bound(self._spark, operator_of(node).updated)
        kernel = of.operator.kernel
        return None if kernel.late_scope is None else kernel.late(kernel.rows(self._feeds(node, of)))

    def _records(self, node: Node, fate: str) -> list[Values]:
        """The records of one node's logs that met a fate."""
        late = self._late(node) if fate == LATE else None
        reasons = self._decided(node, fate) if late is None else _how_late(late)
        topics = {topic.name: topic for topic in node.topics}
        found = list[Values]()
        for name, topic in topics.items():
            rows = self._slices(node)[name].rows(open_table(self._lake.log(name)).columns)
            places = zip(*(rows[each].to_pylist() for each in POSITION), strict=True)
            mine = [number for number, place in enumerate(places) if place in reasons]
            found += _rows_shown(rows.take(pa.array(mine, pa.int64())), topic, reasons, node.required_name)
        return found

    def _decided(self, node: Node, fate: str) -> dict[Place, str | None]:
        """The reason of each record that met a fate."""
        of = bound(self._spark, node)
        rows = of.operator.kernel.decided(self._feeds(node, of))
        meant = KEPT if fate in (USED, OPEN) else fate
        rows = rows.filter(pc.and_(pc.equal(rows[FATE], meant), rows[OFFSET].is_valid()))
        columns = (rows[name].to_pylist() for name in (contract.TOPIC, PARTITION, OFFSET, REASON))
        return {
            (topic, partition, offset): why for topic, partition, offset, why in zip(*columns, strict=True)
        }

    def _feeds(self, node: Node, of: BoundOperator) -> dict[str, pa.Table]:
        """The rows of a node's feeds since its opening balance, as it dates them."""
        unusable = UnusableTable(self._spark, self._lake, node).read()
        feeds = feed_tables(self._spark, of, self._slices(node), unusable)
        return as_dated(of, feeds, read_opening(self._lake, node).progress.clock)

    def _slices(self, node: Node) -> dict[str, LogSlice]:
        """The logs of a node since its opening balance, as far as it has read them."""
        after_ms = read_opening(self._lake, node).progress.upto_ms
        upto_ms = read_progress(self._lake, node).upto_ms
        through_ms = {topic.name: upto_ms.get(topic.name, 0) for topic in node.topics}
        return slices_of(self._lake, node, after_ms, through_ms)


def _how_late(late: pa.Table) -> dict[Place, str | None]:
    """By how much each record is late, for the window that it missed by most."""
    by_ms: dict[Place, int] = {}
    for *place, late_ms in zip(*(late[name].to_pylist() for name in (*POSITION, "late_by_ms")), strict=True):
        by_ms[tuple(place)] = max(late_ms, by_ms.get(tuple(place), late_ms))
    return {place: f"late by {late_ms / 1000:,.3f} s" for place, late_ms in by_ms.items()}


def _rows_shown(
    rows: pa.Table, topic: Topic, reasons: Mapping[Place, str | None], node: str
) -> Iterator[Values]:
    """Rows of a log as people see them."""
    nothing = [None] * rows.num_rows
    keys = json_values(rows["key"].combine_chunks()).to_pylist() if topic.key_columns else nothing
    values = json_values(rows["value"].combine_chunks()).to_pylist()
    for row, key, value in zip(rows.to_pylist(), keys, values, strict=True):
        why = reasons[row["topic"], row["partition"], row["offset"]]
        reason = row["reason"] if why is None else why
        if row["kind"] == DEAD_LETTER:
            raw_key, raw_value = (row["raw_key"], row["raw_value"]) if is_of_kafka(topic) else (None, None)
            yield _shown(row, reason, raw_key, raw_value, None)
        else:
            yield _shown(row, reason, key and key.encode(), value and value.encode(), node)


def _shown(
    row: Values, reason: str | None, key: bytes | None, value: bytes | None, node: str | None
) -> Values:
    own = {name: row[name] for name in (*POSITION, "timestamp")}
    more = {name: row[name] for name in ("headers", "ingested_at")}
    return {**own, "reason": reason, "key": key, "value": value, **more, "node": node}


def _is_below(row: Values, topic: Topic) -> bool:
    """See `records_by_fate.below_topic`."""
    return row["node"] is not None and (row["topic"] == topic.name or "@" in row["topic"])


def _once(rows: Iterable[Values]) -> list[Values]:
    """The records of several nodes; those of a log, which are dead for each of them, once."""
    return [*{(*(row[name] for name in POSITION), row["node"]): row for row in rows}.values()]


def _without_internal(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.column_names if not name.startswith("__")])
