"""`why-not`: the fate of one record in each node that reads it, and the nearest other outcome.

Law: fates are those of the oracle. With the setting that a miss states the oracle counts the record. A record that no node
below can see, because the node above gave no row with it, is not reached there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.description import NodeOutput, Topic, is_unnamed
from headrace.description.node_output import output_name
from headrace.description.topology import words_of
from headrace.engine.log_slices import LogSlice
from headrace.explain.dropping_step import dropping_step
from headrace.explain.logged_record import LoggedRecord, logged_record
from headrace.explain.recomputation import WORK_MAX, Recomputation, place_of
from headrace.explain.row_cause import ExplainedNode
from headrace.fold.fates import DEAD_LETTER, DUPLICATE, FILTERED, LATE, OPEN, TOMBSTONE, USED
from headrace.lake import open_table
from headrace.nodes.node_tables import read_progress
from headrace.nodes.references import resolve_references
from headrace.nodes.topics import reads, upstream_first
from headrace.operators.provenance import Miss, may_take_part, miss_of, passed_before
from headrace.oracle import Log
from headrace.oracle.values import identity
from headrace.sequence.log_columns import ERASED, RECORD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.oracle import Results
    from headrace.oracle.log import Row

NOT_FOLDED, NOT_REACHED = "not_folded", "not_reached"
ROWS_MAX = 5  # of a node's rows that are named, and followed into the nodes below
Values = Mapping[str, Any]


@dataclass(frozen=True)
class NodeFate:
    """The fate of a record in one node.

    node    its name; title  for people: of a step without a name what it does
    fate    one of the ledger's, or "not_folded", or "not_reached": the node above gave no row with it
    reason  why, if the fate alone does not say it
    step    the row-wise step that drops it, and in `step_values` the columns that this step reads
    missed  the windows that it came too late for; a record may miss some and count in others
    rows    the rows that it is in: those of its key and time, or those that differ without it
    below   its fates in the nodes that read this one, each by way of a row of this node
    through the offset of that row in the log of the node above; None: it comes from a topic
    """

    node: str
    title: str
    fate: str
    reason: str | None = None
    step: str | None = None
    step_values: Values = field(default_factory=dict)
    missed: Sequence[Miss] = ()
    rows: Sequence[Values] = ()
    below: Sequence[NodeFate] = ()
    through: int | None = None


@dataclass(frozen=True)
class RecordFate:
    """A record of a log, and its fates. A place without a record has none (see `LoggedRecord.state`)."""

    record: LoggedRecord
    nodes: Sequence[NodeFate]


def fate_of_record(
    spark: SparkSession,
    lake: Lake,
    nodes: Sequence[Node],
    place: tuple[Topic | Node, int, int],
    *,
    large: bool = False,
) -> RecordFate:
    """The fate of a record in each of some nodes.

    In:     nodes  of the pipeline
            place  a topic, or a node that others read; partition and offset
            large  whether to read logs of any size, by Spark
    Raises: TerminalError when there is no log, or a node's logs and tables are too large
    """
    of, partition, offset = place
    topic = of if isinstance(of, Topic) else NodeOutput.of(resolve_references(lake, of))
    readers = [resolve_references(lake, node) for node in _below(topic.name, nodes)]
    return _Fates(spark, lake, readers, large=large).of(topic, partition, offset)


def _below(topic: str, nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes that read a topic, and those that read these, and so on."""
    names = {topic}
    for node in upstream_first(nodes):
        if names & {each.name for each in node.topics}:
            names.add(output_name(node))
            yield node


class _Fates:
    """The nodes of a pipeline, each read once."""

    def __init__(self, spark: SparkSession, lake: Lake, nodes: Sequence[Node], *, large: bool) -> None:
        self.spark, self.lake, self.nodes, self.large = spark, lake, nodes, large
        self._explained: dict[str, ExplainedNode] = {}

    def of(self, topic: Topic, partition: int, offset: int) -> RecordFate:
        """The record at a place of a log."""
        record = logged_record(self.lake, topic, partition, offset)
        if record.at_ms is None:
            return RecordFate(record, [])
        readers = [node for node in self.nodes if topic.name in {each.name for each in node.topics}]
        return RecordFate(record, [self._in_node(node, record, None) for node in readers])

    def _in_node(self, node: Node, record: LoggedRecord, through: int | None) -> NodeFate:
        name, title = node.required_name, title_of(node)
        fate, facts, rows = self._fate(node, record)
        return NodeFate(
            name,
            title,
            fate,
            rows=rows,
            below=[*self._below(node, fate, rows, record)],
            through=through,
            **facts,
        )

    def _fate(self, node: Node, record: LoggedRecord) -> tuple[str, dict[str, Any], list[Values]]:
        """The fate, the facts that explain it, and the rows that the record is in."""
        assert record.at_ms is not None
        if not lakes.exists(self.lake.table(node.required_name)) or record.at_ms > read_progress(
            self.lake, node
        ).upto_ms.get(record.topic, 0):
            return NOT_FOLDED, {}, []
        if record.state != RECORD:
            return (ERASED if record.state == ERASED else DEAD_LETTER), {"reason": record.reason}, []
        of = self._explained_node(node)
        place = record.topic, record.partition, record.offset
        seen = [_Seen(of, feed, row) for feed in of.evidence.feeds for row in _rows_at(of, feed, place)]
        best = min(seen, key=lambda each: _rank(each.fate))
        facts: dict[str, Any] = {"reason": best.reason, "missed": best.missed}
        if best.fate == FILTERED and best.row.fate == FILTERED:
            step = dropping_step(self.spark, self.lake, node, best.feed, record)
            facts |= {} if step is None else {"step": step[0], "step_values": step[1]}
        return best.fate, facts, best.rows if best.fate in (USED, OPEN) else []

    def _explained_node(self, node: Node) -> ExplainedNode:
        name = node.required_name
        if name not in self._explained:
            self._explained[name] = ExplainedNode(self.spark, self.lake, node, large=self.large)
        return self._explained[name]

    def _below(self, node: Node, fate: str, rows: Sequence[Values], record: LoggedRecord) -> list[NodeFate]:
        """The fates in the nodes that read a node."""
        readers = [reader for reader in self.nodes if reads(reader, node)]
        if not readers:
            return []
        counts = fate in (USED, OPEN)
        passed_on = self._passed_on(node, rows, record) if counts else []
        if passed_on:
            return [self._in_node(reader, each, each.offset) for reader in readers for each in passed_on]
        why = "has given no row with it yet" if counts else "did not count it"
        reason = f"{title_of(node)} {why}"
        return [
            NodeFate(
                reader.required_name,
                title_of(reader),
                NOT_REACHED,
                reason,
                below=self._below(reader, NOT_REACHED, [], record),
            )
            for reader in readers
        ]

    def _passed_on(self, node: Node, rows: Sequence[Values], record: LoggedRecord) -> list[LoggedRecord]:
        """The records that a node gave of some rows; of rows that are revised those of the record's commit."""
        output, table = NodeOutput.of(node), open_table(self.lake.log(output_name(node)))
        assert record.at_ms is not None
        if not rows or not table.exists:
            return []
        is_revised = node.day_column is None
        after_ms = record.at_ms - 1
        last_ms = record.at_ms if is_revised else read_progress(self.lake, node).upto_ms.get(record.topic, 0)
        slice_of = LogSlice.of(table.uri, after_ms, last_ms).rows(table.columns)
        columns = [n for n in ("partition", "offset", "key", "value") if n in slice_of.column_names]
        log = slice_of.select(columns).to_pylist()
        names = node.key if is_revised and node.key else node.columns
        known = {identity(row.get(name) for name in names) for row in rows}
        offsets = [
            (row["partition"], row["offset"])
            for row in log
            if row["offset"] is not None and _written(row, names) in known
        ]
        return [logged_record(self.lake, output, *each) for each in sorted(offsets)[-ROWS_MAX:]]


class _Seen:
    """A record as one feed of a node has it."""

    def __init__(self, of: ExplainedNode, feed: str, row: Row) -> None:
        self.of, self.feed, self.row, self.place = of, feed, row, place_of(row)
        self.reason, self.missed, self.rows = row.reason, list[Miss](), list[Values]()
        self.fate = row.fate or USED
        if row.fate in (None, TOMBSTONE):
            self._decide()

    def _decide(self) -> None:
        scope = self.of.scope
        keys = scope.keys_of(self.feed, self.row)
        recomputed = Recomputation(scope, scope.log(keys), keys, {})
        results = recomputed.results()
        record = next(
            r for name, r in recomputed.records() if name == self.feed and place_of(r) == self.place
        )
        self.fate = results.fates.get(self.place, record.fate or USED)
        self.missed = self._misses(record, results)
        if self.fate in (USED, OPEN):
            self.rows = self._rows(recomputed, record)
            if not record.passes:
                self.reason = "a condition of its table is false, so the table has no row of it"
        elif self.fate == DUPLICATE:
            self.reason = self._copy_of(recomputed, record, results)
        elif self.fate == FILTERED:
            self.reason = "its key has a null, which nothing is equal to"

    def _misses(self, record: Row, results: Results) -> list[Miss]:
        table = self.of.scope.table_of(self.feed)
        ends = [(start, end) for *place, start, end in results.late if tuple(place) == self.place]
        if self.fate == LATE and not ends and record.event_ms is not None:
            ends = [(record.event_ms, record.event_ms)] if not table.has_windows else []
        return [miss for ends_at in ends if (miss := miss_of(table, record, *ends_at)) is not None]

    def _rows(self, recomputed: Recomputation, record: Row) -> list[Values]:
        """The rows that the record is in; none if that would cost too much to find out."""
        node = self.of.scope.node
        rows = recomputed.rows()
        if rows and may_take_part(node, rows[0], record) is not None:
            own = [row for row in rows if may_take_part(node, row, record)]
        elif sum(map(len, recomputed.log.feeds.values())) > WORK_MAX:
            return []
        else:
            by_values = {recomputed.shown(row): row for row in rows}
            without = Counter(map(recomputed.shown, recomputed.rows({self.place})))
            own = [by_values[each] for each in (Counter(map(recomputed.shown, rows)) - without).elements()]
        return [{name: row.get(name) for name in node.columns} for row in own[-ROWS_MAX:]]

    def _copy_of(self, recomputed: Recomputation, record: Row, results: Results) -> str | None:
        earlier = [
            r
            for _, r in recomputed.records()
            if r.place < record.place and results.fates.get(place_of(r)) == USED
        ]
        first = passed_before(self.of.scope.node, record, earlier)
        return None if first is None else f"a copy of {first.topic} {first.partition}/{first.offset}"


def title_of(node: Node) -> str:
    """A node for people: its name, or what the step without a name does."""
    return f"step '{words_of(node)}'" if is_unnamed(node.required_name) else node.required_name


def _rows_at(of: ExplainedNode, feed: str, place: tuple[str, int, int]) -> list[Row]:
    """A record as the rows of a feed; a topic that flows in twice gives two."""
    return Log({feed: of.evidence.at(feed, *place)}).feeds[feed]


def _rank(fate: str) -> int:
    """A record counts in a node if it counts in one of its feeds."""
    order = (OPEN, USED, LATE, DUPLICATE)
    return order.index(fate) if fate in order else len(order)


def _written(row: Values, names: Sequence[str]) -> tuple[Any, ...]:
    values = {**(row.get("key") or {}), **(row["value"] or {})}
    return identity(values.get(name) for name in names)
