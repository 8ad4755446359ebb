"""The records that met a fate, as Arrow reads them in this process. Spark starts only where it has to compute a step.

Law: the records are those of `records_by_fate`, which Spark reads from large logs; the groups equal `by_reason` of them.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import is_of_kafka, with_unnamed
from headrace.engine.slices.log_parts import Wanted, parts_of
from headrace.engine.slices.log_slices import LogSlice, Origin, whole_log
from headrace.errors import TerminalError
from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import FATE, OFFSET, PARTITION, REASON, TOPIC
from headrace.fold.fates import FATES, KEPT, LATE, OPEN, USED
from headrace.fold.keys import combined, group
from headrace.fold.values.columns import MOMENT
from headrace.fold.values.json_text import json_values
from headrace.lake import open_table
from headrace.log.history.views import REDRIVEN
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.descriptions.topics import nodes_below
from headrace.nodes.node_tables import progress_of
from headrace.nodes.rows.feed_tables import read_feeds, read_slices
from headrace.observe.fates.dead_letters import NO_REASON, NUMBER, DeadLetters, by_reason, group_of
from headrace.observe.fates.records_by_fate import (
    POSITION,
    below_topic,
    nodes_with_fate,
    records_behind,
    records_by_fate,
)
from headrace.sequence.log_columns import DEAD_LETTER
from headrace.spark.session import pinned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake
    from headrace.nodes.rows.feed_tables import FeedTables

CONTENTS = ("key", "value", "raw_key", "raw_value", "kind")
HERE_BYTES = 64 << 20  # of the logs' Parquet; Spark reads larger logs
_NO_RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("ingested_at", MOMENT),
        ("reason", pa.string()),
        ("node", pa.string()),
        ("fate", pa.string()),
    ]
).empty_table()


class FatedRecords:
    """Groups the records of a fate in a lake by reason."""

    def __init__(self, spark: SparkSession, lake: Lake, examples: int) -> None:
        """In: spark  may start on demand; examples  how many of each reason are shown, the newest."""
        self._spark, self._lake, self._examples = spark, lake, examples

    def of_node(self, node: Node, *fates: str) -> list[DeadLetters]:
        """The records behind counts of a node (see `Views.records`), by fate and by reason; most first.

        Its logs are read once, whatever the fates.

        Raises: DescriptionError when there is no such fate
        """
        node = resolve_references(self._lake, node)
        nodes = {fate: nodes_with_fate(node, fate) for fate in fates}
        records = self._records(nodes)
        if records is None:
            return by_reason(records_behind(pinned(self._spark), self._lake, node, *fates), self._examples)
        parts = (records.filter(pc.equal(records["fate"], fate)) for fate in FATES if fate in fates)
        return [found for part in parts for found in self._grouped(part, _topics_of(node))]

    def of_topic(self, topic: Topic, nodes: Sequence[Node]) -> tuple[list[DeadLetters], int]:
        """The dead letters of a topic, and those of the nodes below it, by reason; and how many stand in the log again.

        In: nodes  of the pipeline
        """
        groups, again = self.of_log(topic)
        for node in with_unnamed(
            [resolve_references(self._lake, each) for each in nodes_below(topic, nodes)]
        ):
            records = self._records({DEAD_LETTER: [node]})
            if records is None:
                frame = records_by_fate(pinned(self._spark), self._lake, node, DEAD_LETTER)
                groups += by_reason(below_topic(frame, topic), self._examples)
                continue
            from_here = pc.or_(
                pc.equal(records["topic"], topic.name), pc.match_substring(records["topic"], "@")
            )
            groups += self._grouped(
                records.filter(pc.and_(from_here, records["node"].is_valid())), _topics_of(node)
            )
        return _most_first(groups), again

    def of_log(self, topic: Topic) -> tuple[list[DeadLetters], int]:
        """The dead letters of a topic's log, by reason; and how many of them stand in the log again.

        Raises: TerminalError when the topic has no log
        """
        uri = self._lake.log(topic.name)
        if not open_table(uri).exists:
            raise TerminalError(
                f"Topic '{topic.name}' has no log in {self._lake.root}.",
                hint="Its log begins when its stream starts.",
            )
        log = whole_log(uri)
        names = [name for name in _NO_RECORDS.column_names if name not in ("node", "fate")]
        dead = Wanted({Origin(("kind",), pa.string()): pa.array([DEAD_LETTER])})
        parts = [_log_rows(part, names) for part in parts_of(log, dead)]
        of_nobody = [
            part.append_column("node", pa.nulls(part.num_rows, pa.string())).append_column(
                "fate", pa.repeat(DEAD_LETTER, part.num_rows)
            )
            for part in parts
        ]
        records = pa.concat_tables([_NO_RECORDS, *(part.cast(_NO_RECORDS.schema) for part in of_nobody)])
        return self._grouped(records, [topic]), _sent_again(log, topic) if records.num_rows else 0

    def _records(self, nodes: Mapping[str, Sequence[Node]]) -> pa.Table | None:
        """The records of some nodes by fate, each once for a node; those that are dead for every node once. None: ask Spark.

        In: nodes  for each fate
        """
        tables = [_NO_RECORDS]
        for name, node in {each.required_name: each for some in nodes.values() for each in some}.items():
            if not progress_of(self._lake, node).upto_ms:
                continue  # it has read nothing yet
            rows = FatedRows(self._spark, self._lake, node)
            if rows.bytes > HERE_BYTES:
                return None
            asked = [fate for fate, some in nodes.items() if name in {each.required_name for each in some}]
            for fate, (_, part) in ((each, found) for each in asked for found in rows.of(each)):
                with_fate = part.append_column("fate", pa.repeat(fate, part.num_rows))
                tables.append(with_fate.select(_NO_RECORDS.column_names).cast(_NO_RECORDS.schema))
        every = pa.concat_tables(tables)
        both = [("ingested_at", "first"), ("reason", "first")]
        once = every.group_by([*POSITION, "node", "fate"], use_threads=False).aggregate(both)
        return once.rename_columns({f"{name}_first": name for name, _ in both}).select(
            _NO_RECORDS.column_names
        )

    def _grouped(self, records: pa.Table, topics: Iterable[Topic]) -> list[DeadLetters]:
        if not records.num_rows:
            return []
        newest = [("ingested_at", "descending"), ("partition", "ascending"), ("offset", "descending")]
        records = records.set_column(
            records.schema.get_field_index("reason"), "reason", records["reason"].fill_null(NO_REASON)
        ).sort_by(newest)
        texts = records["reason"].combine_chunks().dictionary_encode()
        alike = pa.array([re.sub(NUMBER, "#", text) for text in texts.dictionary.to_pylist()], pa.string())
        records = records.append_column("alike", alike.take(texts.indices))
        groups = combined(group(records["alike"]).codes, group(records["node"]).codes)
        by_name = {topic.name: topic for topic in topics}
        shown = []
        for number in range(len(groups)):
            places = np.flatnonzero(groups.codes == number)
            first_at = records["ingested_at"][int(places[-1])].as_py()
            rows = records.take(pa.array(places[: max(self._examples, 1)])).to_pylist()
            counts = {"records": len(places), "first_at": first_at}
            examples = [{**row, **counts, **self._contents(by_name[row["topic"]], row)} for row in rows]
            shown.append(group_of(rows[0]["alike"], rows[0]["node"], examples, self._examples))
        return _most_first(shown)

    def _contents(self, topic: Topic, row: Mapping[str, Any]) -> dict[str, bytes | None]:
        """Key and value of a record."""
        at_ms = round(row["ingested_at"].timestamp() * 1_000)
        commit = LogSlice.of(self._lake.log(topic.name), at_ms - 1, at_ms)
        rows = _log_rows(commit, (*POSITION, *CONTENTS))
        is_it = pc.and_(
            pc.equal(rows["partition"], row["partition"]), pc.equal(rows["offset"], row["offset"])
        )
        ((key, value),) = contents(rows.filter(is_it), topic)
        return {"key": key, "value": value}


class FatedRows:
    """The records of a node by the fate that they met. Its logs are read once, and have to fit into memory."""

    def __init__(self, spark: SparkSession, lake: Lake, node: Node, more: Sequence[str] = ()) -> None:
        """Nothing is read yet. In: more  columns of the log that are wanted, too."""
        self._spark, self._lake, self._node, self._more = spark, lake, node, more
        self._slices = read_slices(lake, node)

    @property
    def bytes(self) -> int:
        """The size of the files of the logs."""
        return sum(part.bytes for part in self._slices.values())

    def of(self, fate: str) -> list[tuple[Topic, pa.Table]]:
        """The records of each log that met a fate, in any order.

        Out: topic, partition, offset, ingested_at, reason, node (see `records_by_fate`), and those that are wanted, too
        """
        places = self._places(fate)
        return [(topic, self._of_log(topic, places)) for topic in self._node.topics]

    def _places(self, fate: str) -> pa.Table:
        """Topic, partition and offset of the records that met a fate, and `why`."""
        if fate == LATE and self._late is not None:
            most = self._late.group_by([*POSITION]).aggregate([("late_by_ms", "max")])
            why = [f"late by {ms / 1_000:,.3f} s" for ms in most["late_by_ms_max"].to_pylist()]
            return most.select([*POSITION]).append_column("why", pa.array(why, pa.string()))
        decided = self._decided
        decided = decided.filter(pc.equal(decided[FATE], KEPT if fate in (USED, OPEN) else fate))
        return decided.select([TOPIC, PARTITION, OFFSET, REASON]).rename_columns([*POSITION, "why"])

    def _of_log(self, topic: Topic, places: pa.Table) -> pa.Table:
        """The records of one log, with their commit times and reasons, and the node for which alone they are dead."""
        log = self._logs[topic.name]
        here = log.select(["partition", "offset"]).append_column("number", pa.array(np.arange(log.num_rows)))
        pairs = places.filter(pc.equal(places["topic"], topic.name)).join(
            here, ["partition", "offset"], join_type="inner"
        )
        rows = log.take(pairs["number"])
        nobody = pa.scalar(None, pa.string())
        columns = {name: rows[name] for name in rows.column_names} | {
            "topic": pairs["topic"],
            "reason": pc.coalesce(pairs["why"], rows["reason"]),
            "node": pc.if_else(pc.equal(rows["kind"], DEAD_LETTER), nobody, self._node.required_name),
        }
        return pa.table(columns)

    @cached_property
    def _feeds(self) -> FeedTables:
        return read_feeds(self._spark, self._lake, self._node, bound(self._spark, self._node))

    @cached_property
    def _decided(self) -> pa.Table:
        decided = bound(self._spark, self._node).operator.kernel.decided(self._feeds)
        return decided.filter(decided[OFFSET].is_valid())

    @cached_property
    def _late(self) -> pa.Table | None:
        waits = self._node.update_source is not self._node
        return late_rows(self._spark, self._lake, self._node, None if waits else self._feeds)

    @cached_property
    def _logs(self) -> dict[str, pa.Table]:
        names = (*POSITION[1:], "ingested_at", "reason", "kind", *self._more)
        return {topic: _log_rows(part, names) for topic, part in self._slices.items()}


def contents(rows: pa.Table, topic: Topic) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of each record: JSON as the log has them; of the log's own dead letters their bytes.

    In: rows  with CONTENTS
    """
    nothing = [None] * rows.num_rows
    keys = _json(rows["key"]) if topic.key_columns else nothing
    values = _json(rows["value"])
    raw_keys, raw_values = (
        (rows[f"raw_{name}"].to_pylist() if is_of_kafka(topic) else nothing) for name in ("key", "value")
    )
    is_dead = [kind == DEAD_LETTER for kind in rows["kind"].to_pylist()]
    raw, read = zip(raw_keys, raw_values, strict=True), zip(keys, values, strict=True)
    return [bytes_of if dead else text for dead, bytes_of, text in zip(is_dead, raw, read, strict=True)]


def _topics_of(node: Node) -> list[Topic]:
    """Those of its steps without a name, too."""
    return [topic for each in with_unnamed([node]) for topic in each.topics]


def _sent_again(log: LogSlice, topic: Topic) -> int:
    """How many dead letters of a log stand in it again, by the last header of a record that names one."""
    places = set[tuple[int, int] | None]()
    for part in parts_of(log, Wanted()):
        headers = whole(_log_rows(part, ("headers",))["headers"])
        each, of = pc.list_flatten(headers), pc.list_parent_indices(headers)
        is_it = pc.equal(pc.struct_field(each, "key"), REDRIVEN)
        names = pc.struct_field(each, "value").filter(is_it).to_pylist()
        last = dict(zip(of.filter(is_it).to_pylist(), names, strict=True))
        places |= {_place(name, topic.name) for name in last.values()}
    return len(places - {None})


def _place(header: bytes | None, topic: str) -> tuple[int, int] | None:
    """The partition and offset of the dead letter that a record repeats; None if its header names none of this topic."""
    try:
        own, partition, offset = json.loads(header or b"")[:3]
        return (int(partition), int(offset)) if own == topic else None
    except (ValueError, TypeError):
        return None


def late_rows(
    spark: SparkSession, lake: Lake, node: Node, feeds: FeedTables | None = None
) -> pa.Table | None:
    """Late records, one row for each record and closed window; None: nothing can be late.

    In: feeds  the rows of `node.update_source`; None: they are read
    """
    of = bound(spark, node.update_source)
    kernel = of.operator.kernel
    if kernel.late_scope is None:
        return None
    late: pa.Table = kernel.late(kernel.rows(read_feeds(spark, lake, node, of) if feeds is None else feeds))
    return late


def _log_rows(part: LogSlice, names: Sequence[str]) -> pa.Table:
    """Some columns of a log; those that it does not have are left out."""
    types = open_table(part.uri).columns
    return part.read({name: Origin((name,), types.field(name).type) for name in names if name in types.names})


def _json(column: pa.ChunkedArray) -> list[bytes | None]:
    return [text and text.encode() for text in json_values(column.combine_chunks()).to_pylist()]


def _most_first(groups: Sequence[DeadLetters]) -> list[DeadLetters]:
    return sorted(groups, key=lambda each: (-each.records, each.reason, each.node or ""))
