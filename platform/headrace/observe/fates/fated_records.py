"""The records that met a fate, as Arrow reads them in this process. Spark starts only where it has to compute a step.

Law: the records are those of `records_by_fate`, which Spark reads from large logs; the groups equal `by_reason` of them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import is_of_kafka, with_unnamed
from headrace.engine.log_parts import Wanted, parts_of
from headrace.engine.log_slices import LogSlice, Origin, whole_log
from headrace.errors import TerminalError
from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import FATE, OFFSET, PARTITION, REASON, TOPIC
from headrace.fold.fates import KEPT, LATE, OPEN, USED
from headrace.fold.keys import combined, group
from headrace.fold.values.json_text import json_values
from headrace.lake import open_table
from headrace.log.views import REDRIVEN
from headrace.nodes.bound_operator import bound
from headrace.nodes.feed_tables import read_feeds, read_slices
from headrace.nodes.node_tables import progress_of
from headrace.nodes.references import resolve_references
from headrace.nodes.topics import nodes_below
from headrace.observe.fates.dead_letters import NO_REASON, NUMBER, DeadLetters, by_reason, group_of
from headrace.observe.fates.records_by_fate import POSITION, below_topic, nodes_with_fate, records_by_fate
from headrace.observe.views import Views
from headrace.sequence.log_columns import DEAD_LETTER
from headrace.spark.session import pinned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake

CONTENTS = ("key", "value", "raw_key", "raw_value", "kind")
HERE_BYTES = 64 << 20  # of the logs' Parquet; Spark reads larger logs
_NO_RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("ingested_at", pa.timestamp("us", "UTC")),
        ("reason", pa.string()),
        ("node", pa.string()),
    ]
).empty_table()


class FatedRecords:
    """Groups the records of a fate in a lake by reason."""

    def __init__(self, spark: SparkSession, lake: Lake, examples: int) -> None:
        """In: spark  may start on demand; examples  how many of each reason are shown, the newest."""
        self._spark, self._lake, self._examples = spark, lake, examples

    def of_node(self, node: Node, fate: str) -> list[DeadLetters]:
        """The records behind a count of a node, by reason (see `Views.records`); most first.

        Raises: DescriptionError when there is no such fate
        """
        node = resolve_references(self._lake, node)
        records = self._records(nodes_with_fate(node, fate), fate)
        if records is None:
            return by_reason(Views(self._spark, self._lake).records(node, fate), self._examples)
        return self._grouped(records, _topics_of(node))

    def of_topic(self, topic: Topic, nodes: Sequence[Node]) -> tuple[list[DeadLetters], int]:
        """The dead letters of a topic, and those of the nodes below it, by reason; and how many stand in the log again.

        In: nodes  of the pipeline
        """
        groups, again = self.of_log(topic)
        for node in with_unnamed(
            [resolve_references(self._lake, each) for each in nodes_below(topic, nodes)]
        ):
            records = self._records([node], DEAD_LETTER)
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
        log, names = whole_log(uri), _NO_RECORDS.column_names[:-1]
        dead = Wanted({Origin(("kind",), pa.string()): pa.array([DEAD_LETTER])})
        parts = [_log_rows(part, names) for part in parts_of(log, dead)]
        of_nobody = [part.append_column("node", pa.nulls(part.num_rows, pa.string())) for part in parts]
        records = pa.concat_tables([_NO_RECORDS, *(part.cast(_NO_RECORDS.schema) for part in of_nobody)])
        return self._grouped(records, [topic]), _sent_again(log, topic) if records.num_rows else 0

    def _records(self, nodes: Sequence[Node], fate: str) -> pa.Table | None:
        """The records of some nodes, each once for a node; those that are dead for every node once. None: ask Spark."""
        tables = [_NO_RECORDS]
        for node in nodes:
            if not progress_of(self._lake, node).upto_ms:
                continue  # it has read nothing yet
            if sum(part.bytes for part in read_slices(self._lake, node).values()) > HERE_BYTES:
                return None
            rows = fated_rows(self._spark, self._lake, node, fate)
            tables += [part.select(_NO_RECORDS.column_names).cast(_NO_RECORDS.schema) for _, part in rows]
        every = pa.concat_tables(tables)
        both = [("ingested_at", "first"), ("reason", "first")]
        once = every.group_by([*POSITION, "node"], use_threads=False).aggregate(both)
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


def fated_rows(
    spark: SparkSession, lake: Lake, node: Node, fate: str, more: Sequence[str] = ()
) -> list[tuple[Topic, pa.Table]]:
    """The records of each of a node's logs that met a fate, in any order. The logs have to fit into memory.

    In:  more  columns of the log that are wanted, too
    Out: topic, partition, offset, ingested_at, reason, node (see `records_by_fate`) and these
    """
    slices = read_slices(lake, node)
    places = _places(spark, lake, node, fate)
    return [(topic, _of_log(slices[topic.name], topic, places, node, more)) for topic in node.topics]


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


def late_rows(spark: SparkSession, lake: Lake, node: Node) -> pa.Table | None:
    """Late records, one row for each record and closed window; None: nothing can be late."""
    of = bound(spark, node.update_source)
    kernel = of.operator.kernel
    if kernel.late_scope is None:
        return None
    late: pa.Table = kernel.late(kernel.rows(read_feeds(spark, lake, node, of)))
    return late


def _places(spark: SparkSession, lake: Lake, node: Node, fate: str) -> pa.Table:
    """Topic, partition and offset of the records that met a fate, and `why`."""
    late = late_rows(spark, lake, node) if fate == LATE else None
    if late is not None:
        most = late.group_by([*POSITION]).aggregate([("late_by_ms", "max")])
        why = [f"late by {ms / 1_000:,.3f} s" for ms in most["late_by_ms_max"].to_pylist()]
        return most.select([*POSITION]).append_column("why", pa.array(why, pa.string()))
    of = bound(spark, node)
    decided = of.operator.kernel.decided(read_feeds(spark, lake, node, of))
    is_meant = pc.equal(decided[FATE], KEPT if fate in (USED, OPEN) else fate)
    decided = decided.filter(pc.and_(is_meant, decided[OFFSET].is_valid()))
    return decided.select([TOPIC, PARTITION, OFFSET, REASON]).rename_columns([*POSITION, "why"])


def _of_log(part: LogSlice, topic: Topic, places: pa.Table, node: Node, more: Sequence[str]) -> pa.Table:
    """The records of one log, with their commit times and reasons, and the node for which alone they are dead."""
    log = _log_rows(part, (*POSITION[1:], "ingested_at", "reason", "kind", *more))
    here = log.select(["partition", "offset"]).append_column("number", pa.array(np.arange(log.num_rows)))
    pairs = places.filter(pc.equal(places["topic"], topic.name)).join(
        here, ["partition", "offset"], join_type="inner"
    )
    rows = log.take(pairs["number"])
    nobody = pa.scalar(None, pa.string())
    columns = {name: rows[name] for name in rows.column_names} | {
        "topic": pairs["topic"],
        "reason": pc.coalesce(pairs["why"], rows["reason"]),
        "node": pc.if_else(pc.equal(rows["kind"], DEAD_LETTER), nobody, node.required_name),
    }
    return pa.table(columns)


def _log_rows(part: LogSlice, names: Sequence[str]) -> pa.Table:
    """Some columns of a log; those that it does not have are left out."""
    types = open_table(part.uri).columns
    return part.read({name: Origin((name,), types.field(name).type) for name in names if name in types.names})


def _json(column: pa.ChunkedArray) -> list[bytes | None]:
    return [text and text.encode() for text in json_values(column.combine_chunks()).to_pylist()]


def _most_first(groups: Sequence[DeadLetters]) -> list[DeadLetters]:
    return sorted(groups, key=lambda each: (-each.records, each.reason, each.node or ""))
