"""The records that met a fate, read by Arrow and grouped by reason. Spark starts only where it has to compute a step.

Law: the groups equal `by_reason` of `Views.records`, and of `Views.dead_letters`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import is_of_kafka, with_unnamed
from headrace.engine.log_slices import LogSlice, Origin
from headrace.errors import DescriptionError
from headrace.fold.contract import FATE, OFFSET, PARTITION, REASON, TOPIC
from headrace.fold.fates import FATES, KEPT, LATE, OPEN, USED
from headrace.fold.json_text import json_values
from headrace.fold.keys import combined, group
from headrace.lake import open_table
from headrace.nodes.node_tables import progress_of
from headrace.nodes.operator_frames import operator_of
from headrace.nodes.reader_rows import reader_rows
from headrace.nodes.references import resolve_references
from headrace.nodes.topics import nodes_below
from headrace.observe.dead_letters import NO_REASON, NUMBER, DeadLetters, by_reason, group_of
from headrace.observe.log_dead_letters import log_dead_letters
from headrace.observe.records_by_fate import below_topic, records_by_fate
from headrace.observe.views import Views
from headrace.sequence.log_columns import DEAD_LETTER
from headrace.spark.session import pinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake
    from headrace.nodes.reader_rows import ReaderRows

PLACE = ("topic", "partition", "offset")
MOMENT = pa.timestamp("us", "UTC")
READ = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "reason": pa.string(),
    "kind": pa.string(),
    "ingested_at": MOMENT,
}
_NO_RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("ingested_at", MOMENT),
        ("reason", pa.string()),
        ("node", pa.string()),
    ]
).empty_table()
CONTENTS = ("key", "value", "raw_key", "raw_value")


class FatedRecords:
    """Finds the records of a fate in a lake."""

    def __init__(self, spark: SparkSession, lake: Lake, examples: int) -> None:
        """In: spark  may start on demand; examples  how many of each reason are given, the newest."""
        self._spark, self._lake, self._examples = spark, lake, examples

    def of_node(self, node: Node, fate: str) -> list[DeadLetters]:
        """The records behind a count of a node, by reason (see `Views.records`); most first.

        Raises: DescriptionError when there is no such fate
        """
        if fate not in FATES:
            raise DescriptionError(f"There is no fate {fate!r}.", hint=f"There are: {', '.join(FATES)}.")
        node = resolve_references(self._lake, node)
        records = self._records([node] if fate in (USED, OPEN) else with_unnamed([node]), fate)
        if records is None:
            return by_reason(Views(self._spark, self._lake).records(node, fate), self._examples)
        return self._grouped(records, [node])

    def of_topic(self, topic: Topic, nodes: Sequence[Node]) -> tuple[list[DeadLetters], int]:
        """The dead letters of a topic, and those of the nodes below it, by reason; and how many stand in the log again.

        In: nodes  of the pipeline
        """
        groups, again = log_dead_letters(self._lake, nodes, topic, self._examples)
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
            groups += self._grouped(records.filter(pc.and_(from_here, records["node"].is_valid())), [node])
        return _most_first(groups), again

    def _records(self, nodes: Sequence[Node], fate: str) -> pa.Table | None:
        """The records of some nodes, each once for a node; those that are dead for every node once. None: ask Spark."""
        tables = [_NO_RECORDS]
        for node in nodes:
            if not progress_of(self._lake, node).upto_ms:
                continue  # it has read nothing yet
            rows = reader_rows(self._spark, self._lake, node)
            places = None if rows is None else self._places(rows, node, fate)
            if rows is None or places is None:
                return None
            tables += [_of_log(rows.slices[name], name, places, node) for name in rows.slices]
        every = pa.concat_tables(tables)
        both = [("ingested_at", "first"), ("reason", "first")]
        once = every.group_by([*PLACE, "node"], use_threads=False).aggregate(both)
        return once.rename_columns({f"{name}_first": name for name, _ in both}).select(
            _NO_RECORDS.column_names
        )

    def _places(self, rows: ReaderRows, node: Node, fate: str) -> pa.Table | None:
        """Topic, partition, offset of the records that met a fate, and `why`. None: ask Spark."""
        if fate == LATE:
            of_updated = (
                rows
                if operator_of(node).updated is node
                else reader_rows(self._spark, self._lake, node, updated=True)
            )
            if of_updated is None:
                return None
            if (late := of_updated.late) is not None:
                most = late.group_by([*PLACE]).aggregate([("late_by_ms", "max")])
                why = [f"late by {ms / 1_000:,.3f} s" for ms in most["late_by_ms_max"].to_pylist()]
                return most.select([*PLACE]).append_column("why", pa.array(why, pa.string()))
        decided = rows.decided.select([TOPIC, PARTITION, OFFSET, REASON, FATE])
        is_meant = pc.equal(decided[FATE], KEPT if fate in (USED, OPEN) else fate)
        found = decided.filter(pc.and_(is_meant, decided[OFFSET].is_valid()))
        return found.drop_columns([FATE]).rename_columns([*PLACE, "why"])

    def _grouped(self, records: pa.Table, nodes: Sequence[Node]) -> list[DeadLetters]:
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
        topics = {topic.name: topic for node in with_unnamed(nodes) for topic in node.topics}
        found = []
        for number in range(len(groups)):
            places = np.flatnonzero(groups.codes == number)
            first_at = records["ingested_at"][int(places[-1])].as_py()
            rows = records.take(pa.array(places[: max(self._examples, 1)])).to_pylist()
            counts = {"records": len(places), "first_at": first_at}
            shown = [{**row, **counts, **self._contents(topics[row["topic"]], row)} for row in rows]
            found.append(group_of(rows[0]["alike"], rows[0]["node"], shown, self._examples))
        return _most_first(found)

    def _contents(self, topic: Topic, row: dict[str, Any]) -> dict[str, bytes | None]:
        """Key and value of a record: JSON as the log has them; of the log's own dead letters their bytes."""
        uri = self._lake.log(topic.name)
        at_ms = round(row["ingested_at"].timestamp() * 1_000)
        types = open_table(uri).columns
        read = {name: Origin((name,), types.field(name).type) for name in CONTENTS if name in types.names}
        place = {name: Origin((name,), READ[name]) for name in ("partition", "offset")}
        commit = LogSlice.of(uri, at_ms - 1, at_ms).read({**place, **read})
        is_it = pc.and_(
            pc.equal(commit["partition"], row["partition"]), pc.equal(commit["offset"], row["offset"])
        )
        record = commit.filter(is_it)
        if row["node"] is None:  # dead for every node: the log has its bytes, if it is one of Kafka's
            return {
                name: record[f"raw_{name}"][0].as_py() if is_of_kafka(topic) else None
                for name in ("key", "value")
            }
        value = json_values(record["value"].combine_chunks())[0].as_py()
        key = json_values(record["key"].combine_chunks())[0].as_py() if topic.key_columns else None
        return {
            "key": None if key is None else key.encode(),
            "value": None if value is None else value.encode(),
        }


def _of_log(part: LogSlice, topic: str, places: pa.Table, node: Node) -> pa.Table:
    """The records of one log, with their commit times and reasons, and the node for which alone they are dead."""
    log = part.read({name: Origin((name,), of) for name, of in READ.items()})
    mine = places.filter(pc.equal(places["topic"], topic))
    found = mine.join(log.filter(log["offset"].is_valid()), ["partition", "offset"], join_type="inner")
    alone = pc.if_else(pc.equal(found["kind"], DEAD_LETTER), pa.scalar(None, pa.string()), node.required_name)
    columns = {name: found[name] for name in (*PLACE, "ingested_at")}
    return pa.table({**columns, "reason": pc.coalesce(found["why"], found["reason"]), "node": alone}).cast(
        _NO_RECORDS.schema
    )


def _most_first(groups: Sequence[DeadLetters]) -> list[DeadLetters]:
    return sorted(groups, key=lambda each: (-each.records, each.reason, each.node or ""))
