"""`why-not`: the fate of one record in each node that reads it, and the nearest other outcome.

Law: fates are those of the oracle. With the setting that a miss states the oracle counts the record. A record that no node
below can see, because the node above gave no row with it, is not reached there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from headrace import lake as lakes
from headrace.description import NodeOutput, Topic, is_unnamed
from headrace.description.node_output import output_name
from headrace.description.topology import words_of
from headrace.engine.slices.log_slices import LogSlice
from headrace.explain.dropping_step import dropping_step
from headrace.explain.logged_record import LoggedRecord, logged_record
from headrace.explain.record_in_feed import ROWS_MAX, RecordInFeed, Values, rows_at
from headrace.explain.row_cause import ExplainedNode
from headrace.fold.fates import DEAD_LETTER, DUPLICATE, FILTERED, LATE, OPEN, USED
from headrace.lake import open_table
from headrace.lifecycle.oracle_check import LOCAL_BYTES, bytes_of
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.descriptions.topics import reads, upstream_first
from headrace.nodes.node_tables import read_progress
from headrace.observe.fates.fated_records import FatedRows
from headrace.operators.provenance import Miss
from headrace.oracle.values import identity
from headrace.sequence.log_columns import ERASED, RECORD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

NOT_FOLDED, NOT_REACHED = "not_folded", "not_reached"


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
    opening_records  over a cut log, how many records the node's opening balance stands for; the answer goes by the others
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
    opening_records: int = 0


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
    readers = [resolve_references(lake, node) for node in _readers_of(topic.name, nodes)]
    return _Fates(spark, lake, readers, large=large).of(topic, partition, offset)


def _readers_of(topic: str, nodes: Sequence[Node]) -> Iterator[Node]:
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
        seen = [RecordInFeed(of, feed, row) for feed in of.evidence.feeds for row in rows_at(of, feed, place)]
        best = min(seen, key=lambda each: _rank(each.fate))
        facts: dict[str, Any] = {"reason": best.reason or record.reason, "missed": best.missed}
        facts["opening_records"] = of.opening_records
        if best.fate == DEAD_LETTER and best.reason is None:
            facts["reason"] = self._refusal(of.node, record)
        if best.fate == FILTERED and best.row.fate == FILTERED:
            step = dropping_step(self.spark, self.lake, node, best.feed, record)
            facts |= {} if step is None else {"step": step[0], "step_values": step[1]}
        return best.fate, facts, best.rows if best.fate in (USED, OPEN) else []

    def _refusal(self, node: Node, record: LoggedRecord) -> str | None:
        """Why the operator of a node refuses a record, by the kernel's words."""
        if bytes_of(self.lake, node) > LOCAL_BYTES:
            return None
        for topic, rows in FatedRows(self.spark, self.lake, node).of(DEAD_LETTER):
            own = pc.and_(
                pc.equal(rows["partition"], record.partition), pc.equal(rows["offset"], record.offset)
            )
            if topic.name == record.topic:
                reasons: list[str] = rows.filter(own)["reason"].to_pylist()
                return next(iter(reasons), None)
        return None

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


def title_of(node: Node) -> str:
    """A node for people: its name, or what the step without a name does."""
    return f"step '{words_of(node)}'" if is_unnamed(node.required_name) else node.required_name


def _rank(fate: str) -> int:
    """A record counts in a node if it counts in one of its feeds."""
    order = (OPEN, USED, LATE, DUPLICATE)
    return order.index(fate) if fate in order else len(order)


def _written(row: Values, names: Sequence[str]) -> tuple[Any, ...]:
    values = {**(row.get("key") or {}), **(row["value"] or {})}
    return identity(values.get(name) for name in names)
